"""Credentials are in the environment alone: commands and jobs run with marked ones, and the marks are sought."""

import os
import subprocess
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from kstreams_replay.jobs.bootstrap import kafka_application
from kstreams_replay.jobs.landing import kafka_offsets
from kstreams_replay.jobs.landing.kafka_source import KafkaSource
from kstreams_replay.jobs.landing.lake.lake_source import LakeSource
from kstreams_replay.jobs.publish import kafka_client
from kstreams_replay.jobs.topology import Materialized, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.main import COMMANDS, main
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.resources import LocalEngine, SparkEngine
from kstreams_replay.orchestration.settings.connections import (
    FilesResource,
    KafkaResource,
    KafkaTargetResource,
    WarehouseResource,
)
from kstreams_replay.state import hidden_values
from kstreams_replay.state.errors import ConfigError, LandingError
from kstreams_replay.state.hidden_values import HIDDEN, hide, without_hidden
from kstreams_replay.state.serdes.avro import keep_schemas
from kstreams_replay.state.tables import object_stores
from tests.dagster import shop
from tests.laws.object_stores import BUCKET, ObjectStore, played_store

# Its commands wait for stores and brokers that are not there: once a run, and first, so that other tests run meanwhile.
pytestmark = [pytest.mark.every_run, pytest.mark.xdist_group("secrets")]

MARK = "MARKED-CREDENTIAL"
SECRETS = {
    "SHOP_S3_KEY": f"{MARK}-s3-key",
    "SHOP_S3_SECRET": f"{MARK}/s3+secret",
    "SHOP_JAAS": f'org.example.PlainLoginModule required username="shop" password="{MARK}-sasl";',
    "SHOP_REGISTRY": f"shop:{MARK}-registry",
    "SHOP_CATALOG": f"{MARK}-catalog",
}
SHOP, COUNTED = "tests.orchestration.test_secrets:topology", "tests.orchestration.test_secrets:counted"
DAY = "1970-01-01"
PIPELINES = ("shop", "live", "sent", "days")
NOT_RUN = {"bench": "of a checkout alone, which takes no credentials"}


def topology() -> Topology:
    """The shop's, whose configuration is that of the live application, credentials and all."""
    secret = {name: os.environ.get(name, "") for name in SECRETS}
    builder = StreamsBuilder(config={
        "application.id": "shop", "sasl.jaas.config": secret["SHOP_JAAS"],
        "schema.registry.basic.auth.user.info": secret["SHOP_REGISTRY"],
    })  # fmt: skip
    shop.build_into(builder)
    return builder.build()


def counted() -> Topology:
    """Its one store can be handed over."""
    builder = StreamsBuilder()
    builder.stream("clicks", shop.CLICKS).group_by_key().count(Materialized.as_("counts")).to_stream().to("counted")
    return builder.build()


@dataclass
class Marked:
    """What came of the commands and jobs. ``said``: by command; ``started``: arguments of processes."""

    store: ObjectStore
    folder: Path
    root: str
    said: dict[str, list[str]] = field(default_factory=dict)
    codes: dict[str, list[int]] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def marked(patch, tmp_path_factory) -> Iterator[Marked]:
    """A store, an environment with marked credentials, and a list of the processes that are started."""
    folder = tmp_path_factory.mktemp("marked")
    for name, value in SECRETS.items():
        patch.setenv(name, value)
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.delenv(name, raising=False)
    patch.setenv("REPLAY_CACHE", str(folder / "cache"))
    patch.setattr(object_stores, "_OPTIONS", {})
    patch.setattr(hidden_values, "_hidden", set())
    for client in (kafka_client, kafka_application, kafka_offsets):
        patch.setattr(client, "PATIENCE_S", 1.0)
    with played_store() as store:
        found = Marked(store, folder, f"s3://{BUCKET}/warehouse")
        start = subprocess.Popen.__init__

        def noted(process, args, *rest, **options):
            found.started.append(str(args))
            start(process, args, *rest, **options)

        patch.setattr(subprocess.Popen, "__init__", noted)
        yield found


