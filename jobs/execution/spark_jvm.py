"""The JVM that Spark runs in, and what it writes to stderr.

Rule: while it starts, its lines are held. If it does not start, the error has them as a note; else they are dropped.
Afterwards each line goes to this process's stderr, except those without information. PySpark hands settings to the JVM
as arguments, which every user of the machine can read. So a credential comes after the start, by the socket.
"""

import os
import signal
from threading import Lock, Thread, current_thread, main_thread
from typing import Any, BinaryIO

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from ...state.hidden_values import hide, is_credential, without_hidden

MEANINGLESS = (b"WARNING: Using incubator modules: jdk.incubator.vector",)
"""Lines about settings that Spark itself has switched on."""

STDERR = 2


class JvmStderr:
    """Reads ``write_end``, which the JVM gets as its stderr, until the JVM and its children are gone.

    ``target``: the file descriptor to which the lines go, this process's stderr.
    """

    def __init__(self, target: int = STDERR) -> None:
        self._target = target
        read_end, self.write_end = os.pipe()
        self._lock, self._held = Lock(), list[bytes]()
        self._is_held = True
        Thread(target=self._read, args=(os.fdopen(read_end, "rb"),), name="replay-jvm-stderr", daemon=True).start()

    def pass_on(self) -> None:
        """Write what was held, and from now on every line at once."""
        with self._lock:
            self._is_held = False
            self._write(b"".join(self._held))
            self._held.clear()

    def held(self) -> str:
        """The lines so far."""
        with self._lock:
            return b"".join(self._held).decode(errors="replace").rstrip()

    def _read(self, stream: BinaryIO) -> None:
        for line in stream:
            if line.strip() in MEANINGLESS:
                continue
            with self._lock:
                if self._is_held:
                    self._held.append(line)
                else:
                    self._write(line)

    def _write(self, lines: bytes) -> None:
        """To the file and not to ``sys.stderr``, whose lock this thread could hold when the interpreter ends."""
        while lines:
            lines = lines[os.write(self._target, lines) :]


def start_context(settings: dict[str, str]) -> None:
    """Launch a JVM and the SparkContext of this process in it. Raises what PySpark raises, with the JVM's lines as a
    note; what is a credential among ``settings`` is not shown.
    """
    hide(settings)
    said = SparkConf().setAll([(name, value) for name, value in settings.items() if not is_credential(name)])
    conf = SparkConf().setAll(list(settings.items()))
    stderr = JvmStderr()
    try:
        SparkContext(conf=conf, gateway=_gateway(said, stderr))
    except Exception as error:
        error.add_note(without_hidden(stderr.held()))
        raise
    stderr.pass_on()


def _gateway(conf: SparkConf, stderr: JvmStderr) -> Any:
    # Python runs hooks in the child before it becomes Java, and a Ctrl-C in one of them prints a traceback. The main
    # thread takes the signal; where this is the main thread, it has to stay free for it.
    is_main = current_thread() is main_thread()
    before = None if is_main else signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return launch_gateway(conf, popen_kwargs={"stderr": stderr.write_end})  # type: ignore[no-untyped-call]
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # The child has its own copy. The reader's thread ends when all copies are closed, so this
        # one must not stay open.
        os.close(stderr.write_end)
