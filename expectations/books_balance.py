"""G3: the books balance, in every increment and sub-topology: read = applied + left out + dropped + undecodable.

Owns the recount. Rule: only `applied` and `left_out` are taken from the ledger; `read` is recounted from the landed
tables inside the ledger's cut, `dropped` and `undecodable` from their tables, by distinct position. A record with a
dead letter (it cannot be decoded, or a step failed on it) is undecodable even if it was also dropped. A refusal of
one window of a record (`is_record` false) does not count there. Refusals, by operator and reason, are recounted as
rows of `dropped`, whatever else became of the record. Outputs have as many
records of the increment as the ledger says, landed topics as many as theirs says, and all files are there.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from ..state.errors import LedgerError
from ..state.tables.branch_files import table_names
from ..state.tables.data_files import DataFile
from ..state.tables.ledger import LandingLedger
from ..state.tables.names import DEAD_LETTER, DROPPED, LANDED, LEDGER, TableName
from ..state.tables.out_of_play import erased_records, erased_since
from .audits import Audit, Scope, Unchecked, witness_rows
from .facts import ReplayFacts, SourceTopic, SubTopologyFacts
from .guarantee import About, Guarantee, Rule

POSITION = ["topic", "partition", "offset"]
_OF_DROPS = {"node": pl.String, "reason": pl.String, "is_record": pl.Boolean}


def audit_books_balance(scope: Scope) -> Audit | Unchecked:
    """Frame: one row a sub-topology: the recounts, and differences that must be 0."""
    if _read_otherwise(scope):
        return Unchecked("another topology ran the increment, whose sub-topologies read other topics")
    dropped = _refusals(scope, DROPPED, scope.tables.dropped)
    undecodable = _refusals(scope, DEAD_LETTER, scope.tables.dead_letter)
    lines, witnesses = [], []
    for part in scope.facts.sub_topologies:
        tapes = [_landed(scope, source) for source in part.sources]
        read = sum(int(tape.select(pl.len()).collect().item()) for tape in tapes)
        dead = _positions(undecodable, part)
        refused = _positions(dropped.filter("is_record"), part).join(dead, on=POSITION, how="anti")
        stray = _stray(pl.concat([refused, dead]), tapes)
        booked = _booked(scope, part)
        line = _line(part.id, booked, read, refused.height, dead.height, stray.height)
        line["refusals_unbooked"] = _refusals_unbooked(booked.pop("refused"), dropped, part)
        lines.append(line)
        if any(line[name] != 0 for name in line if name == "missing" or name.endswith("_unbooked")):
            witnesses.append(line)
        witnesses += [{"sub_topology": part.id, **row} for row in witness_rows(stray)]
    for row in _unbooked_landings(scope):
        lines[0]["landed_unbooked"] += abs(row["landed"] - row["booked"])
        witnesses.append(row)
    for row in _unbooked_outputs(scope):
        lines[0]["rows_unbooked"] += abs(row["rows"] - row["booked"])
        witnesses.append(row)
    for table in table_names(scope.done):  # also those that no guarantee speaks of are there
        scope.files(table, scope.tables.table(table))
    return Audit(pl.DataFrame(lines), witnesses, sum(line["read"] for line in lines))


def _read_otherwise(scope: Scope) -> bool:
    """Whether the code that ran the increment had other sub-topologies, as far as the ledger knows them."""
    if not scope.made_otherwise:
        return False
    known = (scope.done.code or {}).get("sub_topologies")
    reads = {str(part.id): [source.topic for source in part.sources] for part in scope.facts.sub_topologies}
    return known is not None and any(topics != known.get(id_, {}).get("reads") for id_, topics in reads.items())


def _refusals_unbooked(
    booked: dict[str, dict[str, list[int]]] | None, dropped: pl.DataFrame, part: SubTopologyFacts
) -> int:
    """Refusals that only one of both knows, rows of `dropped` or the ledger; 0 where it did not count them yet."""
    if booked is None:
        return 0
    mine = dropped.filter(pl.col("sub_topology") == part.id).group_by("node", "reason").len()
    rows = {(node, reason): count for node, reason, count in mine.rows()}
    said = {(node, reason): numbers[1] for node, reasons in booked.items() for reason, numbers in reasons.items()}
    return sum(abs(rows.get(each, 0) - said.get(each, 0)) for each in {*rows, *said})


def _unbooked_landings(scope: Scope) -> Iterator[dict[str, Any]]:
    """Topics of which more or fewer records are in their table than its ledger says have landed."""
    topics = {source.topic for part in scope.facts.sub_topologies for source in part.sources if source.kind == LANDED}
    for topic in sorted(topics):
        done = LandingLedger(scope.warehouse.landing_ledger(topic)).done_rows()
        if any(row.content.records is None and row.content.recorded_time is None for row in done) or not done:
            continue  # of a version that did not count them
        _, files = scope.source_files(SourceTopic(topic))
        landed, booked = sum(file.records for file in files), sum(row.content.rows_added for row in done)
        if landed != booked:
            yield {"topic": topic, "landed": landed, "booked": booked}


def _unbooked_outputs(scope: Scope) -> Iterator[dict[str, Any]]:
    """Outputs that have more or fewer records of the increment than the ledger says; a restatement brings others'."""
    if scope.done.kind is not None:
        return
    for name, booked in (scope.done.outputs or {}).items():
        path, number = scope.tables.output(name), scope.increment
        files = [
            file for file in scope.files(TableName.output(name), path) if file.may_hold("increment", number, number)
        ]
        rows = sum(file.records for file in files if file.bounds.get("increment") == (number, number))
        if mixed := [file for file in files if file.bounds.get("increment") != (number, number)]:
            own = scope.scan(path, mixed, ["increment"]).filter(pl.col("increment") == number)
            rows += int(own.select(pl.len()).collect().item())
        if rows != booked:
            yield {"output": name, "rows": rows, "booked": booked}


