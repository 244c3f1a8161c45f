"""Docstrings of what others call are whole: the face, the DSL, the operator interface, the commands.

Rule: nothing is excepted; a parameter, a field or an error that no docstring names fails here.
"""

from dataclasses import dataclass

import click
import pytest

from kstreams_replay.orchestration.cli.main import _replay
from tests.docstrings import findings, kernel_findings, kernel_modules, of_class, public_objects, says_array
from tests.source_tree import refuse

pytestmark = pytest.mark.xdist_group("source tree")  # read and parsed once


def test_no_docstring_leaves_out_a_parameter_a_field_or_an_error():
    refuse(
        list(findings()), "Say what it is (unit, bounds, order, dtype), in the docstring of the function or its class:"
    )


def test_every_command_and_each_of_its_arguments_and_options_has_a_help():
    context = click.Context(_replay)
    commands = {name: _replay.get_command(context, name) for name in _replay.list_commands(context)}
    without = [name for name, each in commands.items() if each is None or not each.help]
    without += [
        f"{name} {param.name}"
        for name, each in commands.items()
        for param in ([] if each is None else each.params)
        if not getattr(param, "help", None)
    ]

    assert len(commands) > 20
    assert without == []


def test_every_array_of_a_kernel_has_a_dtype_and_a_shape_or_is_a_bundle():
    kernels = kernel_modules()

    assert len(kernels) > 25
    refuse(
        [line for path, tree in kernels.items() for line in kernel_findings(path, tree)],
        "Say it in the docstring of the kernel or of its module, for example ``key`` int32 (rows,):",
    )


# --- the check itself ------------------------------------------------------------------------------------------


@dataclass
class DocumentedWindow:
    """A window of ``size_ms``."""

    size_ms: int
    grace_ms: int
    is_open: bool = True
    """Whether it takes records."""

    def close(self, at_ms: int, by: str) -> None:
        """Close it at ``at_ms``."""
        if by == "":
            raise ValueError(by)

    def _hidden(self, anything: int) -> None: ...


class Hopping(DocumentedWindow):
    def close(self, at_ms: int, by: str) -> None: ...

    @property
    def advance_ms(self) -> int:
        return self.size_ms


def test_what_is_left_out_is_found_and_what_the_class_or_an_attribute_says_is_not():
    assert list(of_class("Window", DocumentedWindow)) == [
        "Window: field grace_ms",
        "Window.close: parameter by",
        "Window.close: error ValueError",
    ]


def test_a_method_has_the_docstring_of_the_one_it_overrides_and_a_class_needs_its_own():
    assert list(of_class("Hopping", Hopping)) == [
        "Hopping: no docstring",
        "Hopping: field grace_ms",
        "Hopping.close: parameter by",
        "Hopping.advance_ms: no docstring",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "jobs.topology.dsl.kstream.KStream",
        "jobs.operators.base.operator.with_deleted",
        "jobs.replay.pipeline_run.replay",
    ],
)
def test_the_face_the_dsl_and_the_operator_interface_are_read(name):
    assert name in public_objects()


@pytest.mark.parametrize(
    ("docstring", "is_said"),
    [
        ("``key`` int32 (rows,).", True),
        ("``key`` and ``time`` int64 (rows,).", True),
        ("``key`` int32, ``time`` int64 (rows,).", True),
        ("``key`` has the fields of KeyBytes.", True),
        ("``key`` int32.", False),
        ("``key`` of every row. ``time`` int64 (rows,).", False),
        ("``time`` int64 (rows,).", False),
    ],
)
def test_an_array_is_said_with_its_dtype_and_shape(docstring, is_said):
    assert says_array("key", docstring) is is_said
