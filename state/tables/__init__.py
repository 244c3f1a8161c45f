"""Delta tables of a warehouse: paths and schemas, Parquet files, commits, the ledger, compaction and clean-up.

In: files that tasks wrote. Out: one marked commit a table, and the ledger row that makes an increment count. A file is
never written twice, and nobody else commits.
"""
