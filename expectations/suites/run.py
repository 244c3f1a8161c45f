"""Of which increments a verdict is, and who asked for it: the name by which pages and results know it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class JudgedRun:
    """Whose increment is judged; ``run_id``: of the Dagster run that asks, "" for none. ``last``: of several that are
    judged together; None: it is one.
    """

    pipeline: str
    increment: int
    run_id: str = ""
    last: int | None = None

    @property
    def name(self) -> str:
        """Run name in Great Expectations, which the pages of Data Docs show."""
        last = "" if self.last is None else f"-to-{self.last:06}"
        return f"{self.pipeline}-increment-{self.increment:06}{last}{self.run_id and f'-run-{self.run_id}'}"
