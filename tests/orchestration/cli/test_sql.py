"""`sql` answers queries over the pipeline's tables, and reads nothing else of the machine."""

import polars as pl
import pytest

from kstreams_replay.jobs.history.history import History
from kstreams_replay.jobs.history.query_rules import refuse_what_reads_files
from kstreams_replay.state.errors import ConfigError

SECRET = 918_273_645_546
"""No path and no message has it by chance."""


@pytest.fixture
def as_of(replayed):
    return History(replayed, "shop").at()


@pytest.fixture
def secret(tmp_path):
    (tmp_path / "secret.csv").write_text(f"s\n{SECRET}\n")
    (tmp_path / "secret.json").write_text(f'[{{"s": {SECRET}}}]')
    pl.DataFrame({"s": [SECRET]}).write_parquet(tmp_path / "secret.parquet")
    pl.DataFrame({"s": [SECRET]}).write_ipc(tmp_path / "secret.arrow")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{secret}/secret.csv')",
        "SELECT * FROM READ_CSV('{secret}/secret.csv')",
        "SELECT * FROM \"read_csv\"('{secret}/secret.csv')",
        "SELECT * FROM `read_csv`('{secret}/secret.csv')",
        "SELECT * FROM read_csv /* of mine */ ('{secret}/secret.csv')",
        "SELECT * FROM read_parquet('{secret}/secret.parquet')",
        "SELECT * FROM read_ipc('{secret}/secret.arrow')",
        "SELECT * FROM read_json('{secret}/secret.json')",
        "WITH x AS (SELECT * FROM read_csv('{secret}/secret.csv')) SELECT * FROM x",
        "SELECT key FROM sessions WHERE {number} IN (SELECT s FROM read_csv('{secret}/secret.csv'))",
        "SELECT (SELECT s FROM read_csv('{secret}/secret.csv')) AS s FROM sessions",
        "SELECT key FROM sessions UNION ALL SELECT s FROM read_csv('{secret}/secret.csv')",
        "SELECT * FROM sessions JOIN read_csv('{secret}/secret.csv') AS c ON sessions.key = c.s",
        "FROM read_csv('{secret}/secret.csv')",
        "SELECT * FROM '{secret}/secret.csv'",
        'SELECT * FROM "{secret}/secret.csv"',
        "SELECT * FROM TABLE(read_csv('{secret}/secret.csv'))",
        "SELECT * FROM read_csv('{secret}/not-there.csv')",
    ],
)
def test_no_query_reads_a_file_of_the_machine(as_of, secret, query):
    with pytest.raises(ConfigError) as info:
        as_of.sql(query.format(secret=secret, number=SECRET))

    assert str(SECRET) not in str(info.value)
    assert "os error" not in str(info.value), "not even whether a file is there"


def test_a_plan_that_reads_a_file_is_refused_whatever_the_function_was_called(secret):
    with pytest.raises(ConfigError, match="a plan that reads files"):
        refuse_what_reads_files(pl.scan_csv(secret / "secret.csv"), "x")

    refuse_what_reads_files(pl.DataFrame({"s": ["Csv SCAN [x]"]}).lazy().filter(pl.col("s") == "Csv SCAN [x]"), "x")


@pytest.mark.parametrize(
    "query",
    ["DROP TABLE sessions", "TRUNCATE TABLE sessions", "DELETE FROM sessions WHERE key = 'ann'", "SHOW TABLES",
     "CREATE TABLE x AS SELECT * FROM sessions", "EXPLAIN SELECT * FROM sessions", "-- SELECT\nDROP TABLE sessions",
     "/* SELECT */ DROP TABLE sessions", "selection", "", "  "],
)  # fmt: skip
def test_what_is_no_query_is_refused_with_the_names_of_the_tables(as_of, query):
    with pytest.raises(ConfigError, match=r"expected a query over the pipeline's tables .*tables are dead_letter"):
        as_of.sql(query)


@pytest.mark.parametrize(
    "query",
    ["SELECT count(*) AS n FROM sessions", "select count(*) as n from sessions",
     "  (SELECT count(*) AS n FROM sessions)",
     "-- how many\nSELECT count(*) AS n FROM sessions", "/* how\nmany */ SELECT count(*) AS n FROM sessions",
     "WITH s AS (SELECT * FROM sessions) SELECT count(*) AS n FROM s"],
)  # fmt: skip
def test_a_query_is_answered_however_it_begins(as_of, query):
    assert as_of.sql(query)["n"].to_list() == [4]
