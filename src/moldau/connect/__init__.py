"""Connectors: the contract of a connector, and the light worker's task that runs one without Spark.

configuration: settings with types, parsed and checked as Kafka does
data/: records of connectors: a schema and a value, as in Kafka Connect
"""
