"""What stores give for a range, in processors and in the driver: it is asked in the same words."""

import pytest

from kstreams_replay import Consumed, KeyValues, Processor, Serde, Stores, StreamsBuilder, TopologyTestDriver, Windowed
from kstreams_replay.jobs.functions.store_iterators import IterableRows, StoreIterator
from kstreams_replay.state.errors import ConfigError, TaskFailed

S = Serde.string()
WINDOWS = Stores.window_store_builder(Stores.in_memory_window_store("windows", 200, 10), S, S)
SESSIONS = Stores.session_store_builder(Stores.in_memory_session_store("sessions", 200), S, S)
KEYS = KeyValues("keys", S, S)


@pytest.mark.parametrize("kind", [StoreIterator, IterableRows])
def test_it_knows_whether_there_is_a_row_and_loses_none(kind):
    rows = kind(iter("abc"))

    assert rows
    assert rows
    assert (next(rows), bool(rows), list(rows)) == ("a", True, ["b", "c"])
    assert not kind(iter(""))
    with pytest.raises(StopIteration):
        next(kind([]))


def test_it_is_false_when_all_is_read():
    rows = StoreIterator("a")

    assert (list(rows), bool(rows), list(rows)) == (["a"], False, [])


@pytest.mark.parametrize("kind", [StoreIterator, IterableRows])
def test_a_with_closes_it(kind):
    with kind(iter("abc")) as rows:
        assert next(rows) == "a"


def test_a_closed_iterator_is_not_read():
    rows = StoreIterator("abc")
    rows.close()

    assert not rows
    with pytest.raises(ConfigError, match="expected one that is open, got a closed one; ask the store again"):
        next(rows)


ASKED = [
    ("keys", lambda s: s.range(), [("k", "x")]),
    ("keys", lambda s: s.reverse_range("a", "z"), [("k", "x")]),
    ("keys", lambda s: s.all(), [("k", "x")]),
    ("keys", lambda s: s.reverse_all(), [("k", "x")]),
    ("keys", lambda s: s.range("l"), []),
    ("windows", lambda s: s.fetch("k", 0, 9), [(5, "x")]),
    ("windows", lambda s: s.fetch_range("k", 0, 9), [(5, "x")]),
    ("windows", lambda s: s.fetch("k", 6, 9), []),
    ("windows", lambda s: s.fetch("a", "z", 0, 9), [(Windowed("k", 5, 15), "x")]),
    ("windows", lambda s: s.fetch_keys("a", "z", 0, 9), [(Windowed("k", 5, 15), "x")]),
    ("windows", lambda s: s.backward_fetch("k", 0, 9), [(5, "x")]),
    ("windows", lambda s: s.backward_fetch("a", "z", 0, 9), [(Windowed("k", 5, 15), "x")]),
    ("windows", lambda s: s.backward_fetch_range("k", 0, 9), [(5, "x")]),
    ("windows", lambda s: s.backward_fetch_keys("a", "z", 0, 9), [(Windowed("k", 5, 15), "x")]),
    ("windows", lambda s: s.fetch_all(0, 9), [(Windowed("k", 5, 15), "x")]),
    ("windows", lambda s: s.all(), [(Windowed("k", 5, 15), "x")]),
    ("sessions", lambda s: s.fetch("k"), [(Windowed("k", 5, 6), "x")]),
    ("sessions", lambda s: s.find_sessions("k", 7, 9), []),
    ("sessions", lambda s: s.backward_fetch("k"), [(Windowed("k", 5, 6), "x")]),
]


@pytest.mark.parametrize(("store", "ask", "want"), ASKED)
def test_a_processor_and_the_driver_ask_in_the_same_words(store, ask, want):
    seen = []

    class Asking(Processor):
        def process(self, record):
            self.context.store("keys").put("k", "x")
            self.context.store("windows").put("k", "x", 5)
            self.context.store("sessions").put(Windowed("k", 5, 6), "x")
            answer = ask(self.context.store(store))
            seen.append((bool(answer), list(answer)))

    builder = StreamsBuilder()
    builder.stream("in", Consumed(S, S)).process(Asking, [KEYS, WINDOWS, SESSIONS])
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", timestamp_ms=5)
    driver.run()
    answer = ask(driver.get_all_state_stores()[store])

    assert seen == [(bool(want), want)]
    assert (bool(answer), list(answer)) == (bool(want), want)


@pytest.mark.parametrize(
    ("ask", "instead"),
    [
        (lambda rows: rows == [], "'if rows' to ask for a row, or compare list(rows)"),
        (lambda rows: rows != [], "'if rows' to ask for a row, or compare list(rows)"),
        (len, "len(list(rows)), or 'if rows' to ask for a row"),
        (lambda rows: rows[0], "next(rows) for the first one, or list(rows)[…]"),
    ],
)
def test_what_only_a_list_answers_is_refused_by_an_iterator(ask, instead):
    with pytest.raises(TypeError) as error:
        ask(StoreIterator("ab"))

    assert str(error.value).endswith(f"; write {instead}")


def test_an_empty_store_is_true_in_a_processor_and_in_the_driver():
    seen = []

    class Asking(Processor):
        def process(self, record):
            seen.extend(bool(self.context.store(name)) for name in ("keys", "windows", "sessions"))

    builder = StreamsBuilder()
    builder.stream("in", Consumed(S, S)).process(Asking, [KEYS, WINDOWS, SESSIONS])
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", timestamp_ms=5)
    driver.run()

    assert seen == [True] * 3
    assert [bool(store) for store in driver.get_all_state_stores().values()] == [True] * 3
    assert len(driver.get_key_value_store("keys")) == 0


@pytest.mark.parametrize(
    ("ask", "got"),
    [
        (lambda store: store.fetch("k"), r"WindowStore.fetch: expected fetch\(key, time\), .*, got 1 argument;"),
        (
            lambda store: store.backward_fetch("k", 5),
            r"expected backward_fetch\(key, from, to\) or .*, got 2 arguments;",
        ),
    ],
)
def test_a_fetch_of_too_few_bounds_is_refused_in_the_words_of_the_call(ask, got):
    builder = StreamsBuilder()
    builder.stream("in", Consumed(S, S)).process(
        type("Asking", (Processor,), {"process": lambda self, record: ask(self.context.store("windows")) and None}),
        [WINDOWS],
    )
    driver = TopologyTestDriver(builder.build())

    with pytest.raises(ConfigError, match=got):
        ask(driver.get_window_store("windows"))
    driver.pipe_input("in", "k", "v", timestamp_ms=5)
    with pytest.raises(TaskFailed, match=got.rstrip(";")):
        driver.run()


def test_one_window_is_fetched_by_its_start():
    class Asking(Processor):
        def process(self, record):
            store = self.context.store("windows")
            store.put("k", "x", 5)
            self.context.forward(record.with_value(f"{store.fetch('k', 5)} {store.fetch('k', 6)}"))

    builder = StreamsBuilder()
    builder.stream("in", Consumed(S, S)).process(Asking, [WINDOWS]).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", timestamp_ms=5)

    assert driver.read_output("out").value == "x None"
    assert driver.get_window_store("windows").fetch("k", 5) == "x"


def test_five_bounds_are_refused():
    class Asking(Processor):
        def process(self, record):
            self.context.store("windows").fetch("a", "b", 1, 2, 3)

    builder = StreamsBuilder()
    builder.stream("in", Consumed(S, S)).process(Asking, [WINDOWS])
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", timestamp_ms=5)

    with pytest.raises(Exception, match=r"expected fetch\(key, time\), fetch\(key, from, to\) or fetch\(first, last"):
        driver.run()