def _stray(refusals: pl.DataFrame, tapes: list[pl.LazyFrame]) -> pl.DataFrame:
    """Refused positions that were not landed inside the cut."""
    for tape in tapes if len(refusals) else []:
        refusals = refusals.join(tape.join(refusals.lazy(), on=POSITION, how="semi").collect(), on=POSITION, how="anti")
    return refusals.sort(POSITION)


def _line(number: int, booked: dict[str, Any], read: int, dropped: int, undecodable: int, stray: int) -> dict[str, Any]:
    return {
        "sub_topology": number,
        "read": read,
        "applied": booked["applied"],
        "left_out": booked["left_out"],
        "dropped": dropped,
        "undecodable": undecodable,
        "missing": read - booked["applied"] - booked["left_out"] - dropped - undecodable,
        "read_unbooked": read - booked["read"],
        "dropped_unbooked": dropped - booked["dropped"],
        "undecodable_unbooked": undecodable - booked["undecodable"],
        "stray": stray,
        "rows_unbooked": 0,
        "landed_unbooked": 0,
    }


def _booked(scope: Scope, part: SubTopologyFacts) -> dict[str, Any]:
    """What the ledger's done row says of the sub-topology; rows from before counted no ``left_out``, nor what was
    ``refused``.
    """
    booked = (scope.done.books or {}).get("by_sub_topology", {}).get(str(part.id))
    if booked is None:
        place = f"{scope.tables.ledger}, increment {scope.increment}"
        raise LedgerError(place, f"books of sub-topology {part.id}", "none", "check the facts against the topology")
    numbers = {name: int(booked.get(name, 0)) for name in ("read", "applied", "left_out", "dropped", "undecodable")}
    return {**numbers, "refused": booked.get("refused")}


def _landed(scope: Scope, source: SourceTopic) -> pl.LazyFrame:
    """Positions of ``source`` inside the increment: the cut of a landed topic, a repartition table's own records."""
    path, files = scope.source_files(source)
    if source.kind == "repartition":
        number = scope.increment
        files = [file for file in files if file.may_hold("increment", number, number)]
        inside = pl.col("increment") == number
    else:
        cut = {partition: span for partition, span in scope.cut(source.topic).items() if span[0] < span[1]}
        files = [file for file in files if file.partition in cut and _may_be_inside(file, *cut[file.partition])]
        inside = pl.any_horizontal(pl.lit(False), *(_is_inside(p, *span) for p, span in cut.items()))
    tape = _no_positions().lazy()
    if files:
        tape = scope.scan(path, files, ["offset", "increment"]).filter(inside)
        tape = tape.select(pl.lit(source.topic).alias("topic"), "partition", "offset")
    if source.kind == LANDED and (gone := _erased(scope, source.topic)):  # of a copy their places are still there
        tape = pl.concat([tape, pl.DataFrame(gone, _no_positions().schema, orient="row").lazy()]).unique()
    return tape


