"""The environment of these tests: that of a user, whose Python finds installed packages alone."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _plain_environment() -> Iterator[None]:
    """With $PYTHONPATH pip would find the checkout, and call it installed."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PYTHONPATH", "PYSPARK_PYTHON"):
            patch.delenv(name, raising=False)
        yield
