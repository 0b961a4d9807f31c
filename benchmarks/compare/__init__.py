"""`make compare`: Moldau, Apache Kafka, RabbitMQ, Redis streams, NATS JetStream and an SQLite queue in one run.

`packages` fetches the servers, `servers` runs them, `clients` has a Python client for each, `systems` lists the rows,
`work` measures in processes of their own, `table` writes docs/compare/measured.md.
"""
