"""The flights of January 2013, day by day: `dagster dev -m tests.browser.flight_days`, where the files are."""

from pathlib import Path

import dagster as dg

from examples.flights.definitions import flights
from kstreams_replay.orchestration.resources import LocalEngine

THIRTY_DAYS = dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-01-31")

defs = flights(Path("."), engine=LocalEngine(), partitions=THIRTY_DAYS)
