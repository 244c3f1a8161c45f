"""The instructions that read and write Avro, as rows of four int64 that kernels walk.

Owns the numbers of the instructions. An instruction is (operation, slot, a, b); slot -1: nothing is kept.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

END = 0
INT, LONG, FLOAT, DOUBLE, BOOLEAN = 1, 2, 3, 4, 5
"""Numbers; ``a``: one of the conversions below."""
BYTES, FIXED, DECIMAL = 6, 7, 8
"""Two slots. BYTES ``a``: 1 of text. FIXED ``a``: size. DECIMAL ``a``: size, or -1 with a length before it; ``b``: the
index in the tables of the upper and lower half of the largest and of the smallest number.
"""
ENUM, UINT = 9, 10
"""ENUM ``a``: the index in the tables of its ``b`` symbols' numbers, -1 for one that is refused. UINT: 4 bytes."""
LAST_VALUE = 10
UNION, JUMP, PUSH, ITEMS, NEXT, CALL, RETURN, FAIL = 11, 12, 13, 14, 15, 16, 17, 18
"""UNION ``a``: the index in the tables of the places of its ``b`` branches. JUMP, CALL ``a``: place. PUSH ``a``: the
number. ITEMS ``a``: place behind the items. NEXT ``a``: place of the items' first. FAIL ``a``: number of the reason."""

AS_IT_IS, TO_DOUBLE, TO_FLOAT = 0, 1, 2
DATE, TIME_MILLIS, TIME_MICROS, TIMESTAMP_MILLIS, TIMESTAMP_MICROS = 3, 4, 5, 6, 7
"""Conversions of an integer: none, to a double, to the nearest float, and to a date or microseconds, of which those are
refused that Python's datetime does not have."""

FAULTS = {
    1: "expected more bytes, got the end",
    2: "expected a number of at most 5 bytes for an int and 10 for a long, got more",
    3: "expected a length of 0 or more, got less",
    4: "expected the number of a branch of the union, got another",
    5: "expected the number of a symbol of the enum, got another",
    6: "expected a symbol that the reader's schema has, got another",
    7: "expected the byte 0 or 1 of a boolean, got another",
    8: "expected a decimal of no more digits than its precision, got more",
    9: "expected the end of the value, got more bytes",
    10: "expected UTF-8, got other bytes",
    11: "expected a time of the day, or one of the years 1 to 9999, got another",
    12: "expected fewer levels of records and arrays in one another, got more than 500",
    13: "expected the digits of a decimal, got no bytes",
}
(CUT, LONG_NUMBER, NEGATIVE_LENGTH, NO_BRANCH, NO_SYMBOL, UNREAD_SYMBOL, NO_BOOLEAN, WIDE_DECIMAL, TRAILING, NO_TEXT,
 NO_TIME, DEEP, NO_DIGITS) = FAULTS  # fmt: skip
FIRST_REASON = 100
"""Faults from this number on are the program's own reasons."""


class Program(NamedTuple):
    """``code`` int64 of shape (instructions, 4); ``tables`` int64; ``constants``: bytes of defaults; ``blank``: place
    of the instructions for a row that is null or bad; ``reasons``: sentences of FAIL.
    """

    code: np.ndarray
    tables: np.ndarray
    constants: np.ndarray
    blank: int
    reasons: tuple[str, ...]

    def reason(self, fault: int) -> str:
        """The sentence of a fault."""
        return self.reasons[fault - FIRST_REASON] if fault >= FIRST_REASON else FAULTS[fault]


@dataclass
class Code:
    """A program that is being written."""

    code: list[list[int]] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    reasons: list[str] = field(default_factory=list)

    def add(self, operation: int, slot: int = -1, a: int = 0, b: int = 0) -> int:
        """Place of the instruction."""
        self.code.append([operation, slot, a, b])
        return len(self.code) - 1

    @property
    def here(self) -> int:
        """Place of the next instruction."""
        return len(self.code)

    def table(self, numbers: list[int]) -> int:
        """Place of ``numbers`` in the tables."""
        self.tables += numbers
        return len(self.tables) - len(numbers)

    def constant(self, text: bytes) -> int:
        """What a slot holds for the begin of ``text``: below zero, counted from -1."""
        self.constants += text
        return -1 - (len(self.constants) - len(text))

    def fail(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.add(FAIL, a=self.reasons.index(reason))

    def finished(self, blank: int) -> Program:
        return Program(
            np.array(self.code, np.int64).reshape(-1, 4),
            np.array([*self.tables, 0], np.int64),
            np.frombuffer(bytes(self.constants) or b"\0", np.uint8),
            blank,
            tuple(self.reasons),
        )
