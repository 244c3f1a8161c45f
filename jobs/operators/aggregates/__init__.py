"""Aggregates of streams: without windows, over time, sliding and session windows, cogrouped, distinct.

One operator a file, its kernel beside it (``_kernel``); ``build`` chooses one for a node. In: batches of a grouped
stream. Out: changes of aggregates, drops of late records. What all of them are made of: ``aggregate_parts``.
"""