def _erased(scope: Scope, topic: str) -> list[tuple[str, int, int]]:
    """Positions that the increment has read and that were erased since."""
    erased = erased_since(erased_records(scope.warehouse, [topic]), scope.planned.cut_from, scope.planned)
    return [(topic, each.partition, each.offset) for each in erased]


def _may_be_inside(file: DataFile, start: int, end: int) -> bool:
    return file.may_hold("offset", start, end - 1)


def _is_inside(partition: int, start: int, end: int) -> pl.Expr:
    """Offsets of the cut are ``[start, end)``."""
    return (pl.col("partition") == partition) & (pl.col("offset") >= start) & (pl.col("offset") < end)


def _refusals(scope: Scope, table: str, path: str) -> pl.DataFrame:
    """Rows of the increment in `dropped` or `dead_letter`; of those that were dropped, operator, reason, and whether
    each represents a whole record.
    """
    more = _OF_DROPS if table == DROPPED else {}
    number = scope.increment
    files = [file for file in scope.files(table, path) if file.may_hold("increment", number, number)]
    if not files:
        return pl.DataFrame(schema={**_no_positions().schema, "sub_topology": pl.Int32, **more})
    columns = ["topic", "offset", "increment", "sub_topology", *more]
    rows = scope.scan(path, files, columns).filter(pl.col("increment") == number)
    return rows.select(*POSITION, "sub_topology", *more).collect()


def _positions(refusals: pl.DataFrame, part: SubTopologyFacts) -> pl.DataFrame:
    return refusals.filter(pl.col("sub_topology") == part.id).select(POSITION).unique()


def _no_positions() -> pl.DataFrame:
    return pl.DataFrame(schema={"topic": pl.String, "partition": pl.Int32, "offset": pl.Int64})


def _questions(_: ReplayFacts) -> Iterator[About]:
    yield LEDGER, audit_books_balance


G3 = Guarantee(
    id="G3",
    sentence="The books balance: read = applied + left out + dropped + undecodable.",
    kip="",
    operator="all",
    check="the_books_balance",
    proof="tests/expectations/test_books_balance.py",
    status="done",
    rules=(
        Rule(
            "expect_books_to_balance",
            "missing",
            "Records landed inside the cut = applied + left out + dropped + undecodable, recounted from the tables.",
        ),
        Rule(
            "expect_reads_to_be_booked",
            "read_unbooked",
            "The ledger read as many records as are landed inside its cut.",
        ),
        Rule(
            "expect_drops_to_be_booked",
            "dropped_unbooked",
            "The ledger dropped as many records as have a row in `dropped`.",
        ),
        Rule(
            "expect_refusals_to_be_booked",
            "refusals_unbooked",
            "By operator and reason, the ledger counts as many refusals as have a row in `dropped`.",
        ),
        Rule(
            "expect_dead_letters_to_be_booked",
            "undecodable_unbooked",
            "The ledger has as many undecodable records as have a row in `dead_letter`.",
        ),
        Rule(
            "expect_refusals_to_be_landed_records",
            "stray",
            "Every dropped or undecodable record is a landed record inside the cut.",
        ),
        Rule(
            "expect_results_to_be_booked",
            "rows_unbooked",
            "Every output has as many records of the increment as the ledger says were written.",
        ),
        Rule(
            "expect_landings_to_be_booked",
            "landed_unbooked",
            "Every landed topic has as many records as its ledger says have landed.",
        ),
    ),
    kafka="StreamTask",
    evidence="rows of landed and repartition tables, dropped and dead_letter against the ledger's books",
    cost="positions of the increment's records, and its refusals, whole",
    by_settings=False,
    questions=_questions,
)