def storage(store: ObjectStore) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": store.endpoint, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "${env:SHOP_S3_KEY}", "AWS_SECRET_ACCESS_KEY": "${env:SHOP_S3_SECRET}",
    }  # fmt: skip


@pytest.fixture(scope="module")
def commanded(marked, great_expectations_loaded) -> Marked:
    """Every command, on the store, one after the other."""
    clicks, root = marked.folder / "clicks", marked.root
    where = ["--warehouse", root]
    for name, value in storage(marked.store).items():
        where += ["--storage-option", f"{name}={value}"]
    pipeline = [*where, "--pipeline", "shop"]
    land = ["land", "clicks", *where, "--files", str(clicks), "--timestamp", "ms", "--key", "user", "--local"]
    sasl = ["--option", "security.protocol=SASL_PLAINTEXT", "--option", "sasl.jaas.config=${env:SHOP_JAAS}"]
    catalog = ["--option", "type=rest", "--option", f"uri=http://{'shop'}:${{env:SHOP_CATALOG}}@localhost:1"]
    catalog += ["--option", "token=${env:SHOP_CATALOG}"]
    broker = ["--kafka", "localhost:1", "--option", "security.protocol=SASL_PLAINTEXT"]
    broker += ["--option", "sasl.mechanism=PLAIN", "sasl.username=shop"]
    broker += ["--option", "sasl.password=${env:SHOP_JAAS}"]
    sent = [*broker, "--topic", "t"]
    shop.drop_files(clicks, "1-morning", shop.MORNING)
    commands = [
        ["init", str(marked.folder / "project")],
        ["doctor", *where],
        land,
        ["land", "orders", *where, "--kafka", "localhost:1", *sasl, "--local", "--traceback"],
        ["land", "views", *where, "--iceberg", "lake.shop.views", *catalog, "--local", "--traceback"],
        ["run", SHOP, *pipeline, "--local"],
        ["warm-up", SHOP],
        ["advance", "clicks", *where, "--to", "250"],
        ["books", *pipeline],
        ["pipelines", *where],
        ["export", "pages", *pipeline, "--out", str(marked.folder / "pages.csv")],
        ["show", "pages", *pipeline],
        ["show", "nothing", *pipeline, "--traceback"],
        ["sql", "SELECT key FROM pages", *pipeline],
        ["sql", "SELECT nothing", *pipeline, "--traceback"],
        ["inspect", "open-pages", *pipeline, "--topology", SHOP],
        ["explain", "--record", "clicks:0:0", *pipeline, "--topology", SHOP],
        ["explain", "--dropped", "1", *pipeline, "--topology", SHOP],
        ["account", "sessions", *pipeline, "--topology", SHOP],
        ["describe", SHOP],
        ["errors", "ConfigError"],
        ["placement", *pipeline],
        ["check", SHOP, *pipeline, "--engine", "gx", "--data-docs", str(marked.folder / "docs")],
        ["check", SHOP, *pipeline, "--engine", "gx", "--data-docs", f"s3://{BUCKET}/docs"],
        ["verify", SHOP, *pipeline, "--increments", "1"],
        ["advise", "grace", SHOP, *pipeline, "--grace", "0s"],
        ["report", *where, "--out", str(marked.folder / "report.html")],
        ["metrics", *pipeline],
        ["lineage", SHOP, *pipeline],
        ["check-topology", SHOP, *pipeline],
        ["upgrade-advice", SHOP, "--from", "3.9", "--to", "4.4"],
        ["fork", *pipeline, "--at", "1", "--as", "what-if", "--topology", SHOP],
        ["branches", *where],
        ["diff", "shop", "what-if", *where, "--output", "sessions"],
        ["compare", "sessions", "--with-topic", "clicks", *pipeline, "--topology", SHOP],
        ["judge", SHOP, *pipeline, "--jar", str(marked.folder / "no.jar"), "--class", "com.acme.Shop#topology"],
        ["promote", "what-if", *where],
        ["fork", *pipeline, "--at", "1", "--as", "other"],
        ["drop", "other", *where],
        ["backfill", "shop", *where, "--from", "100", "--to", "200", "--topology", SHOP, "--as", "again", "--local"],
        ["current", "sessions", *pipeline],
        ["bootstrap", SHOP, *where, "--pipeline", "live", *broker, "--application-id", "shop", "--traceback"],
        ["run", COUNTED, *where, "--pipeline", "counted", "--local"],
        ["hand-over", COUNTED, *where, "--pipeline", "counted", *broker, "--application-id", "shop", "--traceback"],
        ["publish", "pages", "--topology", SHOP, *pipeline, *sent, "--traceback"],
        ["publish", "nothing", "--topology", SHOP, *pipeline, *sent],
        ["restore", *pipeline, "--to", "1"],
        ["vacuum", *pipeline, "--keep-increments", "1", "--delete"],
        ["take-back", "landed/clicks", *where],
        ["exclude", "clicks", *where, "--record", "0:0", "--reason", "a test of credentials"],
        ["erase", *where, "--key", "user-4711", "--topics", "clicks", "--reason", "a test", "--delete"],
        ["fsck", *where],
    ]
    for command in commands:
        marked.codes.setdefault(command[0], []).append(ran(marked, command))
    ran(marked, ["books", *pipeline, "--storage-option", SECRETS["SHOP_S3_SECRET"]])  # the key was forgotten
    return marked


