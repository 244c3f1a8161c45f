"""What real Kafka Streams said, and whether this project says the same."""
