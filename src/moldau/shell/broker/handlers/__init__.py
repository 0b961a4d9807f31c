"""One module for each family of APIs: `act(broker, context, request) -> response`.

api_versions: ApiVersions
cluster: DescribeCluster and DescribeQuorum
consumer_groups: KIP-848 requests, rejected
coordinators: FindCoordinator
delete_records: DeleteRecords
fetch: Fetch
fetch_targets: the partitions of a Fetch request
follower_fetch: notes how far a follower has its partitions
group_admin: DescribeGroups and ListGroups
group_deletion: DeleteGroups and OffsetDelete
group_membership: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
group_offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch
groups: asks a group coordinator
leader_epochs: OffsetForLeaderEpoch
leader_hints: the current leader in answers (KIP-951)
list_offsets: ListOffsets
log_dirs: DescribeLogDirs and AlterReplicaLogDirs
metadata: Metadata
near_replicas: the nearest replica of a consumer (KIP-392)
parked_fetch: one fetch from its first look to its answer
partitions: DescribeTopicPartitions
produce: Produce
produce_targets: the partitions of a Produce request
producer_ids: InitProducerId
producers: DescribeProducers
rewritten_batches: reads and compresses batches before the append
rows: large answers of Produce and Fetch as messages
table: the module and the rights of each API
transaction_admin: DescribeTransactions and ListTransactions
transactional_batches: verifies the partitions of transactional batches
transactions: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers
"""
