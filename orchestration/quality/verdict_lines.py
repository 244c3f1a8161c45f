"""A verdict as a line of JSON, for programs that raise an alarm.

Owns the fields, which docs/quality.md lists. Rule: fields are added and none is taken away; words are those of
`quality_results`.
"""

import json

from ...expectations.quality_tables import VERDICTS
from ...expectations.verdicts import Verdict, is_in_order


def verdict_line(pipeline: str, verdict: Verdict) -> str:
    """One line, without its end."""
    return json.dumps(
        {
            "pipeline": pipeline,
            "increment": verdict.increment,
            "guarantee": verdict.guarantee,
            "table": verdict.table,
            "verdict": VERDICTS[verdict.answer],
            "severity": verdict.severity,
            "is_alarm": not is_in_order(verdict),
            "statement": verdict.sentence,
            "broken": list(verdict.broken),
            "observed": verdict.observed,
            "threshold": 0,
            "witnesses": verdict.witnesses,
            "reason": verdict.reason,
            "page": verdict.page,
        }
    )
