"""The guarantees: each a sentence that must hold, with the check that proves it.

Owns the table of guarantees as data. Rule: one guarantee, one audit frame per increment, and rules that all have one
form: *this column of the frame is 0 in every row*. Two front ends read them, `suites` (Great Expectations) and
`verdicts` (plain code), so a guarantee cannot mean two things.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """``column`` of the audit frame is 0 in every row. ``name`` is the expectation's name in a suite."""

    name: str
    column: str
    sentence: str


@dataclass(frozen=True)
class Guarantee:
    """One guarantee. ``check`` names the asset check, ``proof`` the test file that breaks it on purpose."""

    id: str
    sentence: str
    kip: str
    operator: str
    check: str
    proof: str
    status: str
    rules: tuple[Rule, ...]


G1 = Guarantee(
    id="G1",
    sentence="One final result per key and window.",
    kip="KIP-328",
    operator="suppress until the window closes",
    check="one_final_result_per_key_and_window",
    proof="tests/expectations/test_final_once.py",
    status="done",
    rules=(
        Rule(
            "expect_one_final_row_per_key_window",
            "repeated",
            "No final result has a key and window that an earlier one has.",
        ),
    ),
)

G2 = Guarantee(
    id="G2",
    sentence="No final result before its window closed.",
    kip="KIP-328",
    operator="suppress until the window closes",
    check="no_final_result_before_its_window_closed",
    proof="tests/expectations/test_final_after_close.py",
    status="done",
    rules=(
        Rule(
            "expect_no_final_before_close",
            "early",
            "Every final result has stream_time_ms >= window_end_ms + wait (wait: grace; for sessions gap + grace).",
        ),
        Rule(
            "expect_stream_time_to_be_landed",
            "unproven",
            "No final result has a stream time above the highest landed record time up to its cause.",
        ),
    ),
)

G3 = Guarantee(
    id="G3",
    sentence="The books balance: read = applied + left out + dropped + undecodable.",
    kip="",
    operator="all",
    check="the_books_balance",
    proof="tests/expectations/test_books_balance.py",
    status="done",
    rules=(
        Rule(
            "expect_books_to_balance",
            "missing",
            "Records landed inside the cut = applied + left out + dropped + undecodable, recounted from the tables.",
        ),
        Rule(
            "expect_reads_to_be_booked",
            "read_unbooked",
            "The ledger read as many records as are landed inside its cut.",
        ),
        Rule(
            "expect_drops_to_be_booked",
            "dropped_unbooked",
            "The ledger dropped as many records as have a row in `dropped`.",
        ),
        Rule(
            "expect_refusals_to_be_booked",
            "refusals_unbooked",
            "By operator and reason, the ledger counts as many refusals as have a row in `dropped`.",
        ),
        Rule(
            "expect_dead_letters_to_be_booked",
            "undecodable_unbooked",
            "The ledger has as many undecodable records as have a row in `dead_letter`.",
        ),
        Rule(
            "expect_refusals_to_be_landed_records",
            "stray",
            "Every dropped or undecodable record is a landed record inside the cut.",
        ),
        Rule(
            "expect_results_to_be_booked",
            "rows_unbooked",
            "Every output has as many records of the increment as the ledger says were written.",
        ),
    ),
)

GUARANTEES = (G1, G2, G3)
