"""Types of CSV columns by the serde with which the topic is read."""

from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.jobs.landing.serde_mapping import Serdes, with_serdes
from kstreams_replay.state.serdes import Serde


def test_a_csv_cell_is_text_where_the_type_is_spelled_as_a_string_in_json():
    value = Serde.json(
        "a short, b float, c decimal(5,2), d date, e timestamp, f binary, g array<int>, h map<string, int>, i string"
    )

    found = with_serdes(FileSource("in", "csv", timestamp="t"), "topic", Serdes(Serde.string(), value))

    assert dict(found.types) == {
        "a": "int", "b": "double", "c": "string", "d": "string", "e": "string", "f": "string", "g": "json", "h": "json",
        "i": "string",
    }  # fmt: skip
