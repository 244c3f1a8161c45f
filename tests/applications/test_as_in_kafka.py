"""Applications with loops, with processors that write the store of an aggregate, and with wall-clock schedules write
what their twins on Kafka Streams itself write (Applications.java), record for record.
"""

import pytest

from tests.applications import orders_microservices, purchase_dashboards, table_ttl, workflows
from tests.applications.in_kafka import play_in_kafka
from tests.applications.test_orders_microservices import ALL_THE_WAY
from tests.applications.test_purchase_dashboards import FORGOTTEN
from tests.applications.test_table_ttl import TAPE as UPDATED
from tests.applications.test_workflows import TAPE as RUNS
from tests.playing import play_whole

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize(
    ("twin", "topology", "tape"),
    [
        ("orders", orders_microservices.topology(), ALL_THE_WAY),
        ("ttl", table_ttl.topology(), UPDATED),
        ("workflows", workflows.topology(), RUNS),
        ("sales", purchase_dashboards.topology(purchase_dashboards.none), FORGOTTEN),
    ],
)
def test_an_application_writes_what_its_twin_writes(twin, topology, tape):
    got, want = play_whole(topology, tape), play_in_kafka(twin, tape)

    assert got == want
