"""A hook for webhooks of Slack's kind: verdicts that need somebody come in as lines of JSON, and go out as messages.

    set -o pipefail
    replay check TOPOLOGY --warehouse W --pipeline P --json | python -m examples.alerts.slack_webhook URL

Owns the message. Rule: one message a verdict, so that each can be answered; a verdict that needs nobody is passed over.
With ``pipefail`` the exit code stays that of the check, unless a message could not be sent: then it is 1.
"""

import json
import sys
import urllib.request
from collections.abc import Iterable
from typing import Any

SECONDS_MAX = 10
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
"""What Slack takes for a command where it is not escaped."""


def message(verdict: dict[str, Any]) -> str:
    """What somebody must know who is woken by it: what is wrong, where, by which rows, and where to look."""
    lines = [
        f"*{verdict['verdict']}* ({verdict['severity']}): {verdict['guarantee']} of {verdict['pipeline']}, "
        f"{verdict['table']}, increment {verdict['increment']}",
        verdict["statement"],
    ]
    if verdict["broken"]:
        lines.append(f"broken: {', '.join(verdict['broken'])}; observed {json.dumps(verdict['observed'])}")
    if verdict["reason"]:
        lines.append(verdict["reason"])
    if verdict["witnesses"]:
        lines.append(f"first of {len(verdict['witnesses'])} witnesses: {json.dumps(verdict['witnesses'][0])}")
    if verdict["page"]:
        lines.append(verdict["page"])
    return "\n".join(lines)


def post(url: str, text: str) -> None:
    """Send one message. Raises OSError when it was not taken."""
    for letter, escape in _ESCAPES.items():
        text = text.replace(letter, escape)
    body = json.dumps({"text": text}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=SECONDS_MAX).close()


def main(url: str, lines: Iterable[str]) -> int:
    """Send what needs somebody; 1 when one of the messages could not be sent, else 0."""
    code = 0
    for line in lines:
        verdict = json.loads(line)
        if not verdict["is_alarm"]:
            continue
        try:
            post(url, message(verdict))
        except OSError as error:
            print(f"{verdict['guarantee']} of {verdict['table']}: not sent: {error}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.stdin))
