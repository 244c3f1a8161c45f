"""Verdicts by Great Expectations: suites of guarantees, suites that users wrote, one checkpoint over both, Data Docs.

In: evidence, which the guarantees found, and rows of an increment. Out: which rules and expectations hold. Great
Expectations is imported by nobody else, and here only when a suite is asked for (the import costs seconds).
"""
