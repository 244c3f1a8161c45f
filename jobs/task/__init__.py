"""The pure task: chunks of its tape go through the sub-topology's operators, tables come out.

In: chunks of Arrow columns in the order of the tape. Out: tables of outputs, repartitions, exports, drops and dead
letters. No file, no Spark, no clock. Not here: the order of the tape (``tape``), an operator's rule (``operators``).
"""
