"""Options and arguments that several commands share. Each is a decorator, and gives the function one parameter."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import click

from ...state.kafka.settings import read_client_settings
from ...state.kafka_version import DEFAULT, REPLAYED
from ...state.tables.refused_shares import DEFAULT_LIMIT
from .command import STORAGE_OPTION, STORAGE_TIMEOUT, Decorator, argument, key_and_value, option
from .defaults import FILE, WAREHOUSE_VARIABLE


class FiniteNumber(click.FloatRange):
    """As FloatRange, for finite numbers alone: ``nan`` is on neither side of a bound, so click lets it pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As click's."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Whole(click.IntRange):
    """As IntRange, of numbers that fit into 64 bits as those of tables do: Arrow fails at a longer one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """As click's."""
        number: int = super().convert(value, param, ctx)
        if number.bit_length() > 63:
            self.fail(f"{value} is beyond 64 bits.", param, ctx)
        return number


COUNT = Whole(min=1)
INCREMENT = Whole(min=0)
"""The number of one; 0 is that with which a branch from the start begins."""
SHARE = FiniteNumber(0, 1)

TOPOLOGY = "module:attribute or file.py:attribute, where the attribute is a Topology or a function that builds one"
"""How a topology is named (orchestration/settings/topology_loading.py)."""


def warehouse(function: Callable[..., Any]) -> Callable[..., Any]:
    """``warehouse: str``. With it come ``--storage-option`` and ``--storage-timeout``, which the command does not see
    (Command.invoke).
    """
    return _with_warehouse(function, required=True)


def warehouse_if_any(function: Callable[..., Any]) -> Callable[..., Any]:
    """``warehouse: str | None``, and as ``warehouse``."""
    return _with_warehouse(function, required=False)


def _with_warehouse(function: Callable[..., Any], *, required: bool) -> Callable[..., Any]:
    warehouse = option(
        "--warehouse", required=required, metavar="W", envvar=WAREHOUSE_VARIABLE,
        help=f"directory or URI of all tables (default: ${WAREHOUSE_VARIABLE}, else that of {FILE})",
    )  # fmt: skip
    how = option(
        f"--{STORAGE_OPTION.replace('_', '-')}", metavar="KEY=VALUE", multiple=True, section="object store",
        help="how the store of a URI is reached, in the words of delta-rs: AWS_ENDPOINT_URL=…, AWS_REGION=…; "
        "a secret as ${env:VARIABLE}",
    )  # fmt: skip
    patience = option(
        f"--{STORAGE_TIMEOUT.replace('_', '-')}", metavar="DURATION", section="object store",
        help="how long a request that fails is made again, such as 5m (default 2m)",
    )  # fmt: skip
    return warehouse(how(patience(function)))


pipeline = option(
    "--pipeline", required=True, metavar="NAME", help=f"folder of its tables in the warehouse (default: that of {FILE})"
)
"""``pipeline: str``."""

topology_argument = argument("topology", metavar="TOPOLOGY", help=TOPOLOGY)
"""``topology: str``, as TOPOLOGY says."""

raw = option("--raw", is_flag=True, help="times as milliseconds")
"""``raw: bool``."""

as_json = option("--json", "as_json", is_flag=True, help="print one JSON object: rows whole, times as milliseconds")
"""``as_json: bool``; what is printed comes from ``print_json`` (orchestration/text_tables.py)."""

limit = option("--limit", type=Whole(min=0), default=20, metavar="N", help="so many rows (default 20)")
"""``limit: int``."""

key = option("--key", metavar="KEY", help="this key alone, as text, a number, or JSON")
"""``key: str | None``."""

window = option("--window", metavar="TIME", help="windows that begin at this time alone: ISO 8601, or milliseconds")
"""``window: str | None``."""

increment = option("--increment", type=INCREMENT, metavar="N", help="as of this increment (default: the last)")
"""``increment: int | None``."""

kafka = option("--kafka", required=True, metavar="SERVERS", help="bootstrap servers: host:port, with commas")
"""``kafka: str``."""


def client_settings(function: Callable[..., Any], section: str | None = None) -> Callable[..., Any]:
    """``settings: tuple[str, ...]`` and ``kafka_config: str | None``, which ``client_settings_of`` reads."""
    more = {} if section is None else {"section": section}
    return kafka_config(**more)(option(
        "--option", "settings", takes_many=True, metavar="K=V", **more,
        help="settings of the client, as Java's or librdkafka name them: security.protocol=SASL_SSL …; a secret as "
        "${env:VARIABLE}",
    )(function))  # fmt: skip


