"""Object stores that the laws run on: one that a library plays, and a real gateway over a folder.

Owns how each is started and filled. Rule: a law begins with a copy of a pipeline's files, as on disks, under a
prefix of its own; what is known of a store goes in by the warehouse's options alone.
"""

import base64
import hmac
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.request import urlopen

from pyarrow import fs

from kstreams_replay.state.tables.object_stores import open_filesystem
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.once_a_run import once_a_run

BUCKET = "warehouses"
KEY, SECRET = "key-of-tests", "secret-of-tests"
GATEWAY = "/".join((".".join(("github", "com")), "versity/versitygw/cmd/versitygw@v1.8.0"))
"""A Go program that serves a folder as S3."""
AZURITE = "azurite@3.37.0"
"""A Node.js program that plays Azure's blobs, of Azure's own makers."""
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Of every Azurite: no secret."""
START_SECONDS = 60


@dataclass(frozen=True)
class ObjectStore:
    """A store at ``endpoint``, with one bucket. ``served``: the folder that it serves; None: it has none. ``scheme``:
    "s3" or "az".
    """

    endpoint: str
    served: Path | None = None
    scheme: str = "s3"

    @property
    def options(self) -> dict[str, str]:
        """As a user writes them."""
        if self.scheme == "az":
            return {
                "azure_storage_endpoint": f"{self.endpoint}/{AZURE_ACCOUNT}",
                "azure_storage_account_name": AZURE_ACCOUNT,
                "azure_storage_account_key": AZURE_KEY,
                "allow_http": "true",
            }
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
            request_timeout=START_SECONDS, connect_timeout=START_SECONDS,
        )  # fmt: skip

    def warehouse(self) -> Warehouse:
        """An empty one under a prefix of its own."""
        return Warehouse(f"{self.scheme}://{BUCKET}/{uuid.uuid4().hex}/warehouse", self.options)

    def filled(self, folder: Path) -> Warehouse:
        """A copy of the warehouse in ``folder``; where the store serves a folder, made there, without a request."""
        made = self.warehouse()
        if self.served is not None:
            shutil.copytree(folder, self.served / made.root.removeprefix("s3://"))
            return made
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
        yield _with_bucket(ObjectStore(f"http://127.0.0.1:{port}", served))
    finally:
        process.terminate()
        process.wait()


@contextmanager
def azure_store(folder: Path) -> Iterator[ObjectStore]:
    """Azurite, in memory; what it leaves behind is in ``folder``."""
    installed, port = once_a_run("azurite", _install_azurite), _free_port()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [str(installed / "node_modules/.bin/azurite-blob"), "--inMemoryPersistence", "--disableTelemetry",
             "--skipApiVersionCheck", "--blobPort", str(port)],
            cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait_for(port, process, folder / "log")
        store = ObjectStore(f"http://127.0.0.1:{port}", scheme="az")
        _make_container(store.endpoint)
        yield store
    finally:
        process.terminate()
        process.wait()


def _install_azurite(folder: Path) -> None:
    """By npm; a failure is raised with its output."""
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), AZURITE], check=True)


def _make_container(endpoint: str) -> None:
    """By hand, since obstore makes none."""
    at, version, resource = formatdate(usegmt=True), "2021-08-06", f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}"
    said = "\n".join(["PUT", *[""] * 11, f"x-ms-date:{at}", f"x-ms-version:{version}", resource, "restype:container"])
    signed = base64.b64encode(hmac.digest(base64.b64decode(AZURE_KEY), said.encode(), "sha256")).decode()
    headers = {
        "x-ms-date": at, "x-ms-version": version, "Authorization": f"SharedKey {AZURE_ACCOUNT}:{signed}",
        "Content-Length": "0",
    }  # fmt: skip
    url = f"{endpoint}/{AZURE_ACCOUNT}/{BUCKET}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers)).close()


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
