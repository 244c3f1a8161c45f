"""A broker that asks for a password, over TLS: every command that talks to one is let in by the same settings."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.broker import Broker, Login, running_broker
from kstreams_replay.jobs.landing.landing import KafkaSource, land_kafka
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state import hidden_values
from kstreams_replay.state.errors import LandingError
from tests.kafka.producing import Producing
from tests.kafka.published import seen
from tests.landing.landed_rows import landed

pytestmark = [pytest.mark.nightly, pytest.mark.jvm]
PASSWORD = "MARKED-password-4711"
COUNTED = "tests.orchestration.test_secrets:counted"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> dict[str, Path]:
    """By name: a certificate, and a PEM file with key and certificate; those of the broker, and of a stranger."""
    found = {}
    for name in ("broker", "stranger"):
        folder = tmp_path_factory.mktemp(name)
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out"]
        subprocess.run([*made, str(certificate), *subject], check=True, capture_output=True)
        found[name] = certificate
        found[f"{name}'s key"] = folder / "both.pem"
        found[f"{name}'s key"].write_text(key.read_text() + certificate.read_text())
    return found


@pytest.fixture(scope="module")
def secured(tmp_path_factory, certificates) -> Iterator[Broker]:
    login = Login("shop", PASSWORD, certificates["broker's key"])
    with running_broker(tmp_path_factory.mktemp("secured"), login=login) as started:
        yield started


@pytest.fixture(autouse=True)
def in_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    monkeypatch.setattr(hidden_values, "_hidden", set())


def as_java_says(certificate: Path, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{MODULE} required username="shop" password="{password}";',
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificate),
    }  # fmt: skip


def as_librdkafka_says(certificate: Path, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": "shop",
        "sasl.password": password, "ssl.ca.location": str(certificate),
    }  # fmt: skip


@pytest.fixture
def started(monkeypatch) -> list[str]:
    """Arguments of the processes that are started."""
    found: list[str] = []
    start = subprocess.Popen.__init__

    def noted(process, args, *rest, **options):
        found.append(str(args))
        start(process, args, *rest, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    return found


def test_every_command_is_let_in_by_one_file_of_settings_and_none_keeps_or_says_the_password(
    secured, certificates, tmp_path, capfd, started
):
    for topic in ("clicks", "counted"):
        secured.create_topic(topic)
    Producing(secured, "clicks").send([b'{"page": "home"}', b'{"page": "cart"}'], key=b"ann", timestamp=1_000)
    settings = tmp_path / "client.properties"
    jaas = f'{MODULE} required username="shop" \\\n    password="${{env:SHOP_PASSWORD}}";'
    lines = as_java_says(certificates["broker"]) | {"sasl.jaas.config": jaas}
    settings.write_text("# as Kafka's tools take it\n" + "".join(f"{name}={value}\n" for name, value in lines.items()))
    root = tmp_path / "warehouse"
    broker = ["--kafka", secured.secured_servers or "", "--kafka-config", str(settings)]
    where = ["--warehouse", str(root)]
    counted = [*where, "--pipeline", "counted"]

    codes = [
        main(command)
        for command in (
            ["doctor", *broker],
            ["land", "clicks", *where, *broker],
            ["run", COUNTED, *counted, "--local"],
            ["publish", "counted", "--topology", COUNTED, *counted, *broker, "--topic", "counted"],
            ["hand-over", COUNTED, *counted, *broker, "--application-id", "green"],
            ["bootstrap", COUNTED, *where, "--pipeline", "live", *broker, "--application-id", "green"],
        )
    ]

    out, err = capfd.readouterr()
    assert codes == [0] * 6, out + err
    assert "a client with these settings is let in; the cluster has 1 broker" in out
    assert [(row.key, row.value) for row in seen(secured, "counted")] == [
        (b"ann", (1).to_bytes(8, "big")),
        (b"ann", (2).to_bytes(8, "big")),
    ]
    said = out + err + "".join(started)
    assert PASSWORD not in said
    assert [path for path in root.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("settings", [as_java_says, as_librdkafka_says])
def test_settings_by_the_names_of_either_client_land_the_same_records(
    secured, certificates, warehouse, settings, request
):
    topic = secured.create_topic(request.node.name.replace("[", "-").replace("]", ""))
    producing = Producing(secured, topic)
    producing.send([b"a", b"b"])

    land_kafka(
        None, warehouse, topic, KafkaSource(secured.secured_servers or "", options=settings(certificates["broker"]))
    )

    assert landed(warehouse, topic, "partition", "offset", "value") == producing.positions


@pytest.mark.parametrize(
    ("certificate", "password", "reason"),
    [
        ("broker", "MARKED-wrong-password", "_AUTHENTICATION: .*Authentication failed"),
        ("stranger", PASSWORD, "_SSL: .*certificate verify failed"),
    ],
)
def test_a_client_that_is_not_let_in_is_told_why_at_once(
    secured, certificates, warehouse, capfd, certificate, password, reason
):
    secured.create_topic(certificate)
    options = as_java_says(certificates[certificate], password)

    with pytest.raises(LandingError, match=reason) as caught:
        land_kafka(None, warehouse, certificate, KafkaSource(secured.secured_servers or "", options=options))

    out, err = capfd.readouterr()
    assert "MARKED" not in str(caught.value) + repr(caught.value.__cause__) + out + err
    assert warehouse.topics() == []
