"""Clients of the simulator, each with its checks.

client_loop: connection and retries of every client
committed_reader: `read_committed` readers
directory_mover: moves between log directories (KIP-113)
epoch_asker: OffsetForLeaderEpoch
group_members: members of a classic group
large_batches: large batches and slow readers
long_asker: long requests, each followed by a short one
pipeliner: several requests in flight on one connection
producers: an idempotent and a plain producer
questioner: requests of tools
quota_admin: quotas, set and exceeded (KIP-13, 546)
readers: consumers in order
record_deleter: DeleteRecords
refusals/: requests that must be rejected
refuser: sends these requests
session_reader: a consumer with a fetch session (KIP-227)
settings_admin: changes settings of topics
simple_positions: commits of a group without members
stale_sender: sends an aborted batch again
time_searcher: ListOffsets by time
topic_admin: creates and deletes topics
transactional_client: base of transactional clients
transactional_copier: a transactional copier
"""
