"""The graph of a topology: nodes by name, what every node answers for itself, and what all nodes share.

Owns the base of all nodes, those at which records come in, leave or change hands, windows, and rules of the graph:
which tables have a store, which topics have as many partitions. Nodes of operators are beside their operators
(``operators``), the calls that add them above (``topology.dsl``). Nothing here runs.
"""
