"""The commands, one module a family. Each is a function with click's options above it and the exit code as its result.

Rule: results go to stdout, progress and errors to stderr. A command calls the same functions as Dagster's steps, so
both see one ledger and can take turns. A module imports what its commands need and no more: `show` no Spark, no Numba.
"""
