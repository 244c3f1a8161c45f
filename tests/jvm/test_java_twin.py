"""Kafka Streams itself passes the Java test that docs/testing-a-topology.md shows beside its Python."""

import subprocess
from pathlib import Path

import pytest

from tests.jvm.streams import STREAMS, TEST_UTILS, compiled
from tests.test_docs import code_blocks, document

pytestmark = pytest.mark.jvm

TWIN = """
import java.time.*;
import java.util.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

public class Twin {
    static void assertEquals(Object wanted, Object got) {
        if (!wanted.equals(got)) {
            throw new AssertionError("wanted " + wanted + ", got " + got);
        }
    }

    public static void main(String[] arguments) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("words"))
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        Topology topology = builder.build();
        Properties props = new Properties();
        props.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        SHOWN
        System.out.println("passed");
    }
}
"""


def said(tmp_path: Path, shown: str) -> "subprocess.CompletedProcess[str]":
    """What the program prints with the block ``shown`` in it."""
    program = tmp_path / "Twin.java"
    program.write_text(TWIN.replace("SHOWN", shown), encoding="utf-8")
    with compiled(program, packages=(STREAMS, TEST_UTILS)) as command:
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def test_the_java_of_the_page_passes_and_its_assertions_can_fail(tmp_path):
    (block,) = code_blocks(document("docs/testing-a-topology.md"), "java")
    shown = "\n".join(block)
    wrong = shown.replace('"be", 3L', '"be", 4L')

    done = said(tmp_path, f"if (arguments.length == 0) {{\n{shown}\n}}")

    assert (done.stdout, done.returncode) == ("passed\n", 0), done.stderr
    assert wrong != shown
    assert "wanted {" in said(tmp_path, wrong).stderr
