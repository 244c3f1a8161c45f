"""Stores in memory, as arrays that kernels take: slots by key, versions, timed and waiting records, values.

In: key codes and row numbers. Out: slots. The rules of what is put and found are the kernels' (``jobs``).
"""
