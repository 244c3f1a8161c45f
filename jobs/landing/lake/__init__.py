"""Tables of a lake as the source of a topic: Delta and Iceberg, read by their own logs.

In: a ``LakeSource``. Out: its files and rows as ``files`` has those of a directory, and what changed since a version.
Not here: plans and commits (``from_lake``).
"""
