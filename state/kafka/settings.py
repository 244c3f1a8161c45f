"""Settings of a Kafka client: as Java's clients name them, or as librdkafka does, for everything that asks a broker.

Owns what Java's names are called by librdkafka, and how a client's properties file is read. Rule: a name that
librdkafka has too is handed over as it is. What cannot be said to librdkafka (a keystore of Java's own format, a class
of Java) is refused by name. No value is in an error.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..errors import ConfigError
from ..hidden_values import hide

PATIENCE = "default.api.timeout.ms"
"""How long a question may take, in ms; librdkafka has no such setting."""
_LEFT_OUT = (
    PATIENCE, "key.deserializer", "key.serializer", "value.deserializer", "value.serializer", "max.poll.records",
    "ssl.truststore.type", "ssl.keystore.type", "ssl.truststore.password",
)  # fmt: skip
"""Of Java's clients alone, and without effect here, or read together with another one."""
_SAME = {
    "ssl.keystore.certificate.chain": "ssl.certificate.pem", "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem", "fetch.max.wait.ms": "fetch.wait.max.ms",
}  # fmt: skip
_CALLBACKS = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class")
_BLANK = " \t\f"
"""In a properties file."""
_LOGIN = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);\s*", re.DOTALL | re.IGNORECASE)
_OPTION = re.compile(r"""([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"']+)""")
_USER = {"username": "sasl.username", "password": "sasl.password"}
_OAUTH = {
    "clientId": "sasl.oauthbearer.client.id", "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}  # fmt: skip
_MODULES = {"PlainLoginModule": _USER, "ScramLoginModule": _USER, "OAuthBearerLoginModule": _OAUTH}


def librdkafka_settings(options: Mapping[str, str]) -> dict[str, str]:
    """``options`` in librdkafka's names. Raises ConfigError for a setting that it does not have."""
    hide(options)
    said: dict[str, str] = {}
    for name, value in options.items():
        if name == "sasl.jaas.config":
            said |= _of_login(value)
        elif name in ("ssl.truststore.location", "ssl.keystore.location"):
            said |= _of_store(name, value, options)
        elif name in _CALLBACKS:
            raise _refused(name, "settings, and no classes of Java", "a class", "name librdkafka's sasl.oauthbearer.*")
        elif name == "ssl.endpoint.identification.algorithm" and not value:
            said[name] = "none"
        elif name in _SAME:
            said[_SAME[name]] = value
    java = {*_LEFT_OUT, *_SAME, "sasl.jaas.config", "ssl.truststore.location", "ssl.keystore.location"}
    said |= {name: value for name, value in options.items() if name not in java and name not in said}
    hide(said)
    return said


def _of_login(value: str) -> dict[str, str]:
    """What a login module of Java's is given."""
    match = _LOGIN.fullmatch(value)
    module = "" if match is None else match[1].rpartition(".")[2]
    if match is None or module not in _MODULES:
        expected, next_step = f"one of {', '.join(_MODULES)}, its options, and a ;", "correct it, or name sasl.username"
        raise _refused("sasl.jaas.config", expected, module or "something else", next_step)
    names = _MODULES[module]
    said = {"sasl.oauthbearer.method": "oidc"} if names is _OAUTH else {}
    for name, text in _OPTION.findall(match[2]):
        if name in names:
            said[names[name]] = re.sub(r"\\(.)", r"\1", text[1:-1]) if text[0] in "\"'" else text
    return said


def _of_store(name: str, path: str, options: Mapping[str, str]) -> dict[str, str]:
    """Certificates and keys of a file, which is PEM, or PKCS12 where it is the client's own."""
    store = name.removesuffix(".location")
    kind = options.get(f"{store}.type", "JKS").upper()
    if kind == "PEM":
        if store == "ssl.truststore":
            return {"ssl.ca.location": path}
        return {"ssl.certificate.location": path, "ssl.key.location": path}
    if kind == "PKCS12" and store == "ssl.keystore":
        return {name: path}
    kinds = "PEM" if store == "ssl.truststore" else "PEM or PKCS12"
    next_step = "write its certificates to a PEM file (`keytool -exportcert -rfc`, `openssl pkcs12`)"
    raise _refused(f"{store}.type", kinds, kind, f"{next_step}, and name that with {store}.type=PEM")


def _refused(name: str, expected: str, got: str, next_step: str) -> ConfigError:
    return ConfigError(f"Kafka's client setting {name}", expected, got, next_step)


# --- a properties file -----------------------------------------------------------------------------------------------


def read_client_settings(path: str | Path) -> dict[str, str]:
    """Settings of a file of Java's properties, as Kafka's tools take one (``--command-config``); those of librdkafka's
    own tools (``kcat -F``) have the same form. Values are taken as they are.

    Raises ConfigError for a file that cannot be read, or a line without a name.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        got = error.strerror if isinstance(error, OSError) else "bytes that are no UTF-8"
        raise ConfigError(str(path), "a file of Kafka's client settings", str(got), "correct the path") from error
    settings = {}
    for number, line in _logical_lines(text):
        match = re.match(rf"((?:[^\\=:{_BLANK}]|\\.)+)(?:[{_BLANK}]*[=:][{_BLANK}]*|[{_BLANK}]+|$)", line)
        if match is None:
            expected, next_step = "NAME=VALUE", "correct the line, or begin it with #"
            raise ConfigError(f"{path}, line {number}", expected, "no name", next_step)
        settings[_unescaped(match[1])] = _unescaped(line[match.end() :])
    hide(settings)
    return settings


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, with the number of the first; one that ends with a backslash continues. Fewer signs end
    a line, or are blank, in Java than in Python; in a text that was read a newline replaces all that do.
    """
    begun, held = 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.lstrip(_BLANK)
        if not held and (not line or line[0] in "#!"):
            continue
        begun = begun if held else number
        held += line
        if (len(held) - len(held.rstrip("\\"))) % 2:
            held = held[:-1]
            continue
        yield begun, held
        held = ""
    if held:
        yield begun, held


def _unescaped(text: str) -> str:
    special = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def of(match: re.Match[str]) -> str:
        return chr(int(match[1][1:], 16)) if len(match[1]) == 5 else special.get(match[1], match[1])

    halves = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", of, text, flags=re.DOTALL)
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# --- values that are elsewhere ---------------------------------------------------------------------------------------

_PROVIDED = re.compile(r"\$\{(env|file|dir):([^}]*)\}")


def provided(value: str, variable: Callable[[str], str | None]) -> str:
    """``value`` with what it names elsewhere, as Kafka's configuration providers write it: ``${env:NAME}`` a variable
    of the environment, ``${dir:FOLDER:FILE}`` the text of a file, ``${file:PATH:NAME}`` a line of a properties file.

    ``variable``: the value of a variable, None where it is not set. Raises ConfigError for what is not there.
    """

    def of(match: re.Match[str]) -> str:
        kind, rest = match[1], match[2]
        if kind == "env":
            value = variable(rest)
            if value is None:
                raise ConfigError(f"${{env:{rest}}}", f"the environment variable {rest}", "not set", "set it")
            return value
        path, _, name = rest.rpartition(":")
        if kind == "file":
            settings = read_client_settings(path)
            if name not in settings:
                raise ConfigError(path, f"a line {name}=…", "none", "correct the name")
            return settings[name]
        try:
            return (Path(path) / name).read_text().strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            got = error.strerror if isinstance(error, OSError) else "bytes that are no UTF-8"
            raise ConfigError(f"{path}/{name}", "a file with the value", str(got), "correct the path") from error

    return _PROVIDED.sub(of, value)
