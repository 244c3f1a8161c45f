"""What a public function or a setting cannot take is refused in a sentence, before anything is done."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

import kstreams_replay as face
from kstreams_replay import (
    FileSource,
    KafkaSource,
    KafkaTarget,
    LakeSource,
    LandingRules,
    Serde,
    TestRecord,
    UnlimitedWindows,
    Warehouse,
)
from kstreams_replay.state.argument_types import checked_types
from kstreams_replay.state.errors import ConfigError


class Runs(Protocol):
    def run(self) -> None: ...


@checked_types
def taken(
    warehouse: Warehouse,
    topics: Sequence[str] = (),
    count: int | None = None,
    share: float = 0.0,
    say: Callable[[str], None] | None = None,
    options: Mapping[str, str] | None = None,
    runner: Runs | None = None,
    places: Iterable[tuple[int, int]] = (),
    names: tuple[str, ...] = (),
    any_value: Any = None,
) -> str:
    return "taken"


W = Warehouse("/nowhere")


def test_what_is_of_its_annotation_is_taken():
    all_of_them = taken(
        W, ["a"], np.int64(3), np.float32(0.5), print, {}, object(), iter([(0, 1)]), ["a"], object()  # type: ignore[arg-type]
    )  # fmt: skip

    assert all_of_them == taken(warehouse=W, share=1, count=None) == "taken"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"warehouse": "/nowhere"},
            "taken, warehouse: expected Warehouse, got '/nowhere'; help(taken) says",
        ),
        ({"topics": "clicks"}, "taken, topics: expected Sequence[str], got 'clicks'"),
        ({"names": "clicks"}, "taken, names: expected tuple[str, ...], got 'clicks'"),
        ({"topics": None}, "taken, topics: expected Sequence[str], got None"),
        ({"count": 2.5}, "taken, count: expected int | None, got 2.5"),
        ({"share": "0.5"}, "taken, share: expected float, got '0.5'"),
        ({"say": "loud"}, "taken, say: expected Callable[[str], None] | None, got 'loud'"),
        ({"options": ["a"]}, "taken, options: expected Mapping[str, str] | None, got ['a']"),
        ({"places": 3}, "taken, places: expected Iterable[tuple[int, int]], got 3"),
        ({"count": "9" * 200}, f"got '{'9' * 76}...; help"),
    ],
)
def test_what_is_not_is_refused_with_the_function_and_the_argument(given, says):
    with pytest.raises(ConfigError) as refused:
        taken(**{"warehouse": W, **given})

    assert says in str(refused.value)


def test_every_public_function_that_takes_a_warehouse_refuses_a_path():
    refusing = 0
    for name in face.__all__:
        parameters = (
            inspect.signature(getattr(face, name)).parameters if inspect.isfunction(getattr(face, name)) else {}
        )
        if "warehouse" not in parameters or name == "replay_definitions":  # which takes a path
            continue
        needed = {key: object() for key, each in parameters.items() if each.default is inspect.Parameter.empty}
        with pytest.raises(ConfigError, match=f"{name}, warehouse: expected Warehouse, got '/data'"):
            getattr(face, name)(**{**needed, "warehouse": "/data"})
        refusing += 1
    assert refusing >= 15


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Serde.json({"user": "string"}), "Serde.json, schema: expected str, got {'user': 'string'}"),
        (lambda: Serde.json(None), "Serde.json, schema: expected str, got None"),
        (lambda: Serde.avro('"string"', references="a.avsc"), "references: expected tuple[object, ...], got 'a.avsc'"),
        (lambda: Serde.protobuf(Path("a.desc"), None), "Serde.protobuf, message: expected str, got None"),
        (lambda: Serde.json_schema(b"{}"), "Serde.json_schema, schema: expected str | Path | Mapping[str, Any]"),
        (lambda: Serde.of_type("string"), "Serde.of_type, arrow_type: expected DataType, got 'string'"),
        (lambda: Warehouse(None), "warehouse: expected a path, as text or a pathlib.Path, got None"),
        (lambda: Warehouse("/data", "AWS_REGION=a"), "Warehouse, storage_options: expected Mapping[str, str] | None"),
        (lambda: FileSource(None, timestamp="ms"), "FileSource path: expected a path, as text or a pathlib.Path"),
        (lambda: FileSource("a", timestamp=3), "FileSource, timestamp: expected str, got 3"),
        (lambda: FileSource("a", timestamp="ms", partitions="3"), "FileSource, partitions: expected int, got '3'"),
        (lambda: FileSource("a", timestamp="ms", beside="keys"), "FileSource, beside: expected tuple[str, ...]"),
        (lambda: FileSource("a", timestamp="ms", path_pattern=1), "path_pattern: expected str | None, got 1"),
        (lambda: LakeSource(iceberg=3), "LakeSource, iceberg: expected str | None, got 3"),
        (lambda: LakeSource(delta=3), "LakeSource delta: expected a path, as text or a pathlib.Path, got 3"),
        (lambda: KafkaSource("h:1", options=["a=b"]), "KafkaSource, options: expected Mapping[str, str], got ['a=b']"),
        (lambda: KafkaTarget("h:1", "t", options=None), "KafkaTarget, options: expected Mapping[str, str], got None"),
        (lambda: LandingRules(max_bad_share="1%"), "LandingRules, max_bad_share: expected float, got '1%'"),
        (lambda: UnlimitedWindows(None), "UnlimitedWindows, start_ms: expected int, got None"),
        (lambda: TestRecord("k", "v", headers={"a": b"b"}), "TestRecord headers: expected pairs of a name and bytes"),
    ],
)  # fmt: skip
def test_settings_and_serdes_refuse_what_they_cannot_take(make, says):
    with pytest.raises(ConfigError) as refused:
        make()

    assert says in str(refused.value)


def test_a_path_may_be_a_pathlib_path():
    assert Warehouse(Path("/data/")).root == FileSource(Path("/data/"), timestamp="ms").path == "/data"
    assert LakeSource(delta=Path("/data/")).delta == "/data"
