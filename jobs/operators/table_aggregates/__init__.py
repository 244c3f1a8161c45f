"""Aggregates of grouped tables: what a change takes away is subtracted, what it brings is added.

In: changes that were regrouped (``tables/table_group_by.py``). Out: changes of the groups' aggregates.
"""
