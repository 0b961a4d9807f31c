"""A Kafka client of our own, for columns, administration and the simulator; it runs against Moldau and Apache Kafka.

`protocol` decides: frames, correlation, versions, metadata, retries; it has no socket, and the time is an argument.
`blocking` drives those decisions in the caller's thread, over a port that dials (`ports.Dialer`); `async_driver` drives
them on an event loop. `admin` holds what an administrator asks: topics, settings, groups, quotas.
"""
