"""The lists of rules to break name text and tests that are there; `python -m tests.broken_rules` and
`python -m tests.silences` break them.
"""

import pytest

from tests.broken_rules import RULES, BrokenRule, place_of
from tests.silences import SILENCES
from tests.source_tree import Function, modules

pytestmark = pytest.mark.xdist_group("source tree")  # read and parsed once


@pytest.mark.parametrize("rule", [*RULES, *SILENCES], ids=lambda rule: rule.family)
def test_a_rule_that_can_be_broken_stands_in_one_file(rule):
    assert place_of(rule).endswith(".py")
    assert rule.new != rule.old


@pytest.mark.parametrize("rule", SILENCES, ids=lambda rule: rule.family)
def test_the_test_that_notices_what_is_wrong_is_there(rule):
    path, _, name = rule.noticed_by.partition("::")

    assert name in [each.name for each in modules()[path].body if isinstance(each, Function)]


def test_a_rule_that_is_gone_is_named():
    with pytest.raises(LookupError, match=r"filter: expected 'no such line' in one file, got \[\]"):
        place_of(BrokenRule("filter", "a rule", "no such line", "another"))
