"""Object stores that the laws run on: one that a library plays, and a real gateway over a folder.

Owns how each is started and filled. Rule: a law begins with a copy of a pipeline's files, as on disks, under a
prefix of its own; what is known of a store goes in by the warehouse's options alone.
"""

import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from pyarrow import fs

from kstreams_replay.state.tables.object_stores import open_filesystem
from kstreams_replay.state.tables.warehouse import Warehouse

BUCKET = "warehouses"
KEY, SECRET = "replay", "replay-secret"
GATEWAY = "/".join((".".join(("github", "com")), "versity/versitygw/cmd/versitygw@v1.8.0"))
"""A Go program that serves a folder as S3."""
START_SECONDS = 60


@dataclass(frozen=True)
class ObjectStore:
    """A store at ``endpoint``, with one bucket."""

    endpoint: str

    @property
    def options(self) -> dict[str, str]:
        """As a user writes them."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def files(self) -> fs.S3FileSystem:
        """Of pyarrow, made here and not by the code under test."""
        return fs.S3FileSystem(
            access_key=KEY, secret_key=SECRET, region="us-east-1", scheme="http",
            endpoint_override=self.endpoint.removeprefix("http://"), allow_bucket_creation=True,
        )  # fmt: skip

    def warehouse(self) -> Warehouse:
        """An empty one under a prefix of its own."""
        return Warehouse(f"s3://{BUCKET}/{uuid.uuid4().hex}/warehouse", self.options)

    def filled(self, folder: Path) -> Warehouse:
        """A copy of the warehouse in ``folder``."""
        made = self.warehouse()
        filesystem, path = open_filesystem(made.root)
        fs.copy_files(str(folder), path, source_filesystem=fs.LocalFileSystem(), destination_filesystem=filesystem)
        return made


_PLAY = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


@contextmanager
def played_store() -> Iterator[ObjectStore]:
    """By moto, in memory, in a process of its own: Delta asks for a table's history with Python's lock held, in which a
    server in this process could not answer. It ends with the pipe to it.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _PLAY], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            store = ObjectStore(process.stdout.readline().strip())
            urlopen(store.endpoint).read()  # imports its S3, for longer than pyarrow waits on a busy machine
            yield _with_bucket(store)
        finally:
            process.stdin.close()


@contextmanager
def gateway_store(folder: Path) -> Iterator[ObjectStore]:
    """The gateway over ``folder``, built by Go; a failure is raised with its output."""
    served, beside = folder / "served", folder / "beside"
    for each in (served, beside):
        each.mkdir(parents=True)
    environment = os.environ | {"GOBIN": str(folder), "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    subprocess.run(["go", "install", GATEWAY], env=environment, check=True)
    port = _free_port()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [str(folder / "versitygw"), "--port", f"127.0.0.1:{port}", "--region", "us-east-1",
             "posix", "--sidecar", str(beside), str(served)],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait_for(port, process, folder / "log")
        yield _with_bucket(ObjectStore(f"http://127.0.0.1:{port}"))
    finally:
        process.terminate()
        process.wait()


def _with_bucket(store: ObjectStore) -> ObjectStore:
    store.files().create_dir(BUCKET)
    return store


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the gateway does not answer: {log.read_text()}")
