"""What a seed of a law came to, in words: the same for deaths, races and damage."""

from collections.abc import Iterable


def failure(module: str, number: str, seed: int, played: str, said: Iterable[object]) -> str:
    """Lines of a seed that failed: what was ``played``, what was ``said`` of it, and the command that plays it again.

    ``module``: the law's, below tests.laws. ``number``: what its command calls so many seeds, "seeds" or "rounds".
    """
    return "\n".join(
        [
            f"FAILED {number.removesuffix('s')} {seed}: {played}",
            *(f"  {each}" for each in said),
            f"  again: python -m tests.laws.{module} --{number} 1 --from {seed}",
        ]
    )
