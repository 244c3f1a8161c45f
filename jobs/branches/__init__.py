"""Changing what was committed: branches, promotion, restatement (restore), vacuum.

In: a pipeline's ledger and tables. Out: new ledger rows and table versions, or files deleted. Rule: numbers of
increments only rise, and the ledger says what will be done before it is done. Not here: computing an increment
(``replay``), reading one (``history``).
"""
