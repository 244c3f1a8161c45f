"""The command `upgrade-advice`: what an upgrade of Kafka Streams means for a topology. It reads no warehouse."""

import textwrap

from ....jobs.code_changes.upgrade_advice import TouchedOperators, UpgradeAdvice
from ....jobs.code_changes.upgrade_advice import upgrade_advice as advice_on
from ...settings.topology_loading import load_topology
from ...text_tables import print_json
from .. import options
from ..command import command, option

WIDTH = 100


@command()
@options.topology_argument
@option("--from", "since", required=True, metavar="VERSION", help="of Kafka Streams, as 3.9")
@option("--to", "until", required=True, metavar="VERSION", help="a later one, as 4.4")
@options.as_json
def upgrade_advice(topology: str, since: str, until: str, as_json: bool) -> int:
    """Name the known differences between two versions of Kafka Streams, and the operators that they touch."""
    advice = advice_on(load_topology(topology), since, until)
    if as_json:
        print_json({
            "from": advice.since, "to": advice.until, "known": advice.known,
            "differences": [_row(each) for each in advice.touched],
        })  # fmt: skip
    else:
        _print(advice, topology)
    return 0


def _row(each: TouchedOperators) -> dict[str, object]:
    difference = each.difference
    return {
        "since": difference.since, "effect": difference.effect.value, "ids": list(difference.ids),
        "says": difference.says, "operators": list(each.operators), "verified": difference.verified,
    }  # fmt: skip


def _print(advice: UpgradeAdvice, topology: str) -> None:
    number, known = len(advice.touched), f"{advice.known} known differences"
    said = f"{number} of {known} touch operators" if number else f"none of {known} touches an operator"
    print(f"Kafka Streams {advice.since} to {advice.until}: {said} of {topology}")
    for each in advice.touched:
        difference = each.difference
        print(f"\n{difference.since}  {difference.effect}  {', '.join(difference.ids)}".rstrip())
        print(textwrap.fill(difference.says, WIDTH, initial_indent="  ", subsequent_indent="  "))
        for name in each.operators:
            print(f"  - {name}")
        print(textwrap.fill(f"verified: {difference.verified}", WIDTH, initial_indent="  ", subsequent_indent="  "))
