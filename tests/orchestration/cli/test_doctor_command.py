"""What `replay doctor` finds, on machines that lack something."""

import http.server
import json
import os
import socket
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from kstreams_replay.orchestration.cli import machine_checks
from kstreams_replay.orchestration.cli.machine_checks import GIB, look_at_machine
from kstreams_replay.state.tables import object_files, object_stores
from tests.laws.object_stores import BUCKET, played_store

USAGE = namedtuple("Usage", "total used free")


@pytest.fixture
def findings(command, monkeypatch):
    """Findings by their check; the exit code is 4 when one is wrong."""
    monkeypatch.delenv("REPLAY_WAREHOUSE", raising=False)

    def found(*words: object) -> dict[str, dict[str, str]]:
        code, out, _ = command("doctor", *words, "--json")
        lines = json.loads(out)["findings"]
        assert code == (4 if any(each["verdict"] == "wrong" for each in lines) else 0)
        return {each["check"]: each for each in lines}

    return found


def test_a_folder_that_can_be_written_is_ok_and_is_left_as_it_was(findings, tmp_path):
    found = findings("--warehouse", tmp_path / "not" / "there")

    assert found["clock"]["verdict"] == "ok"
    assert list(tmp_path.iterdir()) == []


def test_people_read_a_table_and_what_to_do(command, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    code, out, _ = command("doctor")

    assert code == 0
    assert out.splitlines()[0].split() == ["check", "verdict", "found"]
    (said,) = [line for line in out.splitlines() if line.startswith("java: ")]
    assert said.endswith("on PATH, or set JAVA_HOME to it; --local and the test driver need none")


@pytest.mark.parametrize(
    ("free", "verdict"), [(6 * GIB, "ok"), (5 * GIB, "ok"), (5 * GIB - 1, "warning"), (GIB // 2 - 1, "wrong")]
)
def test_a_disk_that_is_nearly_full_is_named(findings, monkeypatch, tmp_path, free, verdict):
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda _: USAGE(100 * GIB, 0, free))

    assert findings("--warehouse", tmp_path)["disk"]["verdict"] == verdict


def test_the_limit_of_a_container_counts_before_the_memory_of_the_machine(findings, monkeypatch):
    monkeypatch.setattr(machine_checks, "_limits_of_container", lambda: iter([GIB]))

    found = findings()["memory"]
    assert found["verdict"] == "warning"
    assert found["found"].startswith("1.0 GiB by the container's limit, of ")


@pytest.mark.parametrize(("seconds", "verdict"), [(0, "ok"), (-3600, "warning"), (3600, "warning")])
def test_a_clock_that_is_not_that_of_the_storage_is_named(findings, monkeypatch, tmp_path, seconds, verdict):
    def set_time(path: str) -> None:
        there = Path(path)
        os.utime(there, (there.stat().st_atime, there.stat().st_mtime + seconds))

    opened = machine_checks.open_filesystem

    class Shifted:
        def __init__(self, filesystem):
            self.filesystem = filesystem

        def __getattr__(self, name):
            return getattr(self.filesystem, name)

        def get_file_info(self, path):
            set_time(path)
            return self.filesystem.get_file_info(path)

    def shifted(directory):
        filesystem, path = opened(directory)
        return Shifted(filesystem), path

    monkeypatch.setattr(machine_checks, "open_filesystem", shifted)
    assert findings("--warehouse", tmp_path)["clock"]["verdict"] == verdict


@pytest.mark.slow
@pytest.mark.parametrize(("refuses", "verdict"), [(True, "ok"), (False, "wrong")])
def test_a_store_that_overwrites_is_wrong(monkeypatch, refuses, verdict):
    with played_store() as store:
        monkeypatch.setattr(object_stores, "_REFUSES", set())
        monkeypatch.setattr(object_stores, "_OPTIONS", {})
        monkeypatch.setattr(object_files.ObjectFiles, "makes_once", lambda self, path: refuses)
        object_stores.remember_options(f"s3://{BUCKET}/w", dict(store.options))
        found = {each.check: each for each in look_at_machine(f"s3://{BUCKET}/w")}

    assert found["storage"].verdict == verdict


def test_a_broker_that_does_not_answer_is_named(findings):
    with socket.create_server(("127.0.0.1", 0)) as server:
        open_port = server.getsockname()[1]
        assert findings("--kafka", f"127.0.0.1:{open_port}")["kafka"]["verdict"] == "ok"
    assert findings("--kafka", f"127.0.0.1:{open_port}")["kafka"]["verdict"] == "wrong"
    assert findings("--kafka", "broker")["kafka"]["next_step"] == "write it as in localhost:9092"


@pytest.mark.parametrize(
    ("status", "body", "verdict", "said"),
    [
        (200, b'["a-value", "b-value"]', "ok", "has 2 subjects"),
        (401, b"", "ok", "answers, and asks for credentials"),
        (404, b"", "wrong", "answers 404"),
        (200, b"<html>", "wrong", "Expecting value"),
    ],
)
def test_a_registry_lists_its_subjects(findings, status, body, verdict, said):
    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.path == "/subjects"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        found = findings("--registry", f"http://127.0.0.1:{server.server_address[1]}")["registry"]
        server.shutdown()
        thread.join()

    assert found["verdict"] == verdict
    assert said in found["found"]


def test_credentials_in_a_url_are_refused_and_not_shown(command):
    code, out, err = command("doctor", "--registry", f"http://{'ann:secret'}@localhost")

    assert (code, out) == (2, "")
    assert "secret" not in err


def test_options_of_a_store_need_the_store(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REPLAY_WAREHOUSE", raising=False)

    assert command("doctor", "--storage-option", "AWS_REGION=eu")[0] == 2
