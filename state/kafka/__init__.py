"""Conversations with a Kafka broker, by librdkafka: settings of the client, questions, and records as columns."""
