"""The calls that users make: streams, tables, grouped and windowed streams, and what configures them.

In: arguments. Out: nodes in the graph, or ``TopologyError`` with what to do. Import them from
``kstreams_replay.jobs.topology``, the face. Not here: the nodes and the graph (the folder above), and code that runs.

Every call shows an example. Examples read small topics (tests/topology/docstring_inputs.py has their records): the
streams ``clicks``, ``mobile``, ``words``, ``orders`` and ``payments``, the tables ``prices``, ``points``, ``users``
and ``countries``. ``show(result)`` runs the topology in the test driver and prints its records: key, window, value,
time in ms.
"""
