"""A store that is played, behind a proxy that fails when it is asked to."""

import pytest

from tests.laws.failing import stuttering
from tests.laws.object_stores import played_store


@pytest.fixture(scope="module")
def started():
    with played_store() as store, stuttering(store) as there:
        yield there


@pytest.fixture
def there(started):
    """Fails at nothing yet."""
    started.proxy.begin()
    return started
