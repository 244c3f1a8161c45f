"""Pipelines that begin with the state of a live Kafka Streams application.

Rule: the application is read once, and nothing of it is changed. A store gets the rows that Kafka Streams would restore
it with, and each operator knows what its changelogs mean.
"""
