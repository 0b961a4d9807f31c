"""Two requests in one segment, one that changes something and one that asks for it: the second sees the first.

Apache Kafka, too, begins no request of a connection before it has answered the one before; what its controller decided
may still be on its way to its broker then, so there the question may be asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.messages import (
    client_quotas,
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
)
from moldau.wire.records.builder import build_batch
from tests.support.wire import RawConnection, request_bytes

TOPIC, BROKER = 2, 4
SET = 0
NODE = 1
SASL_PASSWORD = b"p" * 32
NOW_MS = 1_700_000_000_000
MAX_QUESTIONS = 200

VERSIONS: dict[type, int] = {
    client_quotas.AlterClientQuotasRequest: 1,
    client_quotas.DescribeClientQuotasRequest: 1,
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
    scram.AlterUserScramCredentialsRequest: 0,
    scram.DescribeUserScramCredentialsRequest: 0,
    topics.CreateTopicsRequest: 7,
    topics.DeleteTopicsRequest: 5,
}


# -- requests, each about one topic, group or user of that name


def create(name: str) -> Any:
    topic = topics.CreatableTopic(name, num_partitions=1, replication_factor=1)
    return topics.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)


def create_flushing(name: str) -> Any:
    flush = (topics.CreatableTopicConfig("flush.messages", "1"),)
    topic = topics.CreatableTopic(name, num_partitions=1, replication_factor=1, configs=flush)
    return topics.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)


def delete(name: str) -> Any:
    return topics.DeleteTopicsRequest(topic_names=(name,), timeout_ms=10_000)


def grow(name: str) -> Any:
    return partitions.CreatePartitionsRequest((partitions.CreatePartitionsTopic(name, 3, None),), 10_000)


def elect(name: str) -> Any:
    return partitions.ElectLeadersRequest(0, (partitions.ElectionTopicPartitions(name, (0,)),), 10_000)


def reassign(name: str) -> Any:
    row = partitions.ReassignablePartition(0, (NODE,))
    return partitions.AlterPartitionReassignmentsRequest(10_000, topics=(partitions.ReassignableTopic(name, (row,)),))


def reassignments(name: str) -> Any:
    topic = partitions.ListPartitionReassignmentsTopics(name, (0,))
    return partitions.ListPartitionReassignmentsRequest(10_000, (topic,))


def describe(name: str) -> Any:
    return metadata.MetadataRequest((metadata.MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)


def describe_partitions(name: str) -> Any:
    return partitions.DescribeTopicPartitionsRequest((partitions.DescribeTopicPartitionsTopicRequest(name),))


def configure(name: str) -> Any:
    setting = configs.IncrementalAlterableConfig("max.message.bytes", SET, "150")
    resource = configs.IncrementalAlterConfigsResource(TOPIC, name, (setting,))
    return configs.IncrementalAlterConfigsRequest((resource,))


def replace_configs(name: str) -> Any:
    setting = configs.AlterableConfig("max.message.bytes", "150")
    return configs.AlterConfigsRequest((configs.AlterConfigsResource(TOPIC, name, (setting,)),))


def describe_configs(name: str) -> Any:
    return configs.DescribeConfigsRequest((configs.DescribeConfigsResource(TOPIC, name, ("max.message.bytes",)),))


def list_resources(name: str) -> Any:
    return configs.ListConfigResourcesRequest((TOPIC,))


def write(name: str, acks: int = -1, **batch: Any) -> Any:
    records = build_batch([(None, b"v" * 100, NOW_MS, ())], **batch)
    data = (produce.TopicProduceData(name=name, partition_data=(produce.PartitionProduceData(0, records),)),)
    return produce.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data)


def write_acks_1(name: str) -> Any:
    return write(name, acks=1)


def write_acks_0(name: str) -> Any:
    return write(name, acks=0)


def write_idempotent(name: str) -> Any:
    return write(name, producer_id=7_000, producer_epoch=0, base_sequence=0)


def end_offset(name: str) -> Any:
    partition = list_offsets.ListOffsetsPartition(timestamp=-1)
    return list_offsets.ListOffsetsRequest(-1, topics=(list_offsets.ListOffsetsTopic(name, (partition,)),))


def first_offset(name: str) -> Any:
    partition = list_offsets.ListOffsetsPartition(timestamp=-2)
    return list_offsets.ListOffsetsRequest(-1, topics=(list_offsets.ListOffsetsTopic(name, (partition,)),))


def read(name: str) -> Any:
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    named = (fetch.FetchTopic(topic=name, partitions=(partition,)),)
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=named)


def delete_all_records(name: str) -> Any:
    topic = delete_records.DeleteRecordsTopic(name, (delete_records.DeleteRecordsPartition(0, -1),))
    return delete_records.DeleteRecordsRequest((topic,), 10_000)


def epoch_end(name: str) -> Any:
    topic = leader_epochs.OffsetForLeaderTopic(name, (leader_epochs.OffsetForLeaderPartition(0, -1, 0),))
    return leader_epochs.OffsetForLeaderEpochRequest(-1, (topic,))


def producers(name: str) -> Any:
    return producer_ids.DescribeProducersRequest((producer_ids.DescribeProducersTopic(name, (0,)),))


def sizes(name: str) -> Any:
    return log_dirs.DescribeLogDirsRequest((log_dirs.DescribableLogDirTopic(name, (0,)),))


def commit(name: str) -> Any:
    row = offsets.OffsetCommitRequestPartition(0, 5, committed_metadata="")
    topic = offsets.OffsetCommitRequestTopic(name, partitions=(row,))
    return offsets.OffsetCommitRequest(group_id=name, member_id="", topics=(topic,))


def positions(name: str) -> Any:
    topic = offsets.OffsetFetchRequestTopics(name=name, partition_indexes=(0,))
    return offsets.OffsetFetchRequest(groups=(offsets.OffsetFetchRequestGroup(group_id=name, topics=(topic,)),))


def delete_position(name: str) -> Any:
    topic = group_admin.OffsetDeleteRequestTopic(name, (group_admin.OffsetDeleteRequestPartition(0),))
    return group_admin.OffsetDeleteRequest(name, (topic,))


def delete_group(name: str) -> Any:
    return group_admin.DeleteGroupsRequest((name,))


def list_groups(name: str) -> Any:
    return groups_classic.ListGroupsRequest()


def describe_group(name: str) -> Any:
    return groups_classic.DescribeGroupsRequest((name,))


def join(name: str) -> Any:
    protocol = (groups_classic.JoinGroupRequestProtocol("range", b""),)
    return groups_classic.JoinGroupRequest(
        group_id=name,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocol,
    )


def set_quota(name: str) -> Any:
    entity = client_quotas.AlterQuotaEntity("client-id", name)
    operation = client_quotas.AlterQuotaOperation("producer_byte_rate", 1e9)
    return client_quotas.AlterClientQuotasRequest((client_quotas.AlterQuotaEntry((entity,), (operation,)),))


def quotas(name: str) -> Any:
    component = client_quotas.QuotaFilterComponent("client-id", 0, name)
    return client_quotas.DescribeClientQuotasRequest((component,), strict=True)


def set_password(name: str) -> Any:
    credential = scram.ScramCredentialUpsertion(name, 1, 4096, b"salt", SASL_PASSWORD)
    return scram.AlterUserScramCredentialsRequest(upsertions=(credential,))


def passwords(name: str) -> Any:
    return scram.DescribeUserScramCredentialsRequest((scram.UserName(name),))


# -- what the answers say


def topic_row(answer: Any) -> tuple[int, int]:
    (topic,) = answer.topics
    return topic.error_code, len(topic.partitions)


def leader(answer: Any) -> int:
    return answer.topics[0].partitions[0].leader_id


def under_way(answer: Any) -> tuple[int, int]:
    return answer.error_code, len(answer.topics)


def setting(answer: Any) -> str | None:
    (result,) = answer.results
    return result.configs[0].value if result.configs else None


def offset(answer: Any) -> int:
    return answer.topics[0].partitions[0].offset


def fetched(answer: Any) -> tuple[int, bool]:
    (row,) = answer.responses[0].partitions
    return row.error_code, bool(row.records)


def group(answer: Any) -> tuple[str, int]:
    return answer.groups[0].group_state, len(answer.groups[0].members)


def written(answer: Any) -> tuple[int, int]:
    (row,) = answer.responses[0].partition_responses
    return row.error_code, row.base_offset


def low_watermark(answer: Any) -> int:
    return answer.topics[0].partitions[0].low_watermark


def epoch_end_offset(answer: Any) -> int:
    return answer.topics[0].partitions[0].end_offset


def has_size(answer: Any) -> bool:
    return answer.results[0].topics[0].partitions[0].partition_size > 0


def producer_seen(answer: Any) -> int:
    (producer,) = answer.topics[0].partitions[0].active_producers
    return producer.producer_id


def committed(answer: Any) -> int:
    return answer.groups[0].topics[0].partitions[0].committed_offset


def quota_values(answer: Any) -> list[float]:
    return [row.values[0].value for row in answer.entries]


def code_of_topic(answer: Any) -> int:
    return answer.topics[0].error_code


def code_of_result(answer: Any) -> int:
    return answer.results[0].error_code


def code_of_response(answer: Any) -> int:
    return answer.responses[0].error_code


def names(answer: Any) -> list[str]:
    return [resource.resource_name for resource in answer.config_resources]


def group_names(answer: Any) -> list[str]:
    return [row.group_id for row in answer.groups]


class Pair(NamedTuple):
    """What is there before, the change, the question, and what its answer has to say."""

    before: tuple[Callable[[str], Any], ...]
    change: Callable[[str], Any]
    question: Callable[[str], Any]
    said: Callable[[Any], Any]
    expected: Any


class Has(str):
    """Equal to every list that holds the name of the test."""


class Lacks(str):
    """Equal to every list that does not."""


PAIRS = (
    Pair((), create, describe, topic_row, (0, 1)),
    Pair((), create, describe_partitions, topic_row, (0, 1)),
    Pair((), create, describe_configs, setting, "1048588"),
    Pair((), create, list_resources, names, Has()),
    Pair((), create, end_offset, offset, 0),
    Pair((), create, write, written, (0, 0)),
    Pair((), create, grow, code_of_result, 0),
    Pair((), create, configure, code_of_response, 0),
    Pair((), create, delete, code_of_response, 0),
    Pair((create,), delete, describe, topic_row, (3, 0)),
    Pair((create,), delete, describe_partitions, topic_row, (3, 0)),
    Pair((create,), delete, list_resources, names, Lacks()),
    Pair((create,), delete, create, code_of_topic, 0),
    Pair((create,), delete, write, written, (3, -1)),
    Pair((create,), grow, describe, topic_row, (0, 3)),
    Pair((create,), grow, describe_partitions, topic_row, (0, 3)),
    Pair((create,), configure, describe_configs, setting, "150"),
    Pair((create,), configure, write, written, (10, -1)),
    Pair((create,), replace_configs, describe_configs, setting, "150"),
    Pair((create,), elect, describe, leader, NODE),
    Pair((create,), reassign, reassignments, under_way, (0, 0)),
    Pair((create,), reassign, describe, leader, NODE),
    *(
        pair
        for acknowledged in (write_acks_0, write_acks_1)
        for pair in (
            Pair((create,), acknowledged, end_offset, offset, 1),
            Pair((create,), acknowledged, read, fetched, (0, True)),
            Pair((create,), acknowledged, write, written, (0, 1)),
        )
    ),
    *(
        pair
        for made in (create, create_flushing)
        for pair in (
            Pair((made,), write, end_offset, offset, 1),
            Pair((made,), write, read, fetched, (0, True)),
            Pair((made,), write, delete_all_records, low_watermark, 1),
            Pair((made,), write, epoch_end, epoch_end_offset, 1),
            Pair((made,), write, write, written, (0, 1)),
            Pair((made,), write_idempotent, producers, producer_seen, 7_000),
            Pair((made,), write, sizes, has_size, True),
            Pair((made, write), delete_all_records, first_offset, offset, 1),
            Pair((made, write), delete_all_records, read, fetched, (1, False)),
        )
    ),
    Pair((create,), commit, positions, committed, 5),
    Pair((create,), commit, list_groups, group_names, Has()),
    Pair((create,), commit, describe_group, group, ("Empty", 0)),
    Pair((create, commit), delete_position, positions, committed, -1),
    Pair((create, commit), delete_group, list_groups, group_names, Lacks()),
    Pair((create, commit), delete_group, describe_group, group, ("Dead", 0)),
    Pair((create, commit), delete_group, positions, committed, -1),
    Pair((create, commit), delete, positions, committed, -1),
    Pair((), join, describe_group, group, ("CompletingRebalance", 1)),
    Pair((), set_quota, quotas, quota_values, [1e9]),
    Pair((), set_password, passwords, code_of_result, 0),
)


def is_said(said: Any, expected: Any, name: str) -> bool:
    if isinstance(expected, Has):
        return name in said
    return name not in said if isinstance(expected, Lacks) else said == expected


def ask(connection: RawConnection, request: Any) -> Any:
    return connection.ask(request, VERSIONS[type(request)])


def title(pair: Pair) -> str:
    before = "".join(f"{one.__name__}-" for one in pair.before)
    return f"{before}{pair.change.__name__}-then-{pair.question.__name__}"


@pytest.fixture
def connection(bootstrap_servers: str) -> Any:
    with RawConnection(bootstrap_servers) as opened:
        yield opened


@pytest.mark.parametrize("pair", PAIRS, ids=title)
def test_the_second_of_two_requests_sees_the_first(
    connection: RawConnection, new_name: Callable[[str], str], pair: Pair, request: pytest.FixtureRequest
) -> None:
    name = new_name("order")
    ask(connection, coordinators.FindCoordinatorRequest(coordinator_keys=(name,)))
    for prepare in pair.before:
        ask(connection, prepare(name))
    change, question = pair.change(name), pair.question(name)
    said = pair.said(ask_together(connection, change, question))
    if request.config.getoption("--against") != "moldau":
        for _ in range(MAX_QUESTIONS):
            if is_said(said, pair.expected, name):
                break
            said = pair.said(ask(connection, question))
    assert is_said(said, pair.expected, name), said


def ask_together(connection: RawConnection, change: Any, question: Any) -> Any:
    """Sends both in one segment; gives the answer of the second."""
    together = ((change, 1_001), (question, 1_002))
    versions = [VERSIONS[type(message)] for message, _ in together]
    connection.send(
        b"".join(
            frame(request_bytes(message, version, correlation_id=number))
            for (message, number), version in zip(together, versions, strict=True)
        )
    )
    if getattr(change, "acks", None) != 0:
        connection.finish(change, versions[0], 1_001)
    return connection.finish(question, versions[1], 1_002)


def test_a_question_behind_a_sync_group_sees_a_stable_group(
    connection: RawConnection, new_name: Callable[[str], str]
) -> None:
    name = new_name("order")
    ask(connection, coordinators.FindCoordinatorRequest(coordinator_keys=(name,)))
    joined = ask(connection, join(name))
    own = groups_classic.SyncGroupRequestAssignment(joined.member_id, b"all")
    sync = groups_classic.SyncGroupRequest(name, joined.generation_id, joined.member_id, assignments=(own,))
    assert group(ask_together(connection, sync, describe_group(name))) == ("Stable", 1)
    leave = groups_classic.LeaveGroupRequest(group_id=name, members=(groups_classic.MemberIdentity(joined.member_id),))
    assert group(ask_together(connection, leave, describe_group(name))) == ("Empty", 0)
