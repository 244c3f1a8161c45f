"""Pipelines that begin with a live Kafka Streams application's state, and applications that begin with a pipeline's.

Rule: nothing of an application that has run is changed. A store gets the rows that Kafka Streams would restore it with,
and each operator knows what its changelogs mean.
"""
