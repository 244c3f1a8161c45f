"""Names that may be meant by one that is not there.

Owns how near a name must be, and the words. Rule: nothing is guessed and used; it is only said.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches


def near_names(name: str, known: Mapping[str, str]) -> list[str]:
    """At most two values of ``known``: those whose keys are nearest to ``name``, the nearest first. Case is ignored."""
    folded = {key.casefold(): key for key in [*known][::-1]}
    return [known[folded[near]] for near in get_close_matches(name.casefold(), folded, n=2, cutoff=0.6)]


def did_you_mean(name: str, known: Iterable[str], otherwise: str, *, likeness: float = 0.6) -> str:
    """A next step: "did you mean 'a' or 'b'?", with at most two of the ``known`` names, those nearest to ``name``
    first; ``otherwise`` where none is near. ``likeness``: how alike they must be, up to 1 (SequenceMatcher.ratio).
    """
    near = get_close_matches(name, list(known), n=2, cutoff=likeness)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise
