"""Schema ids of a registry, in the place of those that the topology's serdes write.

Owns the subject of a schema, which is Confluent's TopicNameStrategy: TOPIC-key or TOPIC-value. Rule: an id is looked up
before the broker is asked, and a schema is registered when the first rows are to be sent, since what is refused before
would leave it there. A schema is the registered one where both have the same normal text; names of versions decide
nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...state.errors import ConfigError, PublishError, PublishInterrupted
from ...state.serdes import Serde
from ...state.serdes.avro.avro_codec import schema_text
from ...state.serdes.avro.confluent_codec import ConfluentAvroCodec
from ...state.serdes.avro.kept_schemas import referenced_texts
from ...state.serdes.avro.records_codec import ConfluentRecordsCodec
from ...state.serdes.confluent_head import ConfluentCodec
from .kafka_target import KafkaTarget
from .published_output import PublishedOutput

NOT_FOUND = 404
_NOT_YET = 0
"""In the place of an id that a dry run does not ask for: registries count from 1."""


class RegisteredSchemas:
    """``client``: confluent-kafka's SchemaRegistryClient; None: one for ``target``, which has the address of the
    registry. ``dry_run``: nothing is registered, so rows may have an id that no schema has. Raises MachineError without
    the client's package.
    """

    def __init__(self, target: KafkaTarget, client: Any = None, *, dry_run: bool = False) -> None:
        assert target.registry is not None, "it is asked for where there is one"
        self._target, self._dry_run = target, dry_run
        if client is None:
            from confluent_kafka.schema_registry import SchemaRegistryClient

            client = SchemaRegistryClient({"url": target.registry, **target.registry_options})
        self._client = client

    def serdes(self, output: PublishedOutput) -> Callable[[], tuple[Serde, Serde]]:
        """What gives those of key and value of the output, without windows. Raises as ``serde``."""
        shape = output.sink.shape
        key, value = self.serde(shape.key, "key"), self.serde(shape.value, "value")
        return lambda: (key(), value())

    def serde(self, serde: Serde, part: str) -> Callable[[], Serde]:
        """What gives ``serde`` with the id that its schema has in the registry; one that writes no id as it is. The id
        is looked up at once, and what the subject does not have is registered at the call. ``part``: "key" or "value".

        Raises ConfigError for a serde whose schema is not known whole, PublishError for a schema that the subject does
        not have, and PublishInterrupted where the registry does not answer. So does the call, and PublishError where
        the registry refuses the schema.
        """
        codec, subject = serde.codec, f"{self._target.topic}-{part}"
        if isinstance(codec, ConfluentCodec | ConfluentRecordsCodec):
            raise ConfigError(
                f"the {part} serde of {self._target.topic}", "one schema of Avro, or a serde without schema ids",
                codec.name, "publish it without a registry: it writes the ids that the serde is given (write_id)",
            )  # fmt: skip
        if not isinstance(codec, ConfluentAvroCodec):
            return lambda: serde
        known_id = self._looked_up(subject, codec.reader)

        def with_id() -> Serde:
            schema_id = self._registered(subject, codec.reader) if known_id is None else known_id
            writers = {**dict(codec.writers), schema_id: codec.reader}
            return Serde(replace(codec, writers=tuple(writers.items()), write_id=schema_id))

        return with_id

    def _looked_up(self, subject: str, text: str) -> int | None:
        """Id of the newest version of ``subject`` that is the schema ``text``; None: no version is."""
        versions = self._asked(self._client.get_versions, subject) or []
        for version in sorted(versions, reverse=True):
            registered = self._asked(self._client.get_version, subject, version)
            if registered is None or (registered.schema.schema_type or "AVRO") != "AVRO":
                continue
            named = self._asked(referenced_texts, self._client, registered.schema) or []
            if schema_text(registered.schema.schema_str, tuple(named)) == text:
                return int(registered.schema_id)
        if self._target.register_schemas:
            return None
        got = f"{len(versions)} versions with others" if versions else "no such subject"
        raise PublishError(
            f"subject {subject!r} of the registry", f"the schema that the output writes, {text}", got,
            "register it (--register-schemas)",
        )  # fmt: skip

    def _registered(self, subject: str, text: str) -> int:
        from confluent_kafka.schema_registry import Schema

        if self._dry_run:
            return _NOT_YET
        schema_id = self._asked(self._client.register_schema, subject, Schema(text, "AVRO"))
        if schema_id is None:
            raise PublishError(f"subject {subject!r} of the registry", "an id for its schema", "none", "ask its owner")
        return int(schema_id)

    def _asked(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """The registry's answer; None where it knows of no such thing."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        place = f"schema registry {self._target.registry}"
        try:
            return ask(*arguments)
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                return None
            raise PublishError(place, "an answer", str(error), "correct the schema or the settings") from error
        except Exception as error:  # of the HTTP library, which is another one in other versions of the client
            next_step = "look whether it runs there, and publish again"
            raise PublishInterrupted(place, "an answer", f"{type(error).__name__}: {error}", next_step) from error
