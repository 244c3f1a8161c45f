"""Benchmarks. Rule: every system has two threads, as ours has two of Spark's slots; set before polars is loaded."""

import os

THREADS = 2
os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))
