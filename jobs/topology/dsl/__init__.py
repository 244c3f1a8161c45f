"""The calls that users make: streams, tables, grouped and windowed streams, and what configures them.

In: arguments. Out: nodes in the graph, or ``TopologyError`` with what to do. Import them from
``kstreams_replay.jobs.topology``, the face. Not here: the nodes and the graph (the folder above), and whatever runs.
"""
