"""Ctrl-C while Spark starts: two lines, at once, and nothing of Java."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.orchestration.cli.test_main import SHOP


@pytest.mark.jvm
@pytest.mark.parametrize("command", ["run", "land"])
def test_ctrl_c_while_spark_starts_ends_in_two_lines(tmp_path, clicks, command):
    """The group gets the signal, as from a terminal: the JVM too."""
    commands = {
        "run": ["run", SHOP, "--pipeline", "shop"],
        "land": ["land", "clicks", "--files", clicks, "--timestamp", "ms"],
    }
    process = subprocess.Popen(
        [sys.executable, "-c", STARTS, *commands[command], "--warehouse", tmp_path / "w", "--master", "local[2]"],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "launching\n"
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)

    assert process.returncode == 130
    rest = re.sub(r"^(loading the topology|starting Spark|resolving Spark's packages) · for \d+ s\n", "", said)
    assert rest == (
        "replay: stopped by Ctrl-C\nreplay: what was committed before stays; the same command continues from there\n"
    )


STARTS = """
import signal, sys, time
from pyspark.java_gateway import launch_gateway
from kstreams_replay.jobs.execution import spark_jvm
from kstreams_replay.orchestration.cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)

def launch(conf, popen_kwargs):
    print("launching", flush=True)
    return launch_gateway(conf, popen_kwargs=popen_kwargs)

spark_jvm.launch_gateway = launch
sys.exit(main())
"""
"""The command, which says when it launches the JVM. A process in the background of a shell would ignore the signal."""