@pytest.fixture(scope="module")
def great_expectations_loaded() -> None:
    from kstreams_replay.expectations.suites.library import load_great_expectations

    load_great_expectations()


def ran(marked: Marked, command: list[str]) -> int:
    """Exit code. What the command writes to the descriptors themselves is kept too."""
    path = marked.folder / "said"
    kept = [os.dup(number) for number in (1, 2)]
    path.write_bytes(b"")
    with path.open("ab") as said, pytest.MonkeyPatch.context() as patch, path.open("a") as text:
        for number in (1, 2):
            os.dup2(said.fileno(), number)
        patch.setattr("sys.stdout", text)
        patch.setattr("sys.stderr", text)
        try:
            code = main(command)
        finally:
            text.flush()
            for number, before in zip((1, 2), kept, strict=True):
                os.dup2(before, number)
                os.close(before)
    marked.said.setdefault(command[0], []).append(path.read_text())
    return code


@pytest.mark.nightly
def test_every_command_is_tried_and_does_something(commanded):
    every = {name for section in COMMANDS.values() for name in section}

    assert commanded.codes.keys() == every - NOT_RUN.keys()
    assert {name for name, codes in commanded.codes.items() if min(codes) > 1} <= {
        "compare", "diff", "placement", "advise", "judge",
    }  # fmt: skip


@pytest.mark.nightly
def test_no_command_says_a_credential(commanded):
    assert [(name, each) for name, said in commanded.said.items() for each in said if MARK in each] == []


@pytest.mark.nightly
def test_no_process_that_is_started_has_one_among_its_arguments(commanded):
    assert [arguments for arguments in commanded.started if MARK in arguments] == []


@pytest.mark.nightly
def test_no_table_and_no_file_of_the_store_has_one(commanded):
    places = texts_of_store(commanded.store)

    assert len(places) > 50
    assert [place for place, text in places.items() if MARK.encode() in text] == []


@pytest.mark.nightly
def test_no_file_that_was_left_on_this_machine_has_one(commanded):
    files = [path for path in commanded.folder.rglob("*") if path.is_file()]

    assert {"report.html", "index.html", "seal.json"} <= {path.name for path in files}
    assert [path for path in files if MARK.encode() in path.read_bytes()] == []


