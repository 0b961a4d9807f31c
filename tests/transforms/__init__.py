"""Transforms and predicates of connectors, compared with Apache Kafka's own on a corpus of records."""
