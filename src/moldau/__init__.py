"""Moldau: event streaming that speaks the Apache Kafka protocol, with pipelines on Apache Spark.

__main__: `python -m moldau`, the same as the command `moldau`
cli/: the command line
client/: a Kafka client without sockets, and its drivers
columnar/: topics as Arrow tables
connect/: the contract of connectors, and a light task that runs one
connectors/: the connectors that come with Moldau
core/: decisions, synchronous and without an operating system
errors/: every exception that Moldau raises
extras: which extra brings a missing package
idempotent/: each record handled once, with the database of a service
ports: the ports: Clock, Random, Disk, Workers and Dialer
products/: pipelines, web console, schema registry and demo
shell/: the broker's files, threads and connections
simulation/: a node, its disks, network and clients run from a seed
spark/: Spark source and sink, and sessions
telemetry: counters and gauges, one registry for each node
testing/: the test kit: clusters in a test, faults, histories
transport/: sockets, TLS, HTTP requests and metrics as text
types: distinct types for ids and offsets
wire/: bytes to values and back
"""

__version__ = "0.2.0.dev0"
"""As CHANGELOG.md says; a test compares them. Read here because looking a package up takes longer than a start."""
