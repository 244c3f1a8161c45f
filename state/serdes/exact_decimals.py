"""Decimals of any exponent as Arrow can take them.

Owns the step from Python's Decimal, whose exponent may have any size, to the digits that a column holds. Rule: no digit
is lost, and none is made of an exponent. Arrow looks up powers of ten by the exponent that it is given, beyond the end
of its table, and Python's ``int`` writes all zeros of one.
"""

from decimal import Context, Decimal, Inexact, InvalidOperation

DIGITS_MOST = 76
"""Of Arrow's widest decimal."""
_EXACTLY = Context(prec=DIGITS_MOST, traps=[Inexact, InvalidOperation])


def with_scale(number: Decimal, scale: int) -> Decimal:
    """``number`` with ``scale`` digits behind the point, whatever its exponent; NaN stays NaN.

    ArithmeticError where a digit is lost, where it has more than 76, and for an infinite one.
    """
    return number.quantize(Decimal((0, (1,), -scale)), context=_EXACTLY)
