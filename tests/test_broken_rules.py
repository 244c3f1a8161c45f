"""The list of rules to break names text that is there; `python -m tests.broken_rules` breaks them."""

import pytest

from tests.broken_rules import RULES, BrokenRule, place_of


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.family)
def test_a_rule_that_can_be_broken_stands_in_one_file(rule):
    assert place_of(rule).endswith(".py")
    assert rule.new != rule.old


def test_a_rule_that_is_gone_is_named():
    with pytest.raises(LookupError, match=r"filter: expected 'no such line' in one file, got \[\]"):
        place_of(BrokenRule("filter", "a rule", "no such line", "another"))
