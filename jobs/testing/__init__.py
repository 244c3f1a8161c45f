"""``TopologyTestDriver``: a topology run in process, record by record, as Kafka's own test driver does; and assertions.

In: piped records. Out: records of outputs, drops, dead letters, rows of stores; or an AssertionError that shows the
first record that differs and what every operator did with the record that it came of. The same tasks as in a replay run
here, without Spark, Delta and files. Not here: any rule of an operator.
"""
