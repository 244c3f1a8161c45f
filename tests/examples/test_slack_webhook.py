"""The hook for webhooks of Slack's kind, against a receiver on this machine."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from examples.alerts.slack_webhook import main
from kstreams_replay.expectations.verdicts import Verdict
from kstreams_replay.orchestration.quality.verdict_lines import verdict_line

HOLDS = Verdict("G1", "One final result per key and window.", "one", "outputs/counts", 3, 3, "true")
BROKEN = Verdict(
    "G1", "One final result per key and window.", "one", "outputs/counts", 4, 4, "false",
    observed={"finals": 3, "repeated": 1}, witnesses=[{"key": "<!channel>", "offset": 7}],
    broken=("expect_one_final_row_per_key_window",), page="http://localhost/docs/page.html",
)  # fmt: skip
UNKNOWN = Verdict("G3", "The books balance.", "books", "ledger", None, 4, "unknown", reason="the table is not there")


@pytest.fixture
def receiver():
    """Messages that came, and the address to which they go; its path is the answer."""
    came: list[dict[str, str]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(int(self.path[1:]))
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield came, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def lines(*verdicts):
    return [verdict_line("shop", verdict) + "\n" for verdict in verdicts]


def test_each_verdict_that_needs_somebody_is_a_message_and_others_are_none(receiver):
    came, url = receiver

    code = main(f"{url}/200", lines(HOLDS, BROKEN, UNKNOWN))

    assert code == 0
    assert [message["text"] for message in came] == [
        "*failed* (error): G1 of shop, outputs/counts, increment 4\n"
        "One final result per key and window.\n"
        'broken: expect_one_final_row_per_key_window; observed {"finals": 3, "repeated": 1}\n'
        'first of 1 witnesses: {"key": "&lt;!channel&gt;", "offset": 7}\n'
        "http://localhost/docs/page.html",
        "*not checked* (error): G3 of shop, ledger, increment 4\nThe books balance.\nthe table is not there",
    ]


def test_a_message_that_is_not_taken_is_told_and_the_next_one_sent(receiver, capsys):
    came, url = receiver

    code = main(f"{url}/500", lines(BROKEN, UNKNOWN))

    assert code == 1
    assert len(came) == 2
    assert "G1 of outputs/counts: not sent" in capsys.readouterr().err
