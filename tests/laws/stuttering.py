"""``python -m tests.laws.stuttering URL``: a proxy before an object store that fails as the real ones do.

Owns the faults and the count of what was asked. Rule: the dice are thrown once a request, seeded, and nobody but the
proxy knows of them. It is a process of its own, since Delta may wait for an answer with Python's lock held; it ends
with the pipe to it. Requests go through unchanged, ``Host`` included, since they are signed.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import struct
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from urllib.parse import parse_qs, urlsplit

FAULTS = ("500", "503", "reset", "lost", "cut", "slow")
"""Refused with an error of the server or with SlowDown. The connection is reset before the request was handed on, or
after it was carried out. Half of the answer's body and a reset. An answer that takes SLOW_SECONDS longer."""
SLOW_SECONDS = 0.2
_CONTROL = "/-faults"
_SLOW_DOWN = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>'
_INTERNAL = b'<?xml version="1.0"?><Error><Code>InternalError</Code><Message>An error occurred.</Message></Error>'
_ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER by which a close is a reset."""


@dataclass(frozen=True)
class Stutter:
    """What the proxy does from now on: a ``share`` in [0, 1] of the requests fails, each by one of ``faults``.

    Only requests fail whose kind and path have ``only`` in them, and ``most`` of them.
    """

    share: float = 0.0
    seed: int = 0
    faults: tuple[str, ...] = FAULTS
    only: str = ""
    most: int = 1 << 62


@dataclass(frozen=True)
class Proxy:
    """A running one, at ``endpoint``."""

    endpoint: str

    def begin(self, stutter: Stutter | None = None) -> None:
        """Fail so from now on (None: never), with counts of zero."""
        body = json.dumps(asdict(stutter or Stutter())).encode()
        urllib.request.urlopen(f"{self.endpoint}{_CONTROL}", data=body).read()

    def counts(self) -> Counter[str]:
        """Requests by kind, and faults by name, since ``begin``."""
        answer: bytes = urllib.request.urlopen(f"{self.endpoint}{_CONTROL}").read()
        return Counter(json.loads(answer))

    def asked(self) -> list[str]:
        """The requests themselves since ``begin``: kind and path, in their order."""
        answer: bytes = urllib.request.urlopen(f"{self.endpoint}{_CONTROL}/asked").read()
        return list(json.loads(answer))


@contextmanager
def proxy_before(endpoint: str) -> Iterator[Proxy]:
    """A proxy before the store at ``endpoint``, which fails at nothing yet."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "tests.laws.stuttering", endpoint]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield Proxy(process.stdout.readline().strip())
        finally:
            process.stdin.close()


def kind_of(method: str, target: str) -> str:
    """GET, PUT, LIST, HEAD or DELETE; a POST is counted as what it is for."""
    query = parse_qs(urlsplit(target).query, keep_blank_values=True)
    if method == "GET" and ("list-type" in query or query.get("comp") == ["list"]):
        return "LIST"
    if method == "POST":
        return "DELETE" if "delete" in query else "PUT"
    return method


@dataclass
class _Message:
    """A request or an answer: the first line and the headers as they came, and the body."""

    first: str
    head: bytes
    body: bytes
    keeps: bool
    """Whether the connection stays."""


async def _read_message(reader: asyncio.StreamReader, *, answers: str = "") -> _Message:
    """``answers``: the method of the request that an answer is to, "" for a request."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    status = lines[0].split(" ")[1]
    keeps = headers.get("connection", "").lower() != "close" and "HTTP/1.0" not in lines[0]
    if answers == "HEAD" or (answers and status in ("204", "304")):
        return _Message(lines[0], head, b"", keeps)
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _Message(lines[0], head, await _read_chunks(reader), keeps)
    if "content-length" not in headers and answers:
        return _Message(lines[0], head, await reader.read(), keeps=False)
    return _Message(lines[0], head, await reader.readexactly(int(headers.get("content-length", 0))), keeps)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    """As they came, sizes included."""
    pieces = []
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        pieces += [line, await reader.readexactly(size + 2)]
        if size == 0:
            return b"".join(pieces)


class _Server:
    """Answers one store's clients. Connections to the store are kept, one a client's connection."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._connections = set[asyncio.Task[None]]()
        self._begin(Stutter())

    def _begin(self, stutter: Stutter) -> None:
        self._stutter, self._dice = stutter, random.Random(stutter.seed)
        self._counts, self._asked = Counter[str](), list[str]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        store: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._hold(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                request = await _read_message(reader)
                method, target, _ = request.first.split(" ")
                if target.startswith(_CONTROL):
                    writer.write(self._control(method, target, request.body))
                    continue
                fault = self._throw(method, target)
                if fault in ("500", "503"):
                    writer.write(_refusal(fault, method))
                    continue
                if fault == "reset":
                    break
                store = store or await asyncio.open_connection(self._host, self._port)
                store[1].write(request.head + request.body)
                answer = await _read_message(store[0], answers=method)
                if not answer.keeps:
                    store[1].close()
                    store = None
                if fault == "lost" or (fault == "cut" and not answer.body):
                    break
                if fault == "cut":
                    writer.write(answer.head + answer.body[: len(answer.body) // 2])
                    await writer.drain()
                    await asyncio.sleep(0.005)  # so that what was sent arrives before the reset
                    break
                if fault == "slow":
                    await asyncio.sleep(SLOW_SECONDS)
                writer.write(answer.head + answer.body)
                await writer.drain()
                if not answer.keeps:
                    writer.close()
                    return
        if store is not None:
            store[1].close()
        with suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        writer.close()

    def _hold(self, connection: asyncio.Task[None] | None) -> None:
        """Before Python 3.12 nobody else does, and a connection that waits for its client may be collected."""
        assert connection is not None
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    def _throw(self, method: str, target: str) -> str | None:
        """What happens to the request; None: nothing."""
        kind = kind_of(method, target)
        self._counts[kind] += 1
        self._asked.append(f"{kind} {target}")
        stutter, failed = self._stutter, sum(self._counts[fault] for fault in FAULTS)
        if self._dice.random() >= stutter.share or failed >= stutter.most or stutter.only not in self._asked[-1]:
            return None
        fault = self._dice.choice(self._stutter.faults)
        self._counts[fault] += 1
        return fault

    def _control(self, method: str, target: str, body: bytes) -> bytes:
        if method == "POST":
            said = json.loads(body)
            self._begin(replace(Stutter(), **said | {"faults": tuple(said["faults"])}))
        found = self._asked if target.endswith("/asked") else self._counts
        return _answer("200 OK", json.dumps(found).encode())


def _refusal(fault: str, method: str) -> bytes:
    status, body = ("500 Internal", _INTERNAL) if fault == "500" else ("503 Slow Down", _SLOW_DOWN)
    return _answer(status, b"" if method == "HEAD" else body)


def _answer(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def _run(url: str) -> None:
    there = urlsplit(url)
    assert there.hostname is not None
    assert there.port is not None
    server = await asyncio.start_server(_Server(there.hostname, there.port).serve, "127.0.0.1", 0, limit=1 << 24)
    print("http://{}:{}".format(*server.sockets[0].getsockname()[:2]), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # connections that are open go with it, and without a word


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.stuttering", description=__doc__)
    parser.add_argument("url", help="of the store, such as http://127.0.0.1:9000")
    asyncio.run(_run(parser.parse_args(arguments).url))
    return 0


if __name__ == "__main__":
    sys.exit(main())
