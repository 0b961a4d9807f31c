"""A node from start to stop: directories, listeners, roles, status.

admission: quotas and connection limits from metadata and settings
assemble: puts a node together and takes it apart
audit: writes the audit log
authentication: logins at this node's listeners
authorization: ACLs at this node
collector: Python's cycle collector
controller_listener: the listener of the controller
cordoned: reports cordoned log directories
directories: locks, formats and opens log directories
http_users: who may read `/metrics`
issuer_keys: keys of token issuers, fetched and refreshed (KIP-768)
kept: names records of Apache Kafka that are kept but not served
live_brokers: finds other live brokers, for `quorum recover`
log_format: log lines as text or JSON
loop_watch: measures how late the event loop is
main: a node as a process: signals and exit code
metrics/: the metrics of a node
open_listeners: warns of listeners that are open to the network
operations: `/metrics`, `/live` and `/ready`
ports: the ports that a node is made with
recover: `moldau quorum recover` on disk
registered: the addresses that a node registers
repair: `moldau log repair` and `strays` on disk
status: the state of a node, for operators
storage_format: formats log directories
stored_logs: logs on the disk at a start
tls: the TLS contexts of a node, and their renewal
"""
