"""The blocking client.

cluster: a whole cluster: metadata, leaders, connections, bounded retries
connection: one connection to one broker
offsets: log ends, offsets by timestamp, committed offsets
silence: brokers that do not answer, each waited for once
transactions: requests of a transactional producer to coordinators
"""
