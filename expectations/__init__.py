"""Guarantees and their checks: sentences about committed tables, audited, with a witness where one does not hold.

In: table versions of the ledger, and facts of the topology from ``orchestration``. Out: verdicts. Nothing here knows
``jobs``: what is checked must not be computed by the code that made it.
"""
