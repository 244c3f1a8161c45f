"""Nexmark, the benchmark of stream processing: its events, and its queries as topologies."""
