"""Settings of a Kafka client by the names of Java's clients, from files and from what files name."""

import pytest

from kstreams_replay.state import hidden_values
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.hidden_values import without_hidden
from kstreams_replay.state.kafka.settings import librdkafka_settings, provided, read_client_settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch) -> None:
    monkeypatch.setattr(hidden_values, "_hidden", set())


@pytest.mark.parametrize(
    ("java", "want"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},) * 2,
        (
            {"sasl.jaas.config": f'{PLAIN} required username="a b" password="p;\\"=q" ;'},
            {"sasl.username": "a b", "sasl.password": 'p;"=q'},
        ),
        (
            {"sasl.jaas.config": "x.ScramLoginModule REQUIRED\n  username=shop\n  password='p w';"},
            {"sasl.username": "shop", "sasl.password": "p w"},
        ),
        (
            {"sasl.jaas.config": f'{OAUTH} required clientId="c" clientSecret="s" scope="x";'},
            {
                "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "s", "sasl.oauthbearer.scope": "x",
            },
        ),
        (
            {"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM", "ssl.truststore.password": "none"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.keystore.location": "/me.pem", "ssl.keystore.type": "PEM", "ssl.key.password": "k"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem", "ssl.key.password": "k"},
        ),
        (
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "k"},
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "k"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"ssl.truststore.certificates": "C"}, {"ssl.ca.pem": "C"}),
        ({"max.poll.records": "5", "default.api.timeout.ms": "9"}, {}),
    ],
)  # fmt: skip
def test_javas_names_become_librdkafkas(java, want):
    assert librdkafka_settings(java) == want


@pytest.mark.parametrize(
    ("java", "reason"),
    [
        (
            {"ssl.truststore.location": "/trust.jks"},
            "Kafka's client setting ssl.truststore.type: expected PEM, got JKS; write its certificates to a PEM file",
        ),
        ({"ssl.keystore.location": "/me.jks", "ssl.keystore.type": "JKS"}, "expected PEM or PKCS12, got JKS"),
        ({"sasl.jaas.config": "com.sun.Krb5LoginModule required useTicketCache=true;"}, "got Krb5LoginModule"),
        ({"sasl.jaas.config": "not a login hunter22"}, "got something else"),
        ({"sasl.login.callback.handler.class": "a.B"}, "settings, and no classes of Java"),
    ],
)
def test_what_cannot_be_said_to_librdkafka_is_refused_without_its_value(java, reason):
    with pytest.raises(ConfigError, match=r"^Kafka's client setting") as caught:
        librdkafka_settings(java)

    assert reason in str(caught.value)
    assert "hunter22" not in str(caught.value)


def test_a_password_of_a_login_module_is_hidden():
    librdkafka_settings({"sasl.jaas.config": f'{PLAIN} required username="a" password="hunter-4711";'})

    assert without_hidden("said hunter-4711") == "said [hidden]"


def test_a_file_of_settings_is_read_as_javas_properties(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("# one\n! two\n\n a=b = c \nlong=one,\\\n   two\nwith\\:colon : x\nempty\nslash=c:\\\\d\n")

    assert read_client_settings(file) == {
        "a": "b = c ", "long": "one,two", "with:colon": "x", "empty": "", "slash": "c:\\d",
    }  # fmt: skip


@pytest.mark.parametrize("sign", ["\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\xa0", "\u2003", "\u2028", "\u2029"])
def test_only_what_ends_a_line_in_java_ends_a_line_of_settings(tmp_path, sign):
    file = tmp_path / "client.properties"
    file.write_bytes(f"a=b{sign}c\rd{sign if sign != chr(12) else ''}=e\r\nf=g{sign}\n".encode())

    name = "d" if sign == "\f" else f"d{sign}"
    assert read_client_settings(file) == {"a": f"b{sign}c", name: "e", "f": f"g{sign}"}


def test_two_halves_of_a_character_are_one_character(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("a=\\ud83d\\ude00-\\u00e9\n")

    assert read_client_settings(file) == {"a": "\U0001f600-é"}


def test_a_file_without_names_or_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "bad").write_text("a=b\n=secret-4711\n")

    with pytest.raises(ConfigError, match=r"bad, line 2: expected NAME=VALUE, got no name") as caught:
        read_client_settings(tmp_path / "bad")
    with pytest.raises(ConfigError, match="expected a file of Kafka's client settings, got No such file"):
        read_client_settings(tmp_path / "absent")
    assert "4711" not in str(caught.value)


def test_values_are_in_the_environment_in_files_and_in_properties(tmp_path):
    (tmp_path / "password").write_text("from a file\n")
    (tmp_path / "all.properties").write_text("password=from properties\n")
    value = f"${{env:A}}, ${{dir:{tmp_path}:password}}, ${{file:{tmp_path}/all.properties:password}}"

    assert provided(value, {"A": "of a variable"}.get) == "of a variable, from a file, from properties"
    for absent in ("${env:B}", f"${{dir:{tmp_path}:b}}", f"${{file:{tmp_path}/all.properties:b}}"):
        with pytest.raises(ConfigError):
            provided(absent, {}.get)
