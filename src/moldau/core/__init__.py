"""Decisions: synchronous, deterministic, without an operating system. Time and randomness are arguments.

auditing/: events of the audit log
authentication/: SASL mechanisms, tokens and failed logins
authorization/: access control lists and their decisions
beat: when repeated waits end, at the same instants
clocks: the difference between the clocks of two machines
config/: settings of brokers, topics and groups
controller/: the controller and the records of its decisions
coordination/: the shape of log-backed machines
groups/: consumer groups and committed offsets
log/: the log of a partition and log directories
metadata/: the image of the metadata log
quotas/: quotas and limits of connections
raft/: the quorum of the metadata log
replication/: leaders and followers of a partition
transactions/: the transaction coordinator
"""
