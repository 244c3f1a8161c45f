"""Guarantees of operators, one file each: the sentence, and how it is audited from tables.

In: what nodes promise of their tables (state/promises.py). Out: audits. Each module names the tables that are its
evidence.
"""
