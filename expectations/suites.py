"""Great Expectations suites, one for each guarantee, over its audit frame.

Owns all contact with Great Expectations. Rule: this module is imported only when a suite is asked for (the import
costs seconds), keeps nothing between calls, sends nothing, and draws no progress bars. Frames are small pandas frames.
"""

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import polars as pl

from .guarantees import Guarantee, Rule


def validate_frames(audited: Sequence[tuple[Guarantee, pl.DataFrame]]) -> list[dict[str, bool]]:
    """Run each guarantee's suite on its frame, in one ephemeral context; for each, rule name to whether it holds.

    Raises what Great Expectations raises, and RuntimeError when an expectation could not be computed.
    """
    gx = load_great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_pandas("audits")
    answers = []
    for number, (guarantee, frame) in enumerate(audited):
        name = f"{guarantee.id}-{number}"
        batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("whole")
        suite = context.suites.add(build_suite(guarantee, name=name))
        definition = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=suite))
        result = definition.run(batch_parameters={"dataframe": frame.to_arrow().to_pandas()})
        answers.append({_name(each): _success(each) for each in result.results})
    return answers


def build_suite(guarantee: Guarantee, *, name: str | None = None) -> Any:
    """The ``ExpectationSuite`` of a guarantee: one expectation for each of its rules."""
    return load_great_expectations().ExpectationSuite(
        name=name or guarantee.id,
        expectations=[expectation_class(rule)() for rule in guarantee.rules],
        notes=guarantee.sentence,
        meta={"guarantee": guarantee.id, "kip": guarantee.kip, "check": guarantee.check},
    )


@cache
def expectation_class(rule: Rule) -> type[Any]:
    """An expectation whose name in Data Docs is the rule's: the rule's column holds nothing but 0.

    One class a rule: Great Expectations registers each by its name.
    """
    base = load_great_expectations().expectations.ExpectColumnValuesToBeInSet
    fields = {
        "__module__": __name__,
        "__doc__": rule.sentence,
        "__annotations__": {"column": str, "value_set": list, "description": str},
        "column": rule.column,
        "value_set": [0],
        "description": rule.sentence,
    }
    return type("".join(word.capitalize() for word in rule.name.split("_")), (base,), fields)


def load_great_expectations() -> Any:
    """Its module, which takes seconds to import: a program may begin while it waits for something else."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # read once, at import
    import great_expectations as gx
    import great_expectations.expectations

    return gx


def _name(result: Any) -> str:
    return str(result.expectation_config.type)


def _success(result: Any) -> bool:
    info = result.exception_info or {}
    details = [info] if "raised_exception" in info else list(info.values())
    raised = [each for each in details if each.get("raised_exception")]
    if raised:
        raise RuntimeError(f"{_name(result)}: {raised[0].get('exception_message')}")
    return bool(result.success)
