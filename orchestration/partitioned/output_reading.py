"""An output as the input of somebody's own asset: `ReplayIOManager` loads it as the frame that the parameter names.

Owns the choice of rows and of the frame. Rule: rows are read at the table version of an increment that is done, never
"latest". The output is loaded as a table: the newest record of every key and window, without tombstones.
Outputs are written by replays alone.

    @dg.asset(ins={"pages": dg.AssetIn(key=["shop", "outputs", "pages"], input_manager_key="shop_tables")})
    def report(pages: pl.DataFrame): ...
"""

from typing import Any

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...jobs.history.committed_tables import read_changelog, read_newest
from ...state.errors import ConfigError, LedgerError
from ...state.tables.names import OUTPUTS
from ...state.tables.warehouse import WINDOW
from ..asked_runs import failing_in_one_sentence
from ..partition_windows import reached, windows_of
from ..pipeline import Pipeline

LOADS = ("whole", "as_of_partition", "windows_of_partition")
ROWS = ("newest", "changelog")
FRAMES = "polars.DataFrame, polars.LazyFrame, pandas.DataFrame, pyarrow.Table or pyspark.sql.DataFrame"


class ReplayIOManager(dg.IOManager):
    """Of one pipeline; ``replay_definitions`` has it as the resource ``<pipeline>_tables``.

    Metadata of the input (``dg.AssetIn(metadata={"load": …})``) say what is loaded: ``"whole"`` (the default): as of
    the last increment. ``"as_of_partition"``: as of the end of the last partition that the input maps to.
    ``"windows_of_partition"``: windows, or records without one, that start in the asset's own partition, as of the last
    increment. ``"rows"``: ``"newest"`` (the default) or ``"changelog"``, every record in order. The parameter's
    annotation says the frame, a polars DataFrame where there is none. Raises ConfigError for what cannot be loaded so.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Refuses."""
        raise ConfigError(
            f"asset {context.asset_key.to_user_string()}", "an asset that a replay writes", "a value to be written",
            f"give your asset another io_manager_key: {self.pipeline.tables_key} only reads",
        )  # fmt: skip

    def load_input(self, context: dg.InputContext) -> Any:
        """The output as the parameter's frame."""
        with failing_in_one_sentence():
            return self._frame(context, self._rows(context))

    def _rows(self, context: dg.InputContext) -> pa.Table:
        output, place = self._output(context), f"input {context.name!r}"
        load = _chosen(context, "load", LOADS)
        read = read_newest if _chosen(context, "rows", ROWS) == "newest" else read_changelog
        pipeline = self.pipeline
        if load != "as_of_partition":
            rows = read(pipeline.warehouse, pipeline.name, output)
            return rows if load == "whole" else _starting_in(rows, context, place)
        return read(pipeline.warehouse, pipeline.name, output, increment=self._increment(context, place))

    def _output(self, context: dg.InputContext) -> str:
        key = list(context.asset_key.path)
        if len(key) != 3 or key[:2] != [self.pipeline.name, OUTPUTS]:
            raise ConfigError(
                f"input {context.name!r}", f"an output of {self.pipeline.name}, as {self.pipeline.name}/{OUTPUTS}/…",
                context.asset_key.to_user_string(), "load it with jobs.history, or through an io manager of its own",
            )  # fmt: skip
        return key[2]

    def _increment(self, context: dg.InputContext, place: str) -> int:
        """The last one that ended with the partition, or before it."""
        if self.pipeline.partitions is None or not context.has_asset_partitions:
            raise ConfigError(
                place, "a pipeline with partitions, which the asset's own map to", "none", 'load it "whole"'
            )
        window = windows_of(self.pipeline.partitions, list(context.asset_partition_keys))[-1]
        so_far = reached(self.pipeline)
        if so_far.until_ms is None or so_far.until_ms < window.end_ms:
            raise LedgerError(
                place, f"partition {window.key} of {self.pipeline.name}, replayed", "one that was not run yet",
                "run it first",
            )  # fmt: skip
        ended = [numbers[-1] for end, numbers in so_far.increments.items() if end <= window.end_ms]
        if not ended:
            raise LedgerError(
                place, f"an increment up to the end of partition {window.key}", "none", "load a later partition"
            )
        return max(ended)

    def _frame(self, context: dg.InputContext, rows: pa.Table) -> Any:
        kind = context.dagster_type.typing_type
        library, name = kind.__module__.partition(".")[0], getattr(kind, "__name__", str(kind))
        if (library, name) == ("pyarrow", "Table"):
            return rows
        if (library, name) == ("pandas", "DataFrame"):
            return rows.to_pandas()
        if (library, name) == ("pyspark", "DataFrame"):
            return self._spark(context).createDataFrame(rows)
        # Dagster gives Any for a parameter without an annotation.
        if (library, name) in (("polars", "DataFrame"), ("typing", "Any")):
            return pl.from_arrow(rows)
        if (library, name) == ("polars", "LazyFrame"):
            return pl.DataFrame(rows).lazy()
        raise ConfigError(f"input {context.name!r}", FRAMES, f"{kind.__module__}.{name}", "annotate it as one of these")

    def _spark(self, context: dg.InputContext) -> Any:
        spark = self.pipeline.engine.session()
        if spark is None:
            raise ConfigError(
                f"input {context.name!r}", "an engine with Spark, for a Spark DataFrame", "a local engine",
                "use SparkEngine(), or annotate it as a polars DataFrame",
            )  # fmt: skip
        return spark


def _chosen(context: dg.InputContext, name: str, known: tuple[str, ...]) -> str:
    """What the input's metadata say; the first where they are silent."""
    given = context.definition_metadata.get(name, known[0])
    if given not in known:
        expected = " or ".join(f'"{each}"' for each in known)
        raise ConfigError(f"input {context.name!r}, metadata {name!r}", expected, repr(given), "choose one")
    return str(given)


def _starting_in(rows: pa.Table, context: dg.InputContext, place: str) -> pa.Table:
    """Rows whose window starts, or whose record time is, in the partition of the asset that loads them."""
    if not context.has_partition_key or context.step_context is None:
        raise ConfigError(place, "an asset with partitions of its own", "one without", 'load it "whole"')
    window = context.step_context.partition_time_window
    start_ms, end_ms = (round(each.timestamp() * 1000) for each in (window.start, window.end))
    column = rows[WINDOW[0] if WINDOW[0] in rows.column_names else "record_time_ms"]
    return rows.filter(pc.and_(pc.greater_equal(column, start_ms), pc.less(column, end_ms)))
