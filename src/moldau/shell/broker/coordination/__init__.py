"""Coordinators of groups and transactions, and their port to partition leaders.

cluster_transaction_port: the transaction port between several brokers
coordination: both kinds of coordinators, created at first use
groups: group coordinators
shards: one runtime for each partition of an internal topic
times: load and verification times, for metrics
transaction_markers: writes and retries the markers of transactions
transaction_port: the port between coordinators and partition leaders
transactions: transaction coordinators
"""
