"""Suppress: changes wait in a buffer until their window closes, their time is over or the buffer is full (KIP-328).

The operator, the entries of its buffer, and kernels: strict, eager, the order in which entries leave. In: changes. Out:
the changes that leave. A table seen through its buffer is a view in ``tables``.
"""
