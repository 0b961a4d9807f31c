"""Moldau: event streaming that speaks the Apache Kafka protocol, with pipelines on Apache Spark."""

__version__ = "0.1.0"
