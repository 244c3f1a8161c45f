"""Assertions about the outputs of a test driver, and fixtures for pytest.

In: a test driver and what a test expects. Out: nothing, or an AssertionError that shows the first record that differs
and what every operator did with the record that it came of. Not here: running a topology, which the driver does.
"""
