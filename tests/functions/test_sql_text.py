"""Fields that are called as words of SQL are, in the text of steps."""

import random

import pytest

from kstreams_replay.jobs.functions.expressions import Shape, bind
from kstreams_replay.jobs.functions.sql_text import CHAIN_MAX, balanced, depth, readings
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, StreamsBuilder, fold
from kstreams_replay.state.errors import TopologyError
from kstreams_replay.state.serdes import Serde
from tests.functions.test_expressions import batch_of

WORDS = (
    "user", "order", "end", "from", "limit", "offset", "values", "group", "interval", "select", "where", "having",
    "current_date", "localtime", "with", "into", "union", "trim", "struct", "top", "fetch", "sort", "view", "exists",
    "any", "all", "distinct", "true", "null", "not", "case", "as", "date", "left", "is",
)  # fmt: skip
WORDED = Serde.json("user string, order long, end long, current_date long, date string, true boolean")


def answer(text: str, value: dict, serde: Serde = WORDED) -> object:
    (found,) = bind(text, Shape(Serde.string(), serde), "step").evaluate(batch_of([value], serde)).to_pylist()
    return found


@pytest.mark.parametrize("word", WORDS)
def test_text_that_is_exactly_the_name_of_a_field_is_that_field(word):
    serde = Serde.json(f"`{word}` long")

    assert answer(word, {word: 7}, serde) == 7
    assert bind(word, Shape(Serde.string(), serde), "step").name == word


def test_a_field_with_a_space_in_its_name_is_text_too():
    assert answer("unit price", {"unit price": 7}, Serde.json("`unit price` long")) == 7


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("order + end", 12),
        ("1 + order", 6),
        ("COALESCE(order, end)", 5),
        ("user || '-' || user", "ann-ann"),
        ("user IN ('ann', 'bob')", True),
        ("NOT order = 5", False),
        ("order IS NULL", False),
        ("end BETWEEN order AND 9", True),
        ("CASE WHEN end > 3 THEN order ELSE 0 END", 5),
        ("CASE WHEN end > 9 THEN 1 ELSE end end", 7),
        ("CAST(order AS double)", 5.0),
        ("current_date + 1", 4),
        ("date || ''", "2013-01-02"),
        ("date '2013-01-03' > date '2013-01-02'", True),
        ("'order' || user", "orderann"),
        ('"order" + end', 12),
        ("order /* order */ + 1 -- end", 6),
        ("order = 5 AND true", True),
    ],
)
def test_a_field_is_found_in_sql_by_a_name_that_is_a_word_of_sql(text, wanted):
    """
    The words null, true, false and not stay SQL's unless they are all of the text: here the field `true` is not asked.
    """
    value = {"user": "ann", "order": 5, "end": 7, "current_date": 3, "date": "2013-01-02", "true": False}

    assert answer(text, value) == wanted


def test_what_the_result_is_called_may_be_such_a_word_too():
    bound = bind("end - order AS interval", Shape(Serde.string(), WORDED), "step")

    assert bound.name == "interval"


def test_fields_of_a_struct_are_found_by_such_names():
    serde = Serde.json("item struct<order: long, user: string>")

    assert answer("item.order + 1", {"item": {"order": 4, "user": "ann"}}, serde) == 5


def test_text_without_such_names_is_read_as_it_is():
    assert list(readings("minutes / 60 AS hours", {"minutes"})) == ["minutes / 60 AS hours"]


def test_before_a_literal_or_a_parenthesis_such_a_word_is_no_field():
    assert list(readings("interval '1d'", {"interval"})) == ["interval '1d'"]
    assert list(readings("trim(dest)", {"trim", "dest"})) == ["trim(dest)"]


def test_of_many_such_words_either_all_or_none_is_a_field():
    text = " + ".join(["end"] * 40)

    assert list(readings(text, {"end"})) == [text.replace("end", '"end"'), text]


def test_an_unknown_name_beside_such_a_word_is_what_is_refused():
    with pytest.raises(TopologyError, match='unable to find column "ordr"'):
        bind("ordr + end", Shape(Serde.string(), WORDED), "step")


def test_such_fields_go_through_steps_folds_and_joins():
    builder = StreamsBuilder()
    order = Serde.json("user string, limit long, offset long")
    orders = builder.stream("orders", Consumed(Serde.string(), order)).filter("limit > offset")
    users = builder.table("users", Consumed(Serde.string(), Serde.json("group string")))
    (
        orders.select_key("user")
        .map_values("limit", "offset", values="limit - offset")
        .join(users, group="right.group", limit="left.limit", values="left.values AS values")
        .group_by("group")
        .aggregate(end=fold.sum("values"), order=fold.max_by("limit", "values"))
        .to_stream()
        .to("out")
    )
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("users", "ann", {"group": "staff"}, timestamp_ms=0)
    driver.pipe_input("orders", "1", {"user": "ann", "limit": 5, "offset": 2}, timestamp_ms=1)
    driver.pipe_input("orders", "2", {"user": "ann", "limit": 5, "offset": 9}, timestamp_ms=2)
    driver.pipe_input("orders", "3", {"user": "ann", "limit": 9, "offset": 5}, timestamp_ms=3)

    got = [(record.key, record.value) for record in driver.read_outputs("out")]
    assert got == [("staff", {"end": 3, "order": 5}), ("staff", {"end": 7, "order": 9})]


# --- long chains ---------------------------------------------------------------------------------------------

NUMBERS = Serde.json("a long, b long")
CONDITIONS = (
    ("a = {n}", lambda a, b, n: a == n),
    ("NOT a < {n}", lambda a, b, n: not a < n),
    ("b BETWEEN {n} AND 40", lambda a, b, n: n <= b <= 40),
    ("NOT b BETWEEN 3 AND {n}", lambda a, b, n: not 3 <= b <= n),
    ("(a > {n} AND b > 2 OR b = 1)", lambda a, b, n: (a > n and b > 2) or b == 1),
    (
        "CASE WHEN a = {n} OR b = {n} THEN b > 5 AND a > 5 ELSE a > b END",
        lambda a, b, n: (b > 5 and a > 5) if n in (a, b) else a > b,
    ),
    ("'AND' || 'OR' <> 'x'", lambda a, b, n: True),
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_long_chain_of_conditions_is_true_when_all_of_one_of_its_alternatives_are(seed):
    dice = random.Random(seed)
    alternatives = [
        [(*dice.choice(CONDITIONS), dice.randint(0, 50)) for _ in range(dice.choice((1, 2, 3, CHAIN_MAX + 9)))]
        for _ in range(dice.choice((1, 2, CHAIN_MAX, 2 * CHAIN_MAX)))
    ]
    text = " or ".join(" AND ".join(said.format(n=n) for said, _, n in one) for one in alternatives) + " AS met"
    for a, b in [(dice.randint(0, 50), dice.randint(0, 50)) for _ in range(5)]:
        want = any(all(holds(a, b, n) for _, holds, n in one) for one in alternatives)

        assert answer(text, {"a": a, "b": b}, NUMBERS) == want


def test_a_chain_is_put_in_halves_of_halves_above_so_many_conditions():
    chain = [f"a <> {n}" for n in range(1000)]

    assert balanced(" AND ".join(chain[:CHAIN_MAX])) == " AND ".join(chain[:CHAIN_MAX])
    assert depth(balanced(" AND ".join(chain))) == 10  # 2 ** 10 are 1,024
    assert depth(balanced(" OR ".join(chain))) == 10
    assert balanced("-- all of them\n" + " OR ".join(chain)) == "-- all of them\n" + " OR ".join(chain)
