"""What users write: expressions, joiners, processors and folds, bound to columns and checked.

In: a callable or an expression and the types of its columns. Out: a function over Arrow columns, or ``TopologyError``.
``folds``: what an aggregate is made of, and the program that carries it out. Not here: the loop that calls all of them
(``operators``).
"""
