"""Scenario files that a person checks by eye: ``tests/scenarios/<operator>/<fact>.txt``, one scenario a file.

Owns the notation. Rule: ``written`` of the result of ``read`` is exactly the file, so that stamping changes
nothing but ``want``. Cells are JSON, topics and operators bare words; ``step``, counted from 0, ties an outcome to the
record that caused it; no outcome needs no row. ``kip says``: results by an example of a KIP, a step of which may be
"not said". ``want with semantics kip``: what this project does with these semantics, written by hand after the KIP's
text, where that is something else than ``want``.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from kstreams_replay.state.kafka_version import JUDGE

SCENARIOS = Path(__file__).parents[1] / "scenarios"
STAMP = f"kafka-streams {JUDGE}, TopologyTestDriver"
KIP_WANT = "want with semantics kip"
_INDENT = "  "
_NODE = re.compile(r"(?P<id>\w+) += (?P<op>\w+)\((?P<rest>.*)\)")

Line = dict[str, Any]


def scenario_files() -> list[Path]:
    return sorted(SCENARIOS.glob("*/*.txt"))


def read(path: Path) -> Line:
    """The scenario of a file, as a line of a golden file."""
    return parsed(path.read_text(), f"{path.parent.name}/{path.stem}")


def parsed(text: str, name: str) -> Line:
    source, _, rest = text.partition("\n")
    sections = dict(_sections(rest))
    line: Line = {"name": name, "source": source.removeprefix("# "), "topology": _topology(sections)}
    sensitive = [heading.removeprefix("sensitive: ") for heading in sections if heading.startswith("sensitive: ")]
    line |= {"records": [_record(row) for row in _rows(sections["tape"])]}
    line["sensitive"] = ", ".join(sensitive).split(", ") if sensitive else []
    if "note" in sections:
        line["note"] = " ".join(sections["note"])
    if "kip says" in sections:
        line["kip_expected"] = _by_step(sections["kip says"], len(line["records"]))
    if KIP_WANT in sections:
        line["kip_want"] = _outputs_and_drops(sections[KIP_WANT], len(line["records"]))
    return line | {"result": _result(sections, len(line["records"]))}


def written(line: Line) -> str:
    """The file of a scenario."""
    note = textwrap.wrap(line["note"], 116) if line.get("note") else []
    parts = [f"# {line['source']}", *_section("note", note), *_topology_lines(line["topology"])]
    parts += [""] if not line["sensitive"] else ["", f"sensitive: {', '.join(line['sensitive'])}"]
    parts += [f"stamped-by: {STAMP}", *_section("tape", _table(_tape_rows(line["records"])))]
    parts += _want(line["result"])
    if "kip_want" in line:
        parts += _section(KIP_WANT, _table(_or_nothing(_output_rows(**line["kip_want"]))))
    if "kip_expected" in line:
        parts += _section("kip says", _table(_output_rows(line["kip_expected"])))
    return "\n".join(parts) + "\n"


# --- sections and tables -------------------------------------------------------------------------------------


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """(heading, indented lines below it); a heading is a line that begins at the margin."""
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if line and not line.startswith(_INDENT):
            below = takewhile(lambda other: other.startswith(_INDENT), lines[place + 1 :])
            yield line, [other.removeprefix(_INDENT) for other in below]


def _section(heading: str, lines: list[str]) -> list[str]:
    return ["", heading, *(_INDENT + line for line in lines)] if lines else []


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _rows(lines: list[str]) -> list[dict[str, str]]:
    """Rows by column name; a column begins where its name is in the first line."""
    starts = [found.start() for found in re.finditer(r"(?<!\S)\w+", lines[0])]
    names = lines[0].replace("|", " ").split()
    bounds = list(zip(starts, [start - 3 for start in starts[1:]] + [None], strict=True))
    return [dict(zip(names, (line[a:b].strip() for a, b in bounds), strict=True)) for line in lines[1:]]


# --- topology ------------------------------------------------------------------------------------------------


def _topology_lines(topology: Line) -> list[str]:
    store = topology.get("store", "in_memory")
    width = max(len(node["id"]) for node in topology["nodes"])
    nodes = [f"{node['id'].ljust(width)} = {node['op']}({_parameters(node)})" for node in topology["nodes"]]
    options = [f"{name}: {topology[name]}" for name in ("output", "handler") if name in topology]
    return _section(f"topology, stores {store}", nodes + options)


def _parameters(node: Line) -> str:
    named = {name: value for name, value in node.items() if name not in ("id", "op", "inputs")}
    shown = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in named.items()]
    return ", ".join([*node.get("inputs", ()), *shown])


def _topology(sections: dict[str, list[str]]) -> Line:
    heading = next(heading for heading in sections if heading.startswith("topology"))
    topology: Line = {"nodes": []}
    for line in sections[heading]:
        option, is_option, value = line.partition(": ")
        if is_option and option in ("output", "handler"):
            topology[option] = value
        else:
            topology["nodes"].append(_node(line))
    store = heading.removeprefix("topology, stores ")
    return topology if store == "in_memory" else topology | {"store": store}


def _node(line: str) -> Line:
    found = _NODE.fullmatch(line)
    assert found is not None, f"expected id = operator(…), got {line!r}"
    node: Line = {"id": found["id"], "op": found["op"]}
    for part in re.split(r", (?![^{]*\})", found["rest"]):
        name, is_named, value = part.partition("=")
        if is_named:
            is_json = name == "materialized" or re.fullmatch(r"-?\d+|\{.*\}", value)
            node[name] = json.loads(value) if is_json else value
        else:
            node.setdefault("inputs", []).append(name)
    return node


# --- tape ----------------------------------------------------------------------------------------------------


def _tape_rows(records: list[Line]) -> list[list[str]]:
    has_offsets = any("offset" in record for record in records)
    heading = ["step", "topic", *(["offset"] if has_offsets else []), "key", "value", "time_ms"]
    rows = [heading]
    for step, record in enumerate(records):
        offset = [json.dumps(record["offset"]) if "offset" in record else "-"] if has_offsets else []
        rows.append([str(step), record["topic"], *offset, *map(_cell, (record["key"], record["value"], record["ts"]))])
    return rows


def _record(row: dict[str, str]) -> Line:
    record = {"topic": row["topic"], "key": json.loads(row["key"]), "value": json.loads(row["value"])}
    offset = row.get("offset", "-")
    return record | {"ts": int(row["time_ms"])} | ({} if offset == "-" else {"offset": json.loads(offset)})


def _cell(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- outcomes ------------------------------------------------------------------------------------------------


def _want(result: Line) -> list[str]:
    if result.get("phase") in ("build", "init"):
        return _section("want", [f"refused at {result['phase']}: {result['error']}"])
    rows = _output_rows(result["outputs"], result["dropped"])
    if "phase" in result:
        rows.append([str(result["failed_at"]), "", "", "", "", f"fails: {result['error']}"])
    metrics = [f"{name} {_cell(value)}" for name, value in result["metrics"].items() if name != "suppress"]
    for node, numbers in result["metrics"]["suppress"].items():
        metrics += [f"{node} {name} {value}" for name, value in numbers.items()]
    return [*_section("want", _table(_or_nothing(rows))), *_section("metrics", metrics)]


def _or_nothing(rows: list[list[str]]) -> list[list[str]]:
    return [["nothing"]] if len(rows) == 1 else rows


def _output_rows(outputs: list[list[Line] | None], dropped: list[int] | None = None) -> list[list[str]]:
    rows = [["step", "key", "window", "value", "time_ms", "outcome"]]
    for step, emitted in enumerate(outputs):
        if emitted is None:
            rows.append([str(step), "", "", "", "", "not said"])
        for row in emitted or ():
            window = "-" if row["window"] is None else f"[{row['window'][0]}, {row['window'][1]}]"
            rows.append([str(step), _cell(row["key"]), window, _cell(row["value"]), str(row["ts"]), "emitted"])
        if dropped is not None and step < len(dropped) and dropped[step]:
            rows.append([str(step), "", "", "", "", f"dropped {dropped[step]}"])
    return rows


def _by_step(lines: list[str], records: int) -> list[list[Line] | None] | str:
    """Outputs of each record, None where nothing is said of it."""
    outputs: list[list[Line] | None] = [[] for _ in range(records)]
    for row in _outcomes(lines):
        if row["outcome"] == "not said":
            outputs[int(row["step"])] = None
        else:
            found = outputs[int(row["step"])]
            assert found is not None
            found += [_output(row)] if row["outcome"] == "emitted" else []
    return outputs


def _outcomes(lines: list[str]) -> list[dict[str, str]]:
    return [] if lines == ["nothing"] else _rows(lines)


def _output(row: dict[str, str]) -> Line:
    window = None if row["window"] == "-" else json.loads(row["window"])
    return {
        "key": json.loads(row["key"]),
        "window": window,
        "value": json.loads(row["value"]),
        "ts": int(row["time_ms"]),
    }


def _result(sections: dict[str, list[str]], records: int) -> Line:
    lines = sections["want"]
    if lines[0].startswith("refused at "):
        phase, error = lines[0].removeprefix("refused at ").split(": ")
        return {"phase": phase, "error": error}
    result = _outputs_and_drops(lines, records)
    for row in _outcomes(lines):
        word, _, rest = row["outcome"].partition(" ")
        if word == "fails:":
            failed_at = int(row["step"])
            result |= {"phase": "record", "error": rest, "failed_at": failed_at}
            result |= {"outputs": result["outputs"][: failed_at + 1], "dropped": result["dropped"][:failed_at]}
    return result | {"metrics": _metrics(sections["metrics"])}


def _outputs_and_drops(lines: list[str], records: int) -> Line:
    result: Line = {"outputs": _by_step(lines, records), "dropped": [0] * records}
    for row in _outcomes(lines):
        word, _, number = row["outcome"].partition(" ")
        if word == "dropped":
            result["dropped"][int(row["step"])] = int(number)
    return result


def _metrics(lines: list[str]) -> Line:
    metrics: Line = {"suppress": {}}
    for line in lines:
        *node, name, value = line.split(" ")
        of = metrics["suppress"].setdefault(node[0], {}) if node else metrics
        of[name] = json.loads(value)
    return metrics
