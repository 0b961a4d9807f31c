"""Requests of the order test, each for the one topic, group, transactional id or user of a test's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import replace

from moldau.wire.protocol.messages import (
    api_versions,
    client_quotas,
    cluster,
    configs,
    coordinators,
    delete_records,
    fetch,
    group_admin,
    groups_classic,
    leader_epochs,
    list_offsets,
    log_dirs,
    metadata,
    offsets,
    partitions,
    produce,
    producer_ids,
    scram,
    topics,
    transactions,
)
from moldau.wire.records.builder import build_batch

TOPIC, BROKER = 2, 4
SET = 0
READ_COMMITTED = 1
TRANSACTIONAL_ID = 1
UPGRADE, DOWNGRADE = 1, 2
FEATURE = "eligible.leader.replicas.version"
NODE = 1
GROWN_PARTITION = 2
"""The last partition of a topic that grew from one partition to three."""
SASL_PASSWORD = b"p" * 32
NOW_MS = 1_700_000_000_000

VERSIONS: dict[type, int] = {
    api_versions.ApiVersionsRequest: 3,
    client_quotas.AlterClientQuotasRequest: 1,
    client_quotas.DescribeClientQuotasRequest: 1,
    cluster.UpdateFeaturesRequest: 1,
    configs.AlterConfigsRequest: 2,
    configs.DescribeConfigsRequest: 4,
    configs.IncrementalAlterConfigsRequest: 1,
    configs.ListConfigResourcesRequest: 1,
    coordinators.FindCoordinatorRequest: 4,
    delete_records.DeleteRecordsRequest: 2,
    fetch.FetchRequest: 12,
    group_admin.DeleteGroupsRequest: 2,
    group_admin.OffsetDeleteRequest: 0,
    groups_classic.DescribeGroupsRequest: 5,
    groups_classic.HeartbeatRequest: 3,
    groups_classic.JoinGroupRequest: 3,
    groups_classic.LeaveGroupRequest: 4,
    groups_classic.ListGroupsRequest: 4,
    groups_classic.SyncGroupRequest: 3,
    leader_epochs.OffsetForLeaderEpochRequest: 4,
    list_offsets.ListOffsetsRequest: 7,
    log_dirs.DescribeLogDirsRequest: 4,
    metadata.MetadataRequest: 12,
    offsets.OffsetCommitRequest: 8,
    offsets.OffsetFetchRequest: 8,
    partitions.AlterPartitionReassignmentsRequest: 0,
    partitions.CreatePartitionsRequest: 3,
    partitions.DescribeTopicPartitionsRequest: 0,
    partitions.ElectLeadersRequest: 2,
    partitions.ListPartitionReassignmentsRequest: 0,
    produce.ProduceRequest: 9,
    producer_ids.DescribeProducersRequest: 0,
    producer_ids.InitProducerIdRequest: 4,
    scram.AlterUserScramCredentialsRequest: 0,
    scram.DescribeUserScramCredentialsRequest: 0,
    topics.CreateTopicsRequest: 7,
    topics.DeleteTopicsRequest: 5,
    transactions.AddOffsetsToTxnRequest: 3,
    transactions.AddPartitionsToTxnRequest: 3,
    transactions.DescribeTransactionsRequest: 0,
    transactions.EndTxnRequest: 3,
    transactions.ListTransactionsRequest: 1,
    transactions.TxnOffsetCommitRequest: 3,
    transactions.WriteTxnMarkersRequest: 1,
}
"""The versions of transactions v1, for requests with two protocols."""


class At(NamedTuple):
    """A request in another version: that of transactions v2."""

    request: Any
    version: int


@dataclass
class Subject:
    """The subject of a pair: a name, and the values from earlier responses."""

    name: str
    producer_id: int = -1
    producer_epoch: int = -1
    member_id: str = ""
    generation_id: int = -1

    def learn(self, answer: Any) -> None:
        if isinstance(answer, producer_ids.InitProducerIdResponse):
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        if isinstance(answer, groups_classic.JoinGroupResponse):
            self.member_id, self.generation_id = answer.member_id, answer.generation_id


# -- topics, records, settings


def create(on: Subject) -> Any:
    topic = topics.CreatableTopic(on.name, num_partitions=1, replication_factor=1)
    return topics.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)


def create_flushing(on: Subject) -> Any:
    flush = (topics.CreatableTopicConfig("flush.messages", "1"),)
    topic = topics.CreatableTopic(on.name, num_partitions=1, replication_factor=1, configs=flush)
    return topics.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)


def delete(on: Subject) -> Any:
    return topics.DeleteTopicsRequest(topic_names=(on.name,), timeout_ms=10_000)


def grow(on: Subject) -> Any:
    return partitions.CreatePartitionsRequest((partitions.CreatePartitionsTopic(on.name, 3, None),), 10_000)


def elect(on: Subject) -> Any:
    return partitions.ElectLeadersRequest(0, (partitions.ElectionTopicPartitions(on.name, (0,)),), 10_000)


def reassign(on: Subject) -> Any:
    row = partitions.ReassignablePartition(0, (NODE,))
    return partitions.AlterPartitionReassignmentsRequest(
        10_000, topics=(partitions.ReassignableTopic(on.name, (row,)),)
    )


def reassignments(on: Subject) -> Any:
    topic = partitions.ListPartitionReassignmentsTopics(on.name, (0,))
    return partitions.ListPartitionReassignmentsRequest(10_000, (topic,))


def describe(on: Subject) -> Any:
    return metadata.MetadataRequest((metadata.MetadataRequestTopic(name=on.name),), allow_auto_topic_creation=False)


def describe_partitions(on: Subject) -> Any:
    return partitions.DescribeTopicPartitionsRequest((partitions.DescribeTopicPartitionsTopicRequest(on.name),))


def configure(on: Subject) -> Any:
    setting = configs.IncrementalAlterableConfig("max.message.bytes", SET, "150")
    resource = configs.IncrementalAlterConfigsResource(TOPIC, on.name, (setting,))
    return configs.IncrementalAlterConfigsRequest((resource,))


def replace_configs(on: Subject) -> Any:
    setting = configs.AlterableConfig("max.message.bytes", "150")
    return configs.AlterConfigsRequest((configs.AlterConfigsResource(TOPIC, on.name, (setting,)),))


def describe_configs(on: Subject) -> Any:
    return configs.DescribeConfigsRequest((configs.DescribeConfigsResource(TOPIC, on.name, ("max.message.bytes",)),))


def list_resources(on: Subject) -> Any:
    return configs.ListConfigResourcesRequest((TOPIC,))


def write(on: Subject, acks: int = -1, partition: int = 0, **batch: Any) -> Any:
    records = build_batch([(None, b"v" * 100, NOW_MS, ())], **batch)
    data = (produce.TopicProduceData(name=on.name, partition_data=(produce.PartitionProduceData(partition, records),)),)
    return produce.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data)


def write_to_grown(on: Subject) -> Any:
    return write(on, partition=GROWN_PARTITION)


def write_acks_1(on: Subject) -> Any:
    return write(on, acks=1)


def write_acks_0(on: Subject) -> Any:
    return write(on, acks=0)


def write_idempotent(on: Subject) -> Any:
    return write(on, producer_id=7_000, producer_epoch=0, base_sequence=0)


def write_transactional(on: Subject) -> Any:
    ids = {"producer_id": on.producer_id, "producer_epoch": on.producer_epoch, "base_sequence": 0}
    return replace(write(on, is_transactional=True, **ids), transactional_id=on.name)


def write_and_join(on: Subject) -> Any:
    return At(write_transactional(on), 12)


def end_offset(on: Subject, partition: int = 0) -> Any:
    row = list_offsets.ListOffsetsPartition(partition, timestamp=-1)
    return list_offsets.ListOffsetsRequest(-1, topics=(list_offsets.ListOffsetsTopic(on.name, (row,)),))


def end_offset_of_grown(on: Subject) -> Any:
    return end_offset(on, GROWN_PARTITION)


def first_offset(on: Subject) -> Any:
    partition = list_offsets.ListOffsetsPartition(timestamp=-2)
    return list_offsets.ListOffsetsRequest(-1, topics=(list_offsets.ListOffsetsTopic(on.name, (partition,)),))


def stable_offset(on: Subject) -> Any:
    return replace(end_offset(on), isolation_level=READ_COMMITTED)


def read(on: Subject) -> Any:
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    named = (fetch.FetchTopic(topic=on.name, partitions=(partition,)),)
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=named)


def read_committed(on: Subject) -> Any:
    return replace(read(on), isolation_level=READ_COMMITTED)


def delete_all_records(on: Subject) -> Any:
    topic = delete_records.DeleteRecordsTopic(on.name, (delete_records.DeleteRecordsPartition(0, -1),))
    return delete_records.DeleteRecordsRequest((topic,), 10_000)


def epoch_end(on: Subject) -> Any:
    topic = leader_epochs.OffsetForLeaderTopic(on.name, (leader_epochs.OffsetForLeaderPartition(0, -1, 0),))
    return leader_epochs.OffsetForLeaderEpochRequest(-1, (topic,))


def producers(on: Subject) -> Any:
    return producer_ids.DescribeProducersRequest((producer_ids.DescribeProducersTopic(on.name, (0,)),))


def sizes(on: Subject, partition: int = 0) -> Any:
    return log_dirs.DescribeLogDirsRequest((log_dirs.DescribableLogDirTopic(on.name, (partition,)),))


def sizes_of_grown(on: Subject) -> Any:
    return sizes(on, GROWN_PARTITION)


def commit(on: Subject) -> Any:
    row = offsets.OffsetCommitRequestPartition(0, 5, committed_metadata="")
    topic = offsets.OffsetCommitRequestTopic(on.name, partitions=(row,))
    return offsets.OffsetCommitRequest(group_id=on.name, member_id="", topics=(topic,))


def positions(on: Subject) -> Any:
    topic = offsets.OffsetFetchRequestTopics(name=on.name, partition_indexes=(0,))
    return offsets.OffsetFetchRequest(groups=(offsets.OffsetFetchRequestGroup(group_id=on.name, topics=(topic,)),))


def stable_positions(on: Subject) -> Any:
    return replace(positions(on), require_stable=True)


def delete_position(on: Subject) -> Any:
    topic = group_admin.OffsetDeleteRequestTopic(on.name, (group_admin.OffsetDeleteRequestPartition(0),))
    return group_admin.OffsetDeleteRequest(on.name, (topic,))


def delete_group(on: Subject) -> Any:
    return group_admin.DeleteGroupsRequest((on.name,))


def list_groups(on: Subject) -> Any:
    return groups_classic.ListGroupsRequest()


def describe_group(on: Subject) -> Any:
    return groups_classic.DescribeGroupsRequest((on.name,))


def join(on: Subject) -> Any:
    protocol = (groups_classic.JoinGroupRequestProtocol("range", b""),)
    return groups_classic.JoinGroupRequest(
        group_id=on.name,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocol,
    )


def set_quota(on: Subject) -> Any:
    entity = client_quotas.AlterQuotaEntity("client-id", on.name)
    operation = client_quotas.AlterQuotaOperation("producer_byte_rate", 1e9)
    return client_quotas.AlterClientQuotasRequest((client_quotas.AlterQuotaEntry((entity,), (operation,)),))


def quotas(on: Subject) -> Any:
    component = client_quotas.QuotaFilterComponent("client-id", 0, on.name)
    return client_quotas.DescribeClientQuotasRequest((component,), strict=True)


def set_password(on: Subject) -> Any:
    credential = scram.ScramCredentialUpsertion(on.name, 1, 4096, b"salt", SASL_PASSWORD)
    return scram.AlterUserScramCredentialsRequest(upsertions=(credential,))


def passwords(on: Subject) -> Any:
    return scram.DescribeUserScramCredentialsRequest((scram.UserName(on.name),))


def sync(on: Subject) -> Any:
    own = groups_classic.SyncGroupRequestAssignment(on.member_id, b"all")
    return groups_classic.SyncGroupRequest(on.name, on.generation_id, on.member_id, assignments=(own,))


def heartbeat(on: Subject) -> Any:
    return groups_classic.HeartbeatRequest(on.name, on.generation_id, on.member_id)


def leave(on: Subject) -> Any:
    return groups_classic.LeaveGroupRequest(group_id=on.name, members=(groups_classic.MemberIdentity(on.member_id),))


# -- transactions


def init(on: Subject) -> Any:
    return producer_ids.InitProducerIdRequest(on.name, 60_000)


def add_partition(on: Subject) -> Any:
    topic = transactions.AddPartitionsToTxnTopic(on.name, (0,))
    return transactions.AddPartitionsToTxnRequest((), on.name, on.producer_id, on.producer_epoch, (topic,))


def add_group(on: Subject) -> Any:
    return transactions.AddOffsetsToTxnRequest(on.name, on.producer_id, on.producer_epoch, on.name)


def commit_in_transaction(on: Subject) -> Any:
    row = transactions.TxnOffsetCommitRequestPartition(0, 7)
    topic = transactions.TxnOffsetCommitRequestTopic(on.name, partitions=(row,))
    return transactions.TxnOffsetCommitRequest(on.name, on.name, on.producer_id, on.producer_epoch, topics=(topic,))


def commit_and_join(on: Subject) -> Any:
    return At(commit_in_transaction(on), 5)


def end(on: Subject) -> Any:
    return transactions.EndTxnRequest(on.name, on.producer_id, on.producer_epoch, committed=True)


def abort(on: Subject) -> Any:
    return transactions.EndTxnRequest(on.name, on.producer_id, on.producer_epoch, committed=False)


def end_v2(on: Subject) -> Any:
    return At(end(on), 5)


def abort_v2(on: Subject) -> Any:
    return At(abort(on), 5)


def mark_committed(on: Subject) -> Any:
    return _marker(on, is_commit=True)


def mark_aborted(on: Subject) -> Any:
    return _marker(on, is_commit=False)


def _marker(on: Subject, *, is_commit: bool) -> Any:
    topic = transactions.WritableTxnMarkerTopic(on.name, (0,))
    marker = transactions.WritableTxnMarker(on.producer_id, on.producer_epoch, is_commit, (topic,))
    return transactions.WriteTxnMarkersRequest((marker,))


def describe_transaction(on: Subject) -> Any:
    return transactions.DescribeTransactionsRequest((on.name,))


def list_open(on: Subject) -> Any:
    return transactions.ListTransactionsRequest(("Ongoing",))


def list_transactions(on: Subject) -> Any:
    return transactions.ListTransactionsRequest()


# -- the cluster


def lower_feature(on: Subject) -> Any:
    return cluster.UpdateFeaturesRequest(10_000, (cluster.FeatureUpdateKey(FEATURE, 0, upgrade_type=DOWNGRADE),))


def raise_feature(on: Subject) -> Any:
    return cluster.UpdateFeaturesRequest(10_000, (cluster.FeatureUpdateKey(FEATURE, 1, upgrade_type=UPGRADE),))


def versions(on: Subject) -> Any:
    return api_versions.ApiVersionsRequest("order", "1")


def find_group(on: Subject) -> Any:
    return coordinators.FindCoordinatorRequest(coordinator_keys=(on.name,))


def find_transaction(on: Subject) -> Any:
    return coordinators.FindCoordinatorRequest(key_type=TRANSACTIONAL_ID, coordinator_keys=(on.name,))
