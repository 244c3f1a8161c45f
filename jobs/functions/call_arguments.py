"""The one place where the arguments of DSL calls are looked at before a call begins: their number and their names.

Rule: what Python would refuse with a TypeError is a TopologyError that says the call's arguments and the name that may
have been meant. Whether an argument is of its type each call says itself (topology/dsl/step_arguments.py).
"""

import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from ...state.errors import TopologyError
from ...state.near_names import did_you_mean

HINTS = {
    "KStream.process": "name its stores in a list, process(supplier, ['first', 'second'])",
    "KStream.process_values": "name its stores in a list, process_values(supplier, ['first', 'second'])",
    "KTable.join": "Kafka's extractor of a foreign key is foreign_key=: join(other, joiner, foreign_key=step)",
    "KTable.left_join": "Kafka's extractor of a foreign key is foreign_key=: left_join(other, joiner, foreign_key=…)",
    "KTable.transform_values": "stores are for processors: to_stream().process_values(supplier, ['first', 'second'])"
    ".to_table()",
    "TopologyTestDriver": "properties configure a live application: leave them out; handlers are given to "
    "StreamsBuilder(config={…})",
    "StreamsBuilder.build": "settings are given to StreamsBuilder(config={…})",
    "TimeWindows.of_days": 'name the zone: of_days(zone="Europe/Oslo"), of_days(7, zone="Europe/Oslo")',
    "fold.count": "it counts records; count_if(step) counts those for which the step is true",
}
"""What to say of too many arguments."""

_CORRECT = "correct the arguments"


class CallOptions:
    """One of Kafka's objects of options (jobs/topology/call_options.py), which represents keywords of the call."""

    __slots__ = ()

    @abstractmethod
    def _keywords(self, parameters: Collection[str]) -> dict[str, Any]:
        """For a call that has these parameters."""


Checked = TypeVar("Checked", bound=Callable[..., Any])


def checked(function: Checked, call: str, *, is_method: bool = False) -> Checked:
    """``function`` that looks at its arguments first; errors name it ``call``, and its
    arguments without the first one if ``is_method``. A parameter ``*options`` is for type
    checkers: CallOptions are spelt out before the call, which has nothing there.
    """
    signature = _without_options(inspect.signature(function))

    @functools.wraps(function)
    def call_checked(*arguments: Any, **options: Any) -> Any:
        if any(isinstance(one, CallOptions) for one in arguments[is_method:]):
            arguments, options = _spelt_out(call, signature, is_method, arguments, options)
        try:
            signature.bind(*arguments, **options)
        except TypeError as error:
            got = str(error).removeprefix("got ")
            raise _refusal(call, signature, is_method, options, got) from None
        return function(*arguments, **options)

    return call_checked  # type: ignore[return-value]


def _without_options(signature: inspect.Signature) -> inspect.Signature:
    kept = [
        each for each in signature.parameters.values() if (each.name, each.kind) != ("options", each.VAR_POSITIONAL)
    ]
    return signature.replace(parameters=kept)


def _spelt_out(
    call: str, signature: inspect.Signature, is_method: bool, arguments: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with keywords in the place of its CallOptions."""
    rest = list(arguments[:is_method])
    for one in arguments[is_method:]:
        if not isinstance(one, CallOptions):
            rest.append(one)
            continue
        given = one._keywords(signature.parameters)
        wrong = [name for name in given if name not in signature.parameters or name in options]
        if wrong:
            got, next_step = f"{one!r}", f"this call takes no such {wrong[0]}, or has it twice: leave it out"
            raise TopologyError(call, "options that this call has", got, next_step)
        options = options | given
    return tuple(rest), options


def checked_as(call: str) -> Callable[[Checked], Checked]:
    """A decorator: as ``checked``, of a function of its own."""

    def decorate(function: Checked) -> Checked:
        return checked(function, call)

    return decorate


def checked_init(call: str) -> Callable[[Checked], Checked]:
    """A decorator: as ``checked``, of the ``__init__`` of the class that is called so."""

    def decorate(function: Checked) -> Checked:
        return checked(function, call, is_method=True)

    return decorate


Class = TypeVar("Class", bound=type[Any])


def checked_class(cls: Class) -> Class:
    """``cls`` with its public calls checked."""
    for name, call in list(vars(cls).items()):
        function = call.__func__ if isinstance(call, classmethod) else call
        if not name.startswith("_") and inspect.isfunction(function):
            checked_call = checked(function, f"{cls.__name__}.{name}", is_method=True)
            setattr(cls, name, classmethod(checked_call) if isinstance(call, classmethod) else checked_call)
    return cls


def _refusal(
    call: str, signature: inspect.Signature, is_method: bool, options: Mapping[str, Any], got: str
) -> TopologyError:
    parameters = list(signature.parameters.values())[is_method:]
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    unknown = [option for option in options if option not in named]
    is_hinted = "too many" in got or call == "TimeWindows.of_days"
    by_name = [f"{each.name}=…" for each in parameters if each.kind is each.KEYWORD_ONLY]
    usual = f"give by name what comes behind: {' or '.join(by_name)}" if "too many" in got and by_name else _CORRECT
    hint = HINTS.get(call, usual) if is_hinted else _CORRECT
    next_step = did_you_mean(unknown[0], named, hint) if unknown else hint
    written = ", ".join(_written(each) for each in parameters)
    return TopologyError(call, f"{call.rpartition('.')[2]}({written})", got, next_step)


def _written(parameter: inspect.Parameter) -> str:
    star = "*" * ((parameter.kind is parameter.VAR_POSITIONAL) + 2 * (parameter.kind is parameter.VAR_KEYWORD))
    has_default = parameter.default is not parameter.empty
    return f"{star}{parameter.name}{'=' if has_default else ''}"
