"""A topology's description beside the one that Kafka's test printed.

Rule: but for processors that only look, where ours have an output, and the outputs' numbers, the two are the same text.
A tape whose topology is written otherwise here has a pattern in ``OTHERWISE``.
"""

import re

_LOOKS = re.compile(
    r"\n +(?:Sink|Processor): [^\n]*(?:watched|PROCESSOR-|FOREACH-|PRINTER)[^\n]*(?:\n +--> none)?\n +<-- [^\n]*"
)
_NUMBERED = re.compile(r"KSTREAM-(?:PROCESSOR|SINK|FOREACH)-(\d+)")

OTHERWISE = {
    "a processor beside a table looks at its changes, a stream of them here": (
        *("KTableFilterTest.*Send*", "KTableFilterTest.*Skip*", "KTableKTable*JoinTest.test*Sending*"),
        *("KTableMapValuesTest.*Sending*", "KTableSourceTest.*SendingOldValue"),
    ),
    "what the test never uses, or its first driver has, is left out": (
        *("KGroupedTableImplTest.*", "KStreamImplTest.shouldMerge*", "KStreamKStreamSelfJoinTest.*#1"),
        "KTableTransformValuesTest.shouldTransformValuesWithKey*",
    ),
    "the test's processor is beside an output that shows what it received": (
        "KStreamImplTest.shouldBindState*",
        "KStreamImplTest.shouldProcessWithProcessorAndState",
    ),
    "parts are made in another order, or have other names": (
        *("CogroupedKStreamImplTest.should*Different*Type*", "KStreamSlidingWindowAggregateTest.testJoin*"),
        *("KStreamSplitTest.*", "Repartition*OptimizingTest.*", "StreamsBuilderTest.shouldProcess*"),
        *("ProcessorTopologyTest.shouldAddHeaders", "ProcessorTopologyTest.testDrivingForward*"),
        "ProcessorTopologyTest.testDrivingInternal*",
    ),
    "a processor with a name of its own takes a number here, and none there": ("KStreamImplTest.shouldProcessValues",),
    "two stores of a join have names of their own there": ("KStreamKStream*JoinTest.*Suppl*",),
}
"""By reason, patterns of tapes' names."""


def printed(description: str) -> list[str]:
    """Lines of a description that both have."""
    text = _NUMBERED.sub(r"OUTPUT-\1", _LOOKS.sub("\n OUTPUT", f"\n{description}"))
    return [line.strip() for line in text.splitlines() if line.strip()]
