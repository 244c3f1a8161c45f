"""How kernels are compiled, cached and chosen: as they are for few records, by Numba for many.

In: Python functions that are kernels. Out: what is called. Whether a kernel runs compiled never shows in a result. Not
here: the kernels themselves (``jobs/kernels``, ``jobs/operators``, ``stores``).
"""
