"""Settings of placement, named as Kafka Streams' where they mean the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...state.errors import ConfigError
from ...state.kafka_version import DEFAULT, REPLAYED

SPARK, STICKY, HIGH_AVAILABILITY = "spark", "sticky", "high_availability"
PLACEMENTS = (SPARK, STICKY, HIGH_AVAILABILITY)
NONE, BALANCE_SUBTOPOLOGY = "none", "balance_subtopology"
RACK_AWARE_STRATEGIES = (NONE, BALANCE_SUBTOPOLOGY)


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """How tasks are placed. ``placement``: "spark" (wherever a core is free), "sticky" (Kafka's StickyTaskAssignor) or
    "high_availability" (Kafka's default, KIP-441).

    ``acceptable_recovery_lag_bytes``: a member that lacks at most so many bytes of a task's state may run it (Kafka's
    ``acceptable.recovery.lag`` counts records). ``max_warmup_replicas``: so many tasks are learned at a time beyond
    the standbys. ``rack_aware_assignment_tags``: tags in which a task's standbys differ from it and from one another.
    ``rack_aware_assignment_strategy``: "balance_subtopology" gives every member its share of each sub-topology, which
    run one after the other, at the price of some moves; "none" (Kafka's default) counts tasks of all of them together.
    Kafka's "min_traffic" weighs racks of partitions, and partitions of a warehouse have none. ``kafka_version``: whose
    assignor it is, "4.3" or "4.4". Raises ConfigError.
    """

    placement: str = SPARK
    num_standby_replicas: int = 0
    max_warmup_replicas: int = 2
    acceptable_recovery_lag_bytes: int = 16 << 20
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_assignment_strategy: str = NONE
    kafka_version: str = DEFAULT

    def __post_init__(self) -> None:
        for name, known in (
            ("placement", PLACEMENTS), ("rack_aware_assignment_strategy", RACK_AWARE_STRATEGIES),
            ("kafka_version", REPLAYED),
        ):  # fmt: skip
            if getattr(self, name) not in known:
                chosen = repr(getattr(self, name))
                raise ConfigError(name, f"one of {', '.join(known)}", chosen, "choose one of them")
        for name, lowest in (
            ("num_standby_replicas", 0), ("max_warmup_replicas", 1), ("acceptable_recovery_lag_bytes", 0),
        ):  # fmt: skip
            number = getattr(self, name)
            if not isinstance(number, int) or isinstance(number, bool) or number < lowest:
                raise ConfigError(name, f"a whole number of at least {lowest}", repr(number), "correct the setting")

    @property
    def balances_sub_topologies(self) -> bool:
        return self.rack_aware_assignment_strategy == BALANCE_SUBTOPOLOGY


_NUMBERS = ("num_standby_replicas", "max_warmup_replicas", "acceptable_recovery_lag_bytes")


def settings_of(given: Mapping[str, Any], environment: Mapping[str, str]) -> PlacementSettings:
    """As ``given`` by name, else as the ``environment`` has it (REPLAY_PLACEMENT, REPLAY_NUM_STANDBY_REPLICAS, …;
    tags with commas between them). Raises ConfigError.
    """
    settings: dict[str, Any] = {}
    if "kafka_version" in given:
        settings["kafka_version"] = given["kafka_version"]
    for name in ("placement", *_NUMBERS, "rack_aware_assignment_tags", "rack_aware_assignment_strategy"):
        variable = f"REPLAY_{name.upper()}"
        if name in given:
            settings[name] = given[name]
        elif text := environment.get(variable):
            settings[name] = _number(variable, text) if name in _NUMBERS else text
    tags = settings.get("rack_aware_assignment_tags", ())
    parts = tags.split(",") if isinstance(tags, str) else tags
    return PlacementSettings(
        **settings | {"rack_aware_assignment_tags": tuple(tag.strip() for tag in parts if tag.strip())}
    )


def _number(variable: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise ConfigError(f"${variable}", "a whole number", repr(text), "correct the variable")
    return int(text)