def texts_of_store(store: ObjectStore) -> dict[str, bytes]:
    """Every object; of a table's file its rows, which are compressed in it."""
    filesystem, found = store.files(), {}
    for info in filesystem.get_file_info(fs.FileSelector(BUCKET, recursive=True)):
        if info.type != fs.FileType.File:
            continue
        with filesystem.open_input_file(info.path) as file:
            found[info.path] = file.read()
        if info.path.endswith(".parquet"):
            rows = pq.read_table(info.path, filesystem=filesystem, partitioning=None)
            found[info.path] += repr(rows.to_pylist()).encode()
    return found


# --- Dagster -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def launched(marked, tmp_path_factory) -> tuple[Marked, Path, str]:
    """Every job of the definitions; the folder of Dagster's own storage, and what was logged."""
    home = tmp_path_factory.mktemp("dagster")
    clicks = marked.folder / "dagster-clicks"
    shop.drop_files(clicks, "1-morning", shop.MORNING)
    options = storage(marked.store) | {
        "AWS_ACCESS_KEY_ID": dg.EnvVar("SHOP_S3_KEY"), "AWS_SECRET_ACCESS_KEY": dg.EnvVar("SHOP_S3_SECRET"),
    }  # fmt: skip
    jaas = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": dg.EnvVar("SHOP_JAAS")}
    sources = {"clicks": FilesResource(path=str(clicks), format="jsonl", timestamp="ms", key="user")}
    place = WarehouseResource(root=f"s3://{BUCKET}/by-dagster", storage_options=options)
    from_kafka = {"clicks": KafkaResource(bootstrap_servers="localhost:1", options=jaas)}
    registry = {"basic.auth.user.info": dg.EnvVar("SHOP_REGISTRY")}
    target = KafkaTargetResource(
        bootstrap_servers="localhost:1", topic="pages", options=jaas, registry="http://localhost:1",
        registry_options=registry,
    )  # fmt: skip
    asked_of = {
        "shop": {"sources": sources, "engine": LocalEngine(), "operator_jobs": True},
        "live": {"sources": from_kafka, "engine": SparkEngine()},
        "sent": {"sources": sources, "engine": LocalEngine(), "publish": {"pages": target}},
        "days": {
            "sources": sources, "engine": LocalEngine(), "partitions": dg.DailyPartitionsDefinition(DAY),
            "fresh_within": "1h",
        },
    }  # fmt: skip
    every = {
        pipeline: replay_definitions(topology(), pipeline=pipeline, warehouse=place, check_engine="plain", **more)
        for pipeline, more in asked_of.items()
    }
    asked = {
        "shop_plan": {"topology": SHOP, "branch": "b"}, "shop_promote": {"branch": "b"}, "shop_restore": {"to": 1},
        "shop_vacuum": {},
    }  # fmt: skip
    config = {name: {f"{name}_step": {"config": given}} for name, given in asked.items()}
    config["shop_backfill"] = {"shop_range": {"config": {"from_time": "100", "to_time": "200", "name": "r"}}}
    jobs = [job.name for each in every.values() for job in each.resolve_all_job_defs() if not job.name.startswith("__")]
    said = [repr(from_kafka), repr(target)]
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        for name in ("shop_replay", "days_land", *sorted(set(jobs) - {"shop_replay", "days_land"})):
            job = every[name.partition("_")[0]].resolve_job_def(name)
            done = job.execute_in_process(
                instance=instance,
                run_config={"ops": config[name]} if name in config else None,
                partition_key=DAY if name == "days_replay" else None,
                raise_on_error=False,
            )
            marked.codes.setdefault(name, []).append(int(not done.success))
            said += [str(event) for event in done.all_events]
    return marked, home, "\n".join(said)


@pytest.mark.nightly
def test_every_job_of_dagster_runs_and_none_keeps_or_says_a_credential(launched):
    marked, home, said = launched

    assert {name: codes for name, codes in marked.codes.items() if name.partition("_")[0] in PIPELINES} == {
        "shop_replay": [0], "shop_backfill": [0], "shop_plan": [0], "shop_promote": [0], "shop_restore": [0],
        "shop_vacuum": [0], "days_land": [0], "days_replay": [1], "days_freshness": [0],
        "live_replay": [1], "sent_replay": [1],
    }, "no broker is there, and the day has not landed whole"  # fmt: skip
    assert "localhost:1" in said
    assert MARK not in said
    assert [path for path in home.rglob("*") if path.is_file() and MARK.encode() in path.read_bytes()] == []


