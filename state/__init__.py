"""Durable state: bytes, keys, columns, stores in memory, files, tables and their ledger.

The ground floor: nothing here knows a topology, a task or Spark. ``serdes``, ``records`` and ``stores`` are arrays in
memory; ``tables`` and ``runs`` are files and Delta's log, and alone commit to it.
"""
