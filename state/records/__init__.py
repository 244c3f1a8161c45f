"""Records as columns: batches, their keys as codes, and the interning of key bytes.

In: Arrow columns. Out: batches that operators forward. Nothing is read from files here.
"""
