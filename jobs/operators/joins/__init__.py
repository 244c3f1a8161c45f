"""Joins: stream with stream, stream with table, table with table, by foreign key, and with the complete history.

One operator a file, its kernel beside it (``_kernel``). In: batches of both sides, or a view of the table. Out: joined
records or changes. Not here: the stores of tables (``tables``).
"""
