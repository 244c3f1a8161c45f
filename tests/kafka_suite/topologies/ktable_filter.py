"""KTableFilterTest."""

from kstreams_replay.jobs.topology import KTable, Materialized
from tests.kafka_suite.playing import STRING, STRING_INT, Stage
from tests.kafka_suite.topologies import plays
from tests.kafka_suite.topologies.words import minus, plus

TEST = "KTableFilterTest."
EVEN = "value % 2 = 0"
STORE2 = Materialized.as_("store2")


def _numbers(stage: Stage, materialized: Materialized | None = None) -> KTable:
    return stage.table("topic1", STRING_INT, materialized=materialized)


@plays(f"{TEST}shouldPassThroughWithoutMaterialization", f"{TEST}shouldPassThroughOnMaterialization")
def even_and_odd(stage: Stage) -> None:
    table = _numbers(stage)
    even = table.filter(EVEN, materialized=STORE2 if stage.tape.test.endswith("OnMaterialization") else None)
    odd = table.filter_not(EVEN)
    stage.watch(even)
    stage.watch(odd)


@plays(f"{TEST}shouldGetValuesOnMaterialization")
def stored(stage: Stage) -> None:
    table = _numbers(stage)
    table.filter(EVEN, materialized=STORE2)
    table.filter_not(EVEN, materialized=Materialized.as_("store3"))
    table.filter_not(EVEN)


@plays(f"{TEST}shouldNotSendOldValues*", f"{TEST}shouldNotEnableSendingOldValues*")
def without_old_values(stage: Stage) -> None:
    table = _numbers(stage)
    stored = STORE2 if stage.tape.test.endswith("OnMaterialization") else None
    _watched(stage, table, table.filter(EVEN, materialized=stored))


@plays(f"{TEST}shouldEnableSendOldValues*")
def forced_to_send_old_values(stage: Stage) -> None:
    """A grouping forces it here; the test asks the table itself."""
    table = _numbers(stage)
    even = table.filter(EVEN, materialized=STORE2 if "WhenMaterialized" in stage.tape.test else None)
    even.group_by("record_key").count()
    _watched(stage, table, even)


@plays(f"{TEST}shouldSendOldValuesWhenEnabledOnUpStreamMaterialization")
def sends_old_values_of_above(stage: Stage) -> None:
    table = _numbers(stage, STORE2)
    _watched(stage, table, table.filter(EVEN))


@plays(f"{TEST}shouldSkipNull*", f"{TEST}shouldNotSkipNull*")
def accepted(stage: Stage) -> None:
    versioned, test = Materialized.versioned("versioned", "5m"), stage.tape.test
    of_table, of_filter = None, STORE2 if test.endswith("OnMaterialization") else None
    if test.endswith("IfVersionedUpstream"):
        of_table = versioned
    if test.endswith("IfVersionedDownstream"):
        of_table, of_filter = Materialized.as_("store"), versioned
    table = stage.table("topic1", materialized=of_table)
    accepted = table.filter("LOWER(value) = 'accept'", materialized=of_filter)
    result = Materialized.as_("mock-result") if test.endswith("OnMaterialization") else None
    accepted.group_by(lambda key, value: key, returns_key=STRING).reduce(plus, minus, materialized=result)
    _watched(stage, table, accepted)


def _watched(stage: Stage, one: KTable, other: KTable) -> None:
    stage.watch(one, "proc1")
    stage.watch(other, "proc2")
