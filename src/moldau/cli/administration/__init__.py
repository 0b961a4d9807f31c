"""Commands of administrators over a running cluster.

acls: `moldau acls`
broker_disks: asks each broker for its disks
brokers: `moldau brokers`
configs: `moldau configs`
events: `moldau events`
groups: `moldau groups`
moves: replicas that move to other brokers: the plan and its execution
offset_arguments: partitions, times and durations as Kafka's tools take them
offsets: `moldau offsets`
partitions: `moldau partitions`
quorum: `moldau quorum`
quotas: `moldau quotas`
tokens: `moldau tokens`
topics: `moldau topics`
transactions: `moldau transactions`
"""
