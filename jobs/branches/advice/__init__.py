"""What another setting would have done: the landed history runs again in process, with that setting, and is counted.

In: a pipeline's ledger and landed topics. Out: numbers and a suggestion; nothing is written, not even a branch. Not
here: proving what was committed (``verification``), explaining one record (``explain``).
"""
