"""A pipeline as one component of a Dagster project: YAML in, definitions out.

In: the attributes of a ``defs.yaml``. Out: what ``replay_definitions`` gives; and, for ``dg scaffold``, a small
pipeline that runs at once.
"""
