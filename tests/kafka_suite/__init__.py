"""Kafka's own unit tests of the DSL as tapes, and our topologies that play them (README.md)."""
