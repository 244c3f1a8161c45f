"""Methods of processors and transformers are called with what Kafka's are; other parameters are refused at once."""

import pytest

from kstreams_replay import (
    Consumed,
    FixedKeyProcessor,
    KeyValues,
    Processor,
    Serde,
    StreamsBuilder,
    TopologyTestDriver,
    ValueTransformerWithKey,
)
from kstreams_replay.state.errors import ConfigError

STRING = Serde.string()


class OldProcess(Processor):
    def process(self, key, value):
        pass


class BareInit(Processor):
    def init(self):
        pass

    def process(self, record):
        pass


class OldFixedProcess(FixedKeyProcessor):
    def process(self, key, value):
        pass


class OldTransform(ValueTransformerWithKey):
    def transform(self, value):
        return value


class Defaults(Processor):
    def init(self, context, *, name="n"):
        super().init(context)

    def process(self, record, twice=False):
        self.context.forward(record)


def driver(kind, cls):
    builder = StreamsBuilder()
    consumed = Consumed(STRING, STRING)
    if kind == "process":
        builder.stream("in", consumed).process(cls, returns_key=STRING, returns=STRING).to("out")
    elif kind == "process_values":
        builder.stream("in", consumed).process_values(cls, returns=STRING).to("out")
    elif kind == "transform_values":
        builder.table("in", consumed).transform_values(cls, returns=STRING).to("out")
    else:
        reads = type("Reads", (Processor,), {"process": lambda self, record: None})
        builder.add_global_store(KeyValues("all", STRING, STRING), "all", consumed, cls)
        builder.stream("in", consumed).process(reads, ["all"])
    return TopologyTestDriver(builder.build())


@pytest.mark.parametrize(
    ("kind", "cls", "want"),
    [
        ("process", OldProcess, "expected a callable of (record), got OldProcess.process(key, value)"),
        ("process", BareInit, "expected a callable of (context), got BareInit.init()"),
        ("process_values", OldFixedProcess, "expected a callable of (record), got OldFixedProcess.process(key, value)"),
        ("transform_values", OldTransform, "expected a callable of (key, value), got OldTransform.transform(value)"),
        ("global store", OldProcess, "expected a callable of (record), got OldProcess.process(key, value)"),
    ],
)
def test_other_parameters_are_refused_before_a_record_comes(kind, cls, want):
    with pytest.raises(ConfigError) as raised:
        driver(kind, cls)

    assert want in str(raised.value)


def test_parameters_with_a_default_keep_it():
    made = driver("process", Defaults)
    made.pipe_input("in", "k", "v", timestamp_ms=0)

    assert made.read_output("out").value == "v"
