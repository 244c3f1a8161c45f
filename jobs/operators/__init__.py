"""Operators: what each step of a topology is, what it says of itself, and how it runs.

A family is a room, and an operator a few files of it that begin alike: its node (configuration, stores, waits, names
and sentences), its operator, its kernel. A node names the function that builds its operator, which is imported with
the first such node: a topology is defined and described without what runs it. Batches of records and rows of stores
come in, batches and changed rows go out. Not here: the graph that nodes are in (``graph``), the calls that add them
(``topology.dsl``), tasks (``task``).
"""
