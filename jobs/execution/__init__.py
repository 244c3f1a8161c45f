"""Files and machines around one task: its description, its stores' files, its tables' files, Spark or this process.

In: a task's description (cut, topology, files). Out: files of the task's tables and a report. Only here is Spark
known, and a task never knows it. Not here: what a task computes (``task``), which tasks there are (``replay``).
"""
