"""What Numba's cache on disk is asked for, and what distinguishes its entries."""

import importlib
import pickle
from pathlib import Path
from types import ModuleType

import numba
import pytest

from tests.state.compilation.small_kernels import SMALL, call


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of two kernels, of which no cache knows anything."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"cached_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(SMALL)
    return importlib.import_module(name)


def test_an_index_of_the_cache_that_names_a_class_of_another_version_counts_as_empty(small):
    assert call(small) == [1, 3, 5]
    index = Path(small.double.dispatcher._cache._cache_file._index_path)
    del small.double.dispatcher
    with index.open("wb") as file:
        pickle.dump(numba.__version__, file)
        file.write(b"ckstreams_replay.state.stores.slots\nNoColumns\n.")

    assert call(small) == [1, 3, 5]

    assert versions_in(index) == 1


def versions_in(index: Path) -> int:
    """Versions that an index of Numba's cache names."""
    with index.open("rb") as file:
        pickle.load(file)
        return len(pickle.load(file)[1])
