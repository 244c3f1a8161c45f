"""What production wrote, a landed topic, beside the rows of an output, which its rules give: differences, and causes.

In: a committed output, `dropped`, and landed topics. Out: verdicts, and of every difference its cause with the
evidence. Nothing is written here. Not here: two pipelines side by side (``history``), and what became of one record
(``explain``).
"""
