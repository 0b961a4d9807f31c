"""Consumer groups and their committed offsets: the machine of a `__consumer_offsets` partition.

classic/: members and generations of classic groups
committed_offsets: committed offsets, also of open transactions (KIP-98)
counters: names of the counted events
describe: DescribeGroups and ListGroups
draft: records, replies and timers that a decision collects
expiry: expiry and deletion of offsets and groups (KIP-211, 229, 496)
group_partitions: the partition of `__consumer_offsets` of a group
machine: the machine
offset_topics: topic names and ids of offset requests
offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch
records: the records of classic groups
refusals: error answers in the shape of each version
requests: requests and replies of the machine
state: the folded state
"""
