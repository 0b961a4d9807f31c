"""A schema registry over a topic: Confluent's HTTP interface and records, above any Kafka cluster."""
