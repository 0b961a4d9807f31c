"""Administrative requests, as functions over a client.

acls: access control lists, and those that a kind of client needs
brokers: brokers, their APIs, unregistration
client: connections to any broker, a named one, or a coordinator
configs: settings of topics, brokers, groups and loggers
error_texts: Kafka's names and texts of errors
features: feature levels (KIP-584, 1022)
groups: members and committed offsets of consumer groups
offsets: log ends, and the plan of an offset reset
partitions: elections, reassignments, deleted records, log directories
quorum: leader, voters and observers of the metadata log (KIP-595, 836)
quotas: quotas of users, client ids and addresses
reassignments: moved replicas and throttles (KIP-73, 113, 455)
scram: SCRAM credentials (KIP-554)
tokens: delegation tokens (KIP-48, 373)
topics: topics: create, list, grow, delete
transactions: transactions: list, describe, abort, find hanging (KIP-664)
"""
