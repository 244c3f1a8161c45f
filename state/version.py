"""The version of this package: the command prints it, and tables name it (state/tables/formats.py)."""

DISTRIBUTION = "kafka-streams-replay"
"""What is installed."""
VERSION = "0.1.0"
"""As in pyproject.toml."""
