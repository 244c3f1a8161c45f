"""Which member runs which task, keeps a standby of it, or learns it before it takes over (KIP-441, KIP-429).

Pure: members, tasks and lags in, an assignment out; Spark, clocks and files are for those who carry it out. The
algorithms are those of Kafka Streams 4.3.0's assignors, with ties by ascending id.
"""
