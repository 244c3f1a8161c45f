"""Real Kafka Streams as the judge of a pipeline: the Java application's own topology over the landed records.

Rule: it reads the warehouse and writes nothing to it. Kafka's tasks run in another process, without a broker.
"""
