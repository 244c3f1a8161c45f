"""A committed output to a topic of Kafka: its rows as the sink would have written them, each exactly once.

In: an output's rows by increment, and the position up to which they have been published. Out: records in Kafka
transactions, with the next position in each. Nothing is written to the warehouse. Not here: landing a topic
(``landing``), and what a live application wrote beside our rows (``compare``).
"""
