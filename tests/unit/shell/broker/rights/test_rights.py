"""Each right of each API's row: without it a client is denied, with the error of the resource."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.shell.broker.handlers.table import handler_specs
from moldau.shell.network.rights import (
    ALTER_CLUSTER,
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    ALTER_TOPIC,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOKENS_USER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_GROUP,
    DESCRIBE_TOKENS_USER,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Right,
)
from moldau.types import ZERO_UUID
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages import (
    acls,
    client_quotas,
    cluster,
    configs,
    consumer_groups,
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
    raft_voters,
    scram,
    topics,
    transactions,
)
from tests.support.authorizers import AllBut

# every request names the topic t, the group g or the transactional id tx
PRODUCE = produce.ProduceRequest(
    acks=1, topic_data=(produce.TopicProduceData("t", partition_data=(produce.PartitionProduceData(0),)),)
)
OF_A_TRANSACTION = msgspec.structs.replace(PRODUCE, transactional_id="tx")
FETCH = fetch.FetchRequest(
    topics=(fetch.FetchTopic(topic="t", partitions=(fetch.FetchPartition(0, partition_max_bytes=10),)),)
)
LIST_OFFSETS = list_offsets.ListOffsetsRequest(
    topics=(list_offsets.ListOffsetsTopic("t", (list_offsets.ListOffsetsPartition(0),)),)
)
OF_T = metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(name="t"),))
OF_A_NEW_TOPIC = metadata.MetadataRequest(
    topics=(metadata.MetadataRequestTopic(name="new"),), allow_auto_topic_creation=True
)
COMMIT = offsets.OffsetCommitRequest(
    "g", topics=(offsets.OffsetCommitRequestTopic("t", partitions=(offsets.OffsetCommitRequestPartition(0, 1),)),)
)
COMMITTED = offsets.OffsetFetchRequest(group_id="g", topics=(offsets.OffsetFetchRequestTopic("t", (0,)),))
COMMIT_IN_TRANSACTION = transactions.TxnOffsetCommitRequest(
    "tx",
    "g",
    topics=(
        transactions.TxnOffsetCommitRequestTopic("t", partitions=(transactions.TxnOffsetCommitRequestPartition(0, 1),)),
    ),
)
ADD_PARTITION = transactions.AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="tx",
    v3_and_below_topics=(transactions.AddPartitionsToTxnTopic("t", (0,)),),
)
VERIFY = transactions.AddPartitionsToTxnRequest((transactions.AddPartitionsToTxnTransaction("tx", verify_only=True),))
MARKERS = transactions.WriteTxnMarkersRequest(
    (transactions.WritableTxnMarker(topics=(transactions.WritableTxnMarkerTopic("t", (0,)),)),)
)
JOIN = groups_classic.JoinGroupRequest("g", 6_000, 6_000)
FIND = coordinators.FindCoordinatorRequest
CREATE_TOPIC_N = topics.CreateTopicsRequest(topics=(topics.CreatableTopic("n", 1, 1),))
DELETE_RECORDS = delete_records.DeleteRecordsRequest(
    (delete_records.DeleteRecordsTopic("t", (delete_records.DeleteRecordsPartition(0),)),)
)
LEADER_EPOCH = leader_epochs.OffsetForLeaderEpochRequest(
    -1, (leader_epochs.OffsetForLeaderTopic("t", (leader_epochs.OffsetForLeaderPartition(0),)),)
)
PRODUCERS = producer_ids.DescribeProducersRequest((producer_ids.DescribeProducersTopic("t", (0,)),))
OFFSET_DELETE = group_admin.OffsetDeleteRequest(
    "g", (group_admin.OffsetDeleteRequestTopic("t", (group_admin.OffsetDeleteRequestPartition(0),)),)
)
MOVE = log_dirs.AlterReplicaLogDirsRequest(
    (log_dirs.AlterReplicaLogDir("/elsewhere", (log_dirs.AlterReplicaLogDirTopic("t", (0,)),)),)
)
MORE_PARTITIONS = partitions.CreatePartitionsRequest((partitions.CreatePartitionsTopic("t", 2, None),))
T_PARTITIONS = partitions.DescribeTopicPartitionsRequest((partitions.DescribeTopicPartitionsTopicRequest("t"),))
QUORUM = cluster.DescribeQuorumRequest(
    (cluster.DescribeQuorumTopic("__cluster_metadata", (cluster.DescribeQuorumPartition(0),)),)
)
DESCRIBE_ACLS = acls.DescribeAclsRequest(2, None, 3, None, None, 3, 3)
CREATE_ACLS = acls.CreateAclsRequest((acls.AclCreation(2, "t", 3, "User:a", "*", 3, 3),))
DELETE_ACLS = acls.DeleteAclsRequest((acls.DeleteAclsFilter(2, "t", 3, None, None, 3, 3),))
ALTER_SCRAM = scram.AlterUserScramCredentialsRequest((scram.ScramCredentialDeletion("u", 1),))
ALTER_QUOTAS = client_quotas.AlterClientQuotasRequest(
    (client_quotas.AlterQuotaEntry((client_quotas.AlterQuotaEntity("user", "u"),), ()),)
)


def described(kind: int, name: str) -> configs.DescribeConfigsRequest:
    return configs.DescribeConfigsRequest((configs.DescribeConfigsResource(kind, name),))


def altered(kind: int, name: str) -> configs.AlterConfigsRequest:
    return configs.AlterConfigsRequest((configs.AlterConfigsResource(kind, name),))


def changed(kind: int, name: str) -> configs.IncrementalAlterConfigsRequest:
    return configs.IncrementalAlterConfigsRequest((configs.IncrementalAlterConfigsResource(kind, name),))


# the request, its version, and the denied rights: any other one is granted
REFUSED: list[tuple[ApiKey, int, msgspec.Struct, tuple[Right, ...]]] = [
    (ApiKey.PRODUCE, 9, PRODUCE, (WRITE_TOPIC,)),
    (ApiKey.PRODUCE, 9, OF_A_TRANSACTION, (WRITE_TRANSACTIONAL_ID,)),
    (ApiKey.FETCH, 12, FETCH, (READ_TOPIC,)),
    (ApiKey.LIST_OFFSETS, 7, LIST_OFFSETS, (DESCRIBE_TOPIC,)),
    (ApiKey.METADATA, 9, OF_T, (DESCRIBE_TOPIC,)),
    (ApiKey.METADATA, 9, OF_A_NEW_TOPIC, (CREATE_TOPIC, CREATE_CLUSTER)),
    (ApiKey.OFFSET_COMMIT, 8, COMMIT, (READ_GROUP,)),
    (ApiKey.OFFSET_COMMIT, 8, COMMIT, (READ_TOPIC,)),
    (ApiKey.OFFSET_FETCH, 7, COMMITTED, (DESCRIBE_GROUP,)),
    (ApiKey.OFFSET_FETCH, 7, COMMITTED, (DESCRIBE_TOPIC,)),
    (ApiKey.FIND_COORDINATOR, 3, FIND(key="g", key_type=0), (DESCRIBE_GROUP,)),
    (ApiKey.FIND_COORDINATOR, 3, FIND(key="tx", key_type=1), (DESCRIBE_TRANSACTIONAL_ID,)),
    (ApiKey.JOIN_GROUP, 7, JOIN, (READ_GROUP,)),
    (ApiKey.HEARTBEAT, 4, groups_classic.HeartbeatRequest("g"), (READ_GROUP,)),
    (ApiKey.LEAVE_GROUP, 4, groups_classic.LeaveGroupRequest("g"), (READ_GROUP,)),
    (ApiKey.SYNC_GROUP, 4, groups_classic.SyncGroupRequest("g"), (READ_GROUP,)),
    (ApiKey.DESCRIBE_GROUPS, 5, groups_classic.DescribeGroupsRequest(("g",)), (DESCRIBE_GROUP,)),
    (ApiKey.CREATE_TOPICS, 7, CREATE_TOPIC_N, (CREATE_TOPIC, CREATE_CLUSTER)),
    (ApiKey.CREATE_TOPICS, 7, CREATE_TOPIC_N, (DESCRIBE_CONFIGS_TOPIC,)),
    (ApiKey.DELETE_TOPICS, 5, topics.DeleteTopicsRequest(topic_names=("t",)), (DELETE_TOPIC, DELETE_CLUSTER)),
    (ApiKey.DELETE_TOPICS, 5, topics.DeleteTopicsRequest(topic_names=("t",)), (DESCRIBE_TOPIC, DELETE_CLUSTER)),
    (ApiKey.DELETE_RECORDS, 2, DELETE_RECORDS, (DELETE_TOPIC,)),
    (
        ApiKey.INIT_PRODUCER_ID,
        4,
        producer_ids.InitProducerIdRequest(transactional_id=None),
        (IDEMPOTENT_WRITE, WRITE_TOPIC),
    ),
    (ApiKey.INIT_PRODUCER_ID, 4, producer_ids.InitProducerIdRequest(transactional_id="tx"), (WRITE_TRANSACTIONAL_ID,)),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, LEADER_EPOCH, (DESCRIBE_TOPIC, CLUSTER_ACTION)),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 3, ADD_PARTITION, (WRITE_TRANSACTIONAL_ID,)),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 3, ADD_PARTITION, (WRITE_TOPIC,)),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 4, VERIFY, (CLUSTER_ACTION,)),
    (ApiKey.ADD_OFFSETS_TO_TXN, 3, transactions.AddOffsetsToTxnRequest("tx", 0, 0, "g"), (WRITE_TRANSACTIONAL_ID,)),
    (ApiKey.ADD_OFFSETS_TO_TXN, 3, transactions.AddOffsetsToTxnRequest("tx", 0, 0, "g"), (READ_GROUP,)),
    (ApiKey.END_TXN, 3, transactions.EndTxnRequest("tx"), (WRITE_TRANSACTIONAL_ID,)),
    (ApiKey.WRITE_TXN_MARKERS, 2, MARKERS, (ALTER_CLUSTER, CLUSTER_ACTION)),
    (ApiKey.TXN_OFFSET_COMMIT, 3, COMMIT_IN_TRANSACTION, (WRITE_TRANSACTIONAL_ID,)),
    (ApiKey.TXN_OFFSET_COMMIT, 3, COMMIT_IN_TRANSACTION, (READ_GROUP,)),
    (ApiKey.TXN_OFFSET_COMMIT, 3, COMMIT_IN_TRANSACTION, (READ_TOPIC,)),
    (ApiKey.DESCRIBE_ACLS, 3, DESCRIBE_ACLS, (DESCRIBE_CLUSTER,)),
    (ApiKey.CREATE_ACLS, 3, CREATE_ACLS, (ALTER_CLUSTER,)),
    (ApiKey.DELETE_ACLS, 3, DELETE_ACLS, (ALTER_CLUSTER,)),
    (ApiKey.DESCRIBE_CONFIGS, 4, described(2, "t"), (DESCRIBE_CONFIGS_TOPIC,)),
    (ApiKey.DESCRIBE_CONFIGS, 4, described(32, "g"), (DESCRIBE_CONFIGS_GROUP,)),
    (ApiKey.DESCRIBE_CONFIGS, 4, described(4, "1"), (DESCRIBE_CONFIGS_CLUSTER,)),
    (ApiKey.ALTER_CONFIGS, 2, altered(2, "t"), (ALTER_CONFIGS_TOPIC,)),
    (ApiKey.ALTER_CONFIGS, 2, altered(32, "g"), (ALTER_CONFIGS_GROUP,)),
    (ApiKey.ALTER_CONFIGS, 2, altered(4, "1"), (ALTER_CONFIGS_CLUSTER,)),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, changed(2, "t"), (ALTER_CONFIGS_TOPIC,)),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, changed(32, "g"), (ALTER_CONFIGS_GROUP,)),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, changed(4, "1"), (ALTER_CONFIGS_CLUSTER,)),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, 2, MOVE, (ALTER_CLUSTER,)),
    (ApiKey.DESCRIBE_LOG_DIRS, 4, log_dirs.DescribeLogDirsRequest(topics=None), (DESCRIBE_CLUSTER,)),
    (ApiKey.CREATE_PARTITIONS, 3, MORE_PARTITIONS, (ALTER_TOPIC,)),
    (ApiKey.DELETE_GROUPS, 2, group_admin.DeleteGroupsRequest(("g",)), (DELETE_GROUP,)),
    (ApiKey.OFFSET_DELETE, 0, OFFSET_DELETE, (DELETE_GROUP,)),
    (ApiKey.OFFSET_DELETE, 0, OFFSET_DELETE, (READ_TOPIC,)),
    (ApiKey.ELECT_LEADERS, 2, partitions.ElectLeadersRequest(topic_partitions=None), (ALTER_CLUSTER,)),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, partitions.AlterPartitionReassignmentsRequest(), (ALTER_CLUSTER,)),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, partitions.ListPartitionReassignmentsRequest(), (DESCRIBE_CLUSTER,)),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, T_PARTITIONS, (DESCRIBE_TOPIC,)),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, client_quotas.DescribeClientQuotasRequest(), (DESCRIBE_CONFIGS_CLUSTER,)),
    (ApiKey.ALTER_CLIENT_QUOTAS, 1, ALTER_QUOTAS, (ALTER_CONFIGS_CLUSTER,)),
    (
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        scram.DescribeUserScramCredentialsRequest(None),
        (DESCRIBE_CLUSTER,),
    ),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, ALTER_SCRAM, (ALTER_CLUSTER,)),
    (ApiKey.DESCRIBE_QUORUM, 2, QUORUM, (DESCRIBE_CLUSTER,)),
    (ApiKey.UPDATE_FEATURES, 1, cluster.UpdateFeaturesRequest(), (ALTER_CLUSTER,)),
    (ApiKey.UNREGISTER_BROKER, 0, cluster.UnregisterBrokerRequest(9), (ALTER_CLUSTER,)),
    (ApiKey.UNREGISTER_CONTROLLER, 0, cluster.UnregisterControllerRequest(9), (ALTER_CLUSTER,)),
    (ApiKey.DESCRIBE_PRODUCERS, 0, PRODUCERS, (READ_TOPIC,)),
    (
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        transactions.DescribeTransactionsRequest(("tx",)),
        (DESCRIBE_TRANSACTIONAL_ID,),
    ),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumer_groups.ConsumerGroupHeartbeatRequest("g"), (READ_GROUP,)),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, consumer_groups.ConsumerGroupDescribeRequest(("g",)), (DESCRIBE_GROUP,)),
    (ApiKey.LIST_CONFIG_RESOURCES, 1, configs.ListConfigResourcesRequest(), (DESCRIBE_CONFIGS_CLUSTER,)),
    (ApiKey.ADD_RAFT_VOTER, 0, raft_voters.AddRaftVoterRequest("c", 0, 9, ZERO_UUID), (ALTER_CLUSTER,)),
    (ApiKey.REMOVE_RAFT_VOTER, 0, raft_voters.RemoveRaftVoterRequest("c", 9, ZERO_UUID), (ALTER_CLUSTER,)),
]
# entries that a list leaves out, without an error
HIDDEN: list[tuple[ApiKey, int, msgspec.Struct, tuple[Right, ...], str]] = [
    (ApiKey.METADATA, 9, metadata.MetadataRequest(topics=None), (DESCRIBE_TOPIC,), "t"),
    (ApiKey.LIST_GROUPS, 5, groups_classic.ListGroupsRequest(), (DESCRIBE_GROUP, DESCRIBE_CLUSTER), "g"),
    (ApiKey.LIST_TRANSACTIONS, 1, transactions.ListTransactionsRequest(), (DESCRIBE_TRANSACTIONAL_ID,), "tx"),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0, transactions.DescribeTransactionsRequest(("tx",)), (DESCRIBE_TOPIC,), "t"),
]
FOLLOWERS = {(int(ApiKey.FETCH), CLUSTER_ACTION)}
"""Requested when a replica fetches: test_replica_fetches.py."""
OF_TOKENS = {
    (int(ApiKey.CREATE_DELEGATION_TOKEN), CREATE_TOKENS_USER),
    (int(ApiKey.DESCRIBE_DELEGATION_TOKEN), DESCRIBE_DELEGATION_TOKEN),
    (int(ApiKey.DESCRIBE_DELEGATION_TOKEN), DESCRIBE_TOKENS_USER),
}
"""Requested on a listener with a login: ../node/test_delegation_tokens.py."""


def test_every_right_of_every_row_is_denied_once() -> None:
    rows = {(key, right) for key, spec in handler_specs().items() for right in spec.rights}
    tried = [(key, denied) for key, _, _, denied in REFUSED] + [(key, denied) for key, _, _, denied, _ in HIDDEN]
    assert {(int(key), right) for key, denied in tried for right in denied} | FOLLOWERS | OF_TOKENS == rows


async def a_broker_with_things(start_node: Any) -> Any:
    """It has the topic t, the group g with an offset, and the transaction tx on the topic t."""
    node = await start_node()
    await node.create_topic("t")
    client = node.connect()
    for key_type, key in enumerate(("g", "tx")):
        assert codes_in(await client.ask(ApiKey.FIND_COORDINATOR, 3, FIND(key, key_type))) == {0}
    assert codes_in(await client.ask(ApiKey.OFFSET_COMMIT, 8, COMMIT)) == {0}
    begun = await client.ask(
        ApiKey.INIT_PRODUCER_ID, 4, producer_ids.InitProducerIdRequest("tx", transaction_timeout_ms=60_000)
    )
    joining = msgspec.structs.replace(
        ADD_PARTITION,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
    )
    assert codes_in(await client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, joining)) == {0}
    return node


def codes_in(answer: Any) -> set[int]:
    """Every error code of a response, at any depth."""
    found = set[int]()
    for name in answer.__struct_fields__ if isinstance(answer, msgspec.Struct) else ():
        value = getattr(answer, name)
        if name.endswith("error_code"):
            found.add(value)
        for item in value if isinstance(value, tuple) else ():
            found |= codes_in(item)
    return found


def names_in(answer: Any) -> set[str]:
    """Every text of a response, at any depth."""
    if isinstance(answer, str):
        return {answer}
    inner = [getattr(answer, name) for name in answer.__struct_fields__] if isinstance(answer, msgspec.Struct) else []
    inner += answer if isinstance(answer, tuple) else ()
    return set[str]().union(*(names_in(item) for item in inner))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("key", "version", "request_message", "denied"),
    REFUSED,
    ids=[f"{key.name} without {' and '.join(map(str, denied))}" for key, _, _, denied in REFUSED],
)
async def test_who_may_not_is_refused(
    start_node: Any, key: ApiKey, version: int, request_message: msgspec.Struct, denied: tuple[Right, ...]
) -> None:
    node = await a_broker_with_things(start_node)
    node.node.dispatcher.authorizer = AllBut(*denied)
    assert codes_in(await node.connect().ask(key, version, request_message)) & {29, 30, 31, 53} == {denied[0].refusal}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("key", "version", "request_message", "denied", "name"), HIDDEN, ids=[key.name for key, *_ in HIDDEN]
)
async def test_lists_show_only_what_may_be_seen(
    start_node: Any, key: ApiKey, version: int, request_message: msgspec.Struct, denied: tuple[Right, ...], name: str
) -> None:
    node = await a_broker_with_things(start_node)
    assert name in names_in(await node.connect().ask(key, version, request_message))
    node.node.dispatcher.authorizer = AllBut(*denied)
    assert name not in names_in(await node.connect().ask(key, version, request_message))


@pytest.mark.asyncio
async def test_a_topic_asked_for_by_its_id_is_refused_without_its_name(start_node: Any) -> None:
    node = await a_broker_with_things(start_node)
    client = node.connect()
    [found] = (await client.ask(ApiKey.METADATA, 13, OF_T)).topics
    node.node.dispatcher.authorizer = AllBut(DESCRIBE_TOPIC)
    for topic_id, code in ((found.topic_id, 29), (b"\x07" * 16, 100)):
        by_id = metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(topic_id=topic_id, name=None),))
        [answer] = (await client.ask(ApiKey.METADATA, 13, by_id)).topics
        assert (answer.error_code, answer.name, answer.topic_id) == (code, None, topic_id)
