"""What users write: expressions, joiners and processors, bound to columns and checked.

In: a callable or an expression and the types of its columns. Out: a function over Arrow columns, or ``TopologyError``.
Not here: folds (``folds``), and the loop that calls them (``operators``).
"""