def kafka_config(**more: str) -> Decorator:
    """``kafka_config: str | None``: a file of the client's settings, as Kafka's tools take one."""
    return option(
        "--kafka-config", metavar="FILE",
        help="a file of the client's settings, as client.properties of Kafka's tools; --option wins over it", **more,
    )  # fmt: skip


def client_settings_of(kafka_config: str | None, settings: Sequence[str]) -> dict[str, str]:
    """Of a Kafka client, with what they name elsewhere. Raises ConfigError for a file that cannot be read."""
    from_file = [] if kafka_config is None else list(read_client_settings(kafka_config).items())
    pairs = [*(f"{name}={value}" for name, value in from_file), *settings]
    return dict(key_and_value(pair, "--option") for pair in pairs)


local = option("--local", is_flag=True, help="in this process, without Spark and Java")
"""``local: bool``."""

master = option("--master", metavar="URL", help="Spark's master (default: $REPLAY_SPARK_MASTER, else all cores)")
"""``master: str | None``."""

detailed_exit_code = option(
    "--detailed-exit-code",
    is_flag=True,
    help="exit with 3 when nothing is new, with 5 when there are warnings",
)
"""``detailed_exit_code: bool``: see orchestration/cli/exit_codes.py."""


def refused_limit(function: Any) -> Any:
    """``refused_max: float`` and ``refused_severity: str``, as ``RefusedLimit`` takes them."""
    where = "alarms"
    share = option(
        "--refused-max", type=SHARE, default=DEFAULT_LIMIT.share, metavar="SHARE", section=where,
        help="of the records that came so many may be refused, or undecodable, without an alarm (default 0.01)",
    )  # fmt: skip
    severity = option(
        "--refused-severity", type=click.Choice(["warning", "error"]), default=DEFAULT_LIMIT.severity, section=where,
        help="of this alarm; an error ends with exit code 4 (default warning)",
    )  # fmt: skip
    return share(severity(function))


kafka_version = option(
    "--kafka-version", metavar="VERSION",
    help=f"whose rows are made: {' or '.join(REPLAYED)} (default: as the increment before, at first {DEFAULT})",
)  # fmt: skip
"""``kafka_version: str | None``; ``replayed_version`` refuses what is none (state/kafka_version.py)."""

migrate = option(
    "--migrate", metavar="STORE=MODULE:FUNCTION", multiple=True, section="changed code",
    help="make the store's new rows of its old ones (each an Arrow table)",
)  # fmt: skip
"""``migrate: tuple[str, ...]``."""

renamed = option(
    "--renamed", metavar="OLD=NEW", multiple=True, section="changed code",
    help="the rows of store OLD belong to store NEW now; OLD= lets them go",
)  # fmt: skip
"""``renamed: tuple[str, ...]``."""


PLACEMENT = (
    "placement", "num_standby_replicas", "max_warmup_replicas", "acceptable_recovery_lag_bytes",
    "rack_aware_assignment_tags", "rack_aware_assignment_strategy",
)  # fmt: skip


def placement(function: Any) -> Any:
    """A parameter for each name in PLACEMENT, None where nothing was given."""
    where = "workers of a cluster"
    for decorate in reversed((
        option("--placement", type=click.Choice(["spark", "sticky", "high_availability"]), section=where,
               help="which worker runs which task (default: $REPLAY_PLACEMENT, else spark: any that is free)"),
        option("--num-standby-replicas", type=Whole(min=0), metavar="N", section=where,
               help="other workers that keep the state of each task warm (default 0)"),
        option("--max-warmup-replicas", type=COUNT, metavar="N", section=where,
               help="tasks that workers learn at a time, beyond standbys (default 2)"),
        option("--acceptable-recovery-lag-bytes", type=Whole(min=0), metavar="B", section=where,
               help="a worker that lacks at most so much of a task's state may run it (default 16 MiB)"),
        option("--rack-aware-assignment-tags", metavar="TAG,…", section=where,
               help="tags of workers ($REPLAY_CLIENT_TAGS) in which a task and its standbys are to differ"),
        option("--rack-aware-assignment-strategy", type=click.Choice(["none", "balance_subtopology"]), section=where,
               help="balance_subtopology: each worker runs its share of every sub-topology (default none)"),
    )):  # fmt: skip
        function = decorate(function)
    return function


def topology_option(help_text: str, *, required: bool = False, takes_default: bool = False) -> Decorator:
    """``topology: str | None``, as an option."""
    return option("--topology", metavar="TOPOLOGY", required=required, takes_default=takes_default, help=help_text)
