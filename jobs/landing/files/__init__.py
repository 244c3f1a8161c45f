"""Files of a directory: their bytes and digests, their rows, what is new among them.

In: a ``FileSource``. Out: records, block by block, and the bad rows. Not here: plans and commits (``from_files``).
"""
