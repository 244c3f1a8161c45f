"""What an increment asks an object store for, Delta's logs included, stays below a fixed number (store_requests.py)."""

from collections import Counter

import pytest

from tests.laws.failing import stuttering
from tests.laws.object_stores import played_store
from tests.laws.store_requests import asked

MOST = {
    ("increment", False): Counter(GET=24, PUT=28, LIST=1, HEAD=46),
    ("increment", True): Counter(GET=32, PUT=5, LIST=9, HEAD=17),
    ("nothing new", False): Counter(GET=6),
    ("nothing new", True): Counter(GET=32, LIST=9, HEAD=1),
}
"""By kind; for files, and (True) for Delta's logs. A tenth above what is counted: 8 tasks, 9 tables, 800 records."""


@pytest.mark.nightly
def test_an_increment_and_an_idle_run_ask_a_store_for_no_more_than_so_much(tmp_path):
    with played_store() as store, stuttering(store) as there:
        runs = {run.name: run for run in asked(there, tmp_path, 800)}
    more = {
        (name, of_logs): (dict(got), runs[name].by_place())
        for (name, of_logs), most in MOST.items()
        if not (got := runs[name].counts(of_logs=of_logs)) <= most
    }

    assert more == {}
