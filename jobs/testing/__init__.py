"""``TopologyTestDriver``: a topology run in process, record by record, as Kafka's own test driver does.

In: piped records. Out: records of outputs, drops, dead letters, rows of stores. The same tasks as in a replay run here,
without Spark, Delta and files. Not here: any rule of an operator.
"""
