"""Apache Avro's Java library still gives the answers that are in the goldens, and nobody wrote them by hand."""

import json

import pytest

from tests.jvm.avro_goldens import GOLDENS, answered, asked

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]


def test_java_answers_as_the_goldens_say():
    goldens = [json.loads(line) for line in GOLDENS.read_text(encoding="utf-8").splitlines()]

    assert answered(asked()) == goldens
