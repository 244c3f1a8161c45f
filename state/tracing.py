"""Spans of OpenTelemetry: a landing, an increment, its stages and its commit, with their numbers.

Owns their names and those of their attributes, which begin with `replay.`. Rule: nothing is imported here. A program
that has set OpenTelemetry up has loaded it; in any other a span costs one look-up.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .hidden_values import without_hidden

Attributes = dict[str, str | int | bool]


@contextmanager
def span(name: str, **attributes: str | int | bool) -> Iterator[Attributes]:
    """A span "replay.NAME" around what is done meanwhile, below the one that is open. An error that passes through is
    its status. What is put into the dict that it gives becomes attributes at its end. Texts are without secrets.
    """
    added: Attributes = {}
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield added
        return
    tracer = trace.get_tracer("kstreams_replay")
    with tracer.start_as_current_span(
        f"replay.{name}", attributes=_shown(attributes), record_exception=False, set_status_on_exception=False
    ) as opened:
        try:
            yield added
        except BaseException as error:
            said = without_hidden(f"{type(error).__name__}: {error}")
            opened.set_status(trace.Status(trace.StatusCode.ERROR, said))
            raise
        finally:
            opened.set_attributes(_shown(added))


def _shown(attributes: Attributes) -> Attributes:
    return {f"replay.{key}": without_hidden(of) if isinstance(of, str) else of for key, of in attributes.items()}
