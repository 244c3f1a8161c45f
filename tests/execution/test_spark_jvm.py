"""What the JVM writes to stderr: held while it starts, then forwarded, without the lines that say nothing."""

import os
import time

from pyspark import SparkContext

from kstreams_replay.jobs.execution import spark_jvm
from kstreams_replay.jobs.execution.spark_jvm import JvmStderr, start_context
from kstreams_replay.state import hidden_values

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


def test_a_credential_among_the_settings_is_no_argument_of_the_jvm_and_reaches_spark_all_the_same(monkeypatch):
    settings = {
        "spark.master": "local[1]", "spark.authenticate": "true", "spark.authenticate.secret": "MARKED-secret",
        "spark.hadoop.fs.s3a.access.key": "MARKED-key", "spark.ssl.keyPassword": "MARKED-password",
    }  # fmt: skip
    given: dict[str, dict[str, str]] = {}
    monkeypatch.setattr(hidden_values, "_hidden", set())
    # Another test of this process may have started a JVM, whose properties a SparkConf begins with.
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(spark_jvm, "launch_gateway", lambda conf, **_: given.update(launched=dict(conf.getAll())))
    monkeypatch.setattr(spark_jvm, "SparkContext", lambda conf, **_: given.update(context=dict(conf.getAll())))

    start_context(settings)

    assert given == {
        "launched": {"spark.master": "local[1]", "spark.authenticate": "true"},
        "context": settings,
    }  # fmt: skip
    assert hidden_values.without_hidden("no such MARKED-password") == "no such [hidden]"
