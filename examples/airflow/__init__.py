"""The flights in Apache Airflow, which is none of our dependencies: the command and its exit codes are all it needs."""
