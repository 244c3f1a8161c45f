"""Everything about a format of files is in one object; nobody else compares names of formats."""

import re
from pathlib import Path

import pytest

from kstreams_replay import FileSource
from kstreams_replay.state.errors import ConfigError

ROOT = Path(__file__).parents[2]
COMPARED = re.compile(r"""(==|!=|\bin) *[(\[{]?(None, *)?["'](jsonl|csv|parquet|avro)["']""")


def test_names_of_formats_are_compared_nowhere():
    modules = [*ROOT.glob("jobs/landing/**/*.py"), *ROOT.glob("orchestration/**/*.py")]

    assert [str(path) for path in modules if COMPARED.search(path.read_text())] == []


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_what_is_for_text_cells_is_refused_for_other_formats(format):
    for given in ({"columns": ("a",)}, {"types": {"a": "long"}}):
        with pytest.raises(ConfigError, match="nothing: they are for CSV"):
            FileSource("in", format, timestamp="t", **given)
