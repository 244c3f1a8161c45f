"""Quality over time: numbers of increments under Kafka's names, verdicts on guarantees, and the page that shows both.

In: the ledger and the two quality tables. Out: rows of those tables, OpenMetrics text, one HTML page without a server.
Nothing here changes a table that a replay reads. Commands and Dagster's checks call it; it calls neither.
"""
