"""The page about quality in Chromium, without any network: hostile names and values are text, and nothing runs."""

import json
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

from kstreams_replay.expectations.quality_tables import record_verdicts
from kstreams_replay.expectations.verdicts import Verdict
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder
from kstreams_replay.orchestration.quality.report import write_report
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.browser.pages import save
from tests.planted import LandedRecord, plant

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

SCRIPT = "<script>window.taken = 1</script>"
IMAGE = '<img src=x onerror="window.taken = 1">\'&{{7*7}}'
CLOSING = "</text></svg></title></style><script>window.taken = 1</script>"


def hostile(folder: Path) -> Path:
    """The page on a pipeline with hostile keys, values, names of suites and of what an advice speaks of."""
    warehouse = Warehouse(str(folder / "warehouse"))
    rows = [
        LandedRecord(0, each.encode(), each.encode(), 10 * number)
        for number, each in enumerate((SCRIPT, IMAGE, CLOSING))
    ]
    plant(warehouse, "clicks", rows, partitions=1)
    builder = StreamsBuilder()
    builder.stream("clicks", Consumed(Serde.string(), Serde.string())).to("copied")
    list(replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner()))
    row = {"topic": SCRIPT, "partition": 0, "offset": 1, IMAGE: CLOSING, "value": SCRIPT}
    broken = Verdict(
        guarantee=SCRIPT, sentence=IMAGE, check="one", table=f"outputs/{IMAGE}", version=1, increment=1,
        answer="false", witnesses=[row], broken=(CLOSING,), reason=IMAGE, observed={SCRIPT: 1},
    )  # fmt: skip
    record_verdicts(warehouse, "p", [broken])
    tried = [{"grace_ms": grace, "refused": 9 - grace, "buffer_results": 3, "fails": None} for grace in (0, 5)]
    nodes = [{"node": CLOSING, "grace_ms": 0, "what_if": tried, "suggested_ms": 5, "reason": SCRIPT}]
    advice = json.loads(json.dumps({"pipeline": "p", "since": 1, "until": 1, "nodes": nodes}))
    write_report(warehouse, ["p"], folder / "page.html", advice=advice)
    return folder / "page.html"


def test_hostile_names_and_values_are_shown_as_text_and_nothing_runs(offline, tmp_path, artifacts):
    offline.get(hostile(tmp_path).as_uri())

    text = offline.find_element(By.TAG_NAME, "body").text
    assert offline.execute_script("return window.taken === undefined")
    assert offline.find_elements(By.CSS_SELECTOR, "script, img, iframe, object, [onerror], [onload], [src]") == []
    for each in (SCRIPT, IMAGE, CLOSING):
        assert text.count(each) >= 2  # as a key, and in what failed
    assert f"Refused with another grace: {CLOSING}" in text
    assert len(offline.find_elements(By.CSS_SELECTOR, "figure svg")) > 3
    save(offline, artifacts / "quality-page-hostile.png")


def test_the_page_opens_in_dark_and_by_keyboard(offline, tmp_path):
    def paper() -> str:
        return str(offline.execute_script("return getComputedStyle(document.body).backgroundColor"))

    colours = {}
    for scheme in ("light", "dark"):
        features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        offline.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
        offline.get(hostile(tmp_path / scheme).as_uri())
        colours[scheme] = paper()
    offline.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    reached = offline.execute_script(
        "return [...document.querySelectorAll('[tabindex=\"0\"], summary')].map(e => { e.focus();"
        " return document.activeElement === e })"
    )

    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 30)"}
    assert len(reached) > 1
    assert all(reached)
