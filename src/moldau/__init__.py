"""Moldau: event streaming that speaks the Apache Kafka protocol, with pipelines on Apache Spark."""

__version__ = "0.1.0.dev0"
"""As CHANGELOG.md says; a test compares them. Read here because looking a package up takes longer than a start."""
