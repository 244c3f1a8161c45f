"""The command ``replay``: arguments in; text and an exit code out.

``main`` finds a command without loading Spark, Arrow or Numba. A new command is one function in a module of
``commands/`` and one line in ``main.COMMANDS``; a new option is one line above a function and one parameter of it.
README.md beside this file shows both.
"""
