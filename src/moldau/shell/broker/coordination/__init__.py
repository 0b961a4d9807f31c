"""Coordinators of groups and transactions, and what they ask of partition leaders.

cluster_transaction_port: the transaction port between several brokers
groups: group coordinators
shards: one runtime for each partition of an internal topic
times: load and verification times, for metrics
transaction_markers: writes markers until all partitions have them
transaction_port: what coordinators and partition leaders ask each other
transactions: transaction coordinators
"""
