"""A Kafka client of our own, for columns, administration and the simulator, on Moldau and Apache Kafka.

`protocol` decides and has no socket; `blocking` and `async_driver` move the bytes.

admin/: requests of administrators
async_driver: drives the client on an event loop
blocking/: drives the client on a thread that waits
protocol/: frames, versions, metadata and retries
"""
