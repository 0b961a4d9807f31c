"""Moldau's own Kafka client for columnar reads and writes, administration and the simulator. Works with Moldau and
Apache Kafka.

`protocol` makes the decisions without a socket; `blocking` and `async_driver` move the bytes.

admin/: requests of administrators
async_driver: drives the client on an event loop
blocking/: drives the client on a thread that waits
protocol/: frames, versions, metadata and retries
"""
