"""The command ``replay``: one module a family of commands, loaded when its command is called.

In: arguments. Out: text, and an exit code. ``main`` parses and dispatches without loading Spark, Arrow or Numba.
"""
