"""What the JVM writes to stderr: held while it starts, then forwarded, without the lines that say nothing."""

import os
import time

from kstreams_replay.jobs.execution.spark_jvm import JvmStderr

INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


def until(holds) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_lines_are_held_until_the_jvm_has_started_and_then_passed_on_as_they_come():
    read_end, target = os.pipe()
    os.set_blocking(read_end, False)
    with open(read_end, "rb", buffering=0) as passed_on, open(target, "wb"):
        stderr, said = JvmStderr(target), bytearray()

        os.write(stderr.write_end, INCUBATOR + b"java.lang.Error: no\n\tat x\n")
        until(lambda: stderr.held() == "java.lang.Error: no\n\tat x")
        assert passed_on.read() is None  # nothing there yet

        stderr.pass_on()
        os.write(stderr.write_end, INCUBATOR + b"spark ERROR x\n")
        os.close(stderr.write_end)
        until(lambda: said.extend(passed_on.read() or b"") or said.endswith(b"spark ERROR x\n"))

    assert said == b"java.lang.Error: no\n\tat x\nspark ERROR x\n"