# --- Kafka and a registry ----------------------------------------------------------------------------------------


@pytest.fixture
def nothing_hidden(monkeypatch):
    monkeypatch.setattr(hidden_values, "_hidden", set())


@pytest.mark.usefixtures("nothing_hidden")
def test_a_broker_that_refuses_the_connection_is_named_without_the_credentials(capfd):
    settings = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "default.api.timeout.ms": "1000",
        "request.timeout.ms": "500", "sasl.jaas.config":
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{MARK}-sasl";',
    }  # fmt: skip
    source = KafkaSource("localhost:1", options=settings)

    with pytest.raises(LandingError, match="Kafka at localhost:1") as caught:
        kafka_offsets.topic_state("clicks", source)

    said = capfd.readouterr()
    assert MARK not in repr(source) + "".join(traceback.format_exception(caught.value)) + said.out + said.err


@pytest.mark.usefixtures("nothing_hidden")
def test_a_catalog_of_iceberg_is_named_without_the_credentials():
    source = LakeSource(iceberg="lake.shop.clicks", catalog={"type": "rest", "uri": "", "token": f"{MARK}-token"})

    with pytest.raises(ConfigError, match="nothing: it is of iceberg") as caught:
        LakeSource(delta="bronze/clicks", catalog=source.catalog)

    assert MARK not in repr(source) + str(caught.value)
    assert without_hidden(f"no such token: {MARK}-token") == f"no such token: {HIDDEN}"


class RefusingRegistry:
    """As confluent-kafka's client: it knows its settings, and cannot connect."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings

    def get_versions(self, subject: str) -> list[int]:
        raise ConnectionError(f"connection refused by {self.settings['url']}")


def test_a_registry_that_refuses_the_connection_leaves_nothing_behind(tmp_path):
    client = RefusingRegistry({"url": "http://localhost:1", "basic.auth.user.info": f"shop:{MARK}"})

    with pytest.raises(ConnectionError) as caught:
        keep_schemas(client, tmp_path / "schemas", subjects=["clicks-value"])

    assert MARK not in "".join(traceback.format_exception(caught.value))
    assert list(tmp_path.iterdir()) == []


# --- what is hidden ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_hidden")
def test_an_error_that_quotes_a_credential_shows_that_it_is_hidden():
    hide({"AWS_SECRET_ACCESS_KEY": f"{MARK}/+", "AWS_REGION": "us-east-1"})

    error = ConfigError("us-east-1", "a key", f"{MARK}/+ and {MARK}%2F%2B", "correct it")
    error.say(f"not {MARK}/+")

    assert str(error) == f"us-east-1: expected a key, got {HIDDEN} and {HIDDEN}; correct it; not {HIDDEN}"


@pytest.mark.usefixtures("nothing_hidden")
def test_of_a_login_module_and_of_an_address_the_password_is_hidden_too():
    hide(
        {
            "sasl.jaas.config": f'Plain required username="shop" password="{MARK}";',
            "url": f"https://{'u'}:{MARK}-2@host",
        }
    )

    assert without_hidden(f"login with {MARK} or {MARK}-2 for shop") == f"login with {HIDDEN} or {HIDDEN} for shop"


@pytest.mark.usefixtures("nothing_hidden")
def test_short_words_are_shown_since_they_are_words():
    hide({"password": "test", "sasl.mechanism": "SCRAM-SHA-256", "security.protocol": "SASL_SSL"})

    assert without_hidden("a test of SCRAM-SHA-256 with SASL_SSL") == "a test of SCRAM-SHA-256 with SASL_SSL"
