"""Suites of a project, as one pipeline takes them: each speaks of a table that an increment of it writes.

Owns the refusal of others. Rule: a suite is known by its name, as a guarantee is by its id; both are checks of a table.
"""

from pathlib import Path

from ...expectations.guarantees import GUARANTEES
from ...expectations.suites.project_suites import ProjectSuite, read_suites
from ...jobs.topology import Topology
from ...state.errors import ConfigError
from ...state.tables.names import DEAD_LETTER, DROPPED, TableName


def suites_of(folder: str | Path | None, topology: Topology, engine: str) -> tuple[ProjectSuite, ...]:
    """The suites in ``folder``; none where it is None. Raises ConfigError for what is no suite of this topology, and
    for an ``engine`` that cannot judge them.
    """
    if folder is None:
        return ()
    if engine != "gx":
        raise ConfigError("expectations", "the engine gx, which judges suites", engine, "leave one of both out")
    outputs = [TableName.output(sink.topic) for sub in topology.sub_topologies for sink in sub.sinks]
    tables = list(dict.fromkeys([*outputs, DROPPED, DEAD_LETTER]))
    suites = read_suites(folder)
    for suite in suites:
        if suite.table not in tables:
            raise ConfigError(
                suite.file, f"a table of the pipeline: {', '.join(tables)}", repr(suite.table), "correct its meta"
            )
        if taken := [each for each in GUARANTEES if suite.name == each.id or suite.check == each.check]:
            raise ConfigError(
                suite.file,
                "a name of its own",
                f"{suite.name!r}, a guarantee: {taken[0].sentence}",
                "rename the suite",
            )
    return suites
