"""What a task reads, and in which order: landed topics, repartition tables and recorded time on one tape.

In: landed files and exchange files of a cut. Out: chunks of Arrow columns with their places, in Kafka's order. Nothing
is decoded here, and no operator is known. Not here: choosing the cut (``replay``), running the chunks (``task``).
"""
