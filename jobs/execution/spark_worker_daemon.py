"""Starts Spark's Python workers from the installed PySpark.

Spark puts archives (``pyspark.zip``, a jar) first on the path of its workers and forgets what it knows of imports
before every task, so that each task reads the archives' directories again. Our packages must be installed where workers
run anyway, and PySpark with them. And a write of Spark to a worker waits until the worker has acknowledged the write
before, which Linux delays by 40 ms by default. Together: 70 ms a task.
"""

import io
import os
import socket
import sys
from typing import BinaryIO


class PromptReader(io.RawIOBase):
    """Reads from a TCP connection and acknowledges at once what has come."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # holds for a short time only
        return self._connection.recv_into(buffer)

    def close(self) -> None:
        self._connection.close()
        super().close()


def prompt(infile: BinaryIO) -> BinaryIO:
    """``infile``, from which a worker reads its task, acknowledged at once where the system can do so."""
    connection = socket.socket(fileno=os.dup(infile.fileno()))
    if not hasattr(socket, "TCP_QUICKACK") or connection.family == socket.AF_UNIX:
        connection.close()
        return infile
    return io.BufferedReader(PromptReader(connection), io.DEFAULT_BUFFER_SIZE)


if __name__ == "__main__":
    for entry in [entry for entry in sys.path if entry.endswith((".zip", ".jar"))]:
        sys.path.remove(entry)
        sys.path_importer_cache.pop(entry, None)  # else its directory is read all the same
    from pyspark import daemon

    main = daemon.worker_main
    daemon.worker_main = lambda infile, outfile: main(prompt(infile), outfile)
    daemon.manager()  # type: ignore[no-untyped-call]
