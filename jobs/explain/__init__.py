"""What became of one record: the tasks of its increment run again under observation, and sentences say what happened.

In: a record's position and the committed increment. Out: observations of nodes, then sentences. Nothing is committed
here. Not here: reading committed tables (``history``), and what rows mean to an operator (``operators``).
"""
