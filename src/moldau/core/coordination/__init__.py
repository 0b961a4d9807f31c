"""The shape of log-backed machines: `decide` and `apply`. The driver is `shell/coordination`.

host: replies that wait until their records are committed
machine: the interface of a machine
refusals: errors for clients when the log rejects a record
"""
