"""Connectors: the contract of a connector, and the light worker's task that runs one without Spark.

configuration: settings with types, parsed and checked as Kafka does
contract/: what a connector's class has, how it is found, its schemas
converting/: converters between the bytes of a topic and records, by the names of Kafka Connect
data/: records of connectors: a schema and a value, as in Kafka Connect
handling/: errors of records: tries again, tolerance, dead letters
plugins/: answers questions about connectors in a process of its own
running/: the light task, a process that runs one task of a connector
transforming/: transforms and predicates, by the names of Kafka Connect
"""
