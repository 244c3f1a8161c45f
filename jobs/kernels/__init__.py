"""Kernels that several families of operators or the tape share: Numba, arrays in, arrays out.

They decide over ints in the order of rows and never see values. A kernel of one family is beside its operator
(``operators/<family>/<operator>_kernel.py``). Nothing here knows a node, a batch or a file.
"""
