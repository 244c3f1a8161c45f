"""Of which increment a verdict is, and who asked for it: the name by which pages and results know it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class JudgedRun:
    """Whose increment is judged; ``run_id``: of the Dagster run that asks, "" for none."""

    pipeline: str
    increment: int
    run_id: str = ""

    @property
    def name(self) -> str:
        """Run name in Great Expectations, which the pages of Data Docs show."""
        return f"{self.pipeline}-increment-{self.increment:06}{self.run_id and f'-run-{self.run_id}'}"
