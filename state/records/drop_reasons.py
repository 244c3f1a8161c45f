"""Why an operator refuses a record: the reasons of the table `dropped`.

Owns their text, which tables and books have, and the sentence that people read (`replay explain`). When each of them
applies is in docs/tables.md, and in the operator that gives it.
"""

from enum import StrEnum


class DropReason(StrEnum):
    """A reason: its text in the table. ``sentence``: of the refused record. ``has_limit``: a limit of time decided."""

    sentence: str
    has_limit: bool

    def __new__(cls, text: str, sentence: str = "", has_limit: bool = False) -> "DropReason":
        reason = str.__new__(cls, text)
        reason._value_, reason.sentence, reason.has_limit = text, sentence, has_limit
        return reason

    NEGATIVE_TIMESTAMP = "negative-timestamp", "its time is negative"
    NULL_KEY = "null-key", "its key is null"
    NULL_VALUE = "null-value", "its value is null"
    NULL_FOREIGN_KEY = "null-foreign-key", "its foreign key is null"
    PROCESSING_EXCEPTION = "processing-exception", "a function failed on it, and the exception handler continued"
    NO_PARTITION = "no-partition", "the partitioner gives no partition for it"
    STALE_RESPONSE = "stale-response", "the left value has changed since it asked"
    OUT_OF_ORDER_VERSION = "out-of-order-version", "a newer version of its key is there already"
    EXPIRED_VERSION = "expired-version", "it is older than the history that the store keeps", True
    EXPIRED_IN_STORE = "expired-in-store", "the store keeps nothing so old any more", True
    EXPIRED_WINDOW = "expired-window", "its window has closed", True
    LATE = "late", "records after it have gone on already", True
