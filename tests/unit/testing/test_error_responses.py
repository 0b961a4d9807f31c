"""The error response for each served API and version: well-formed, with the code inside."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from moldau.errors import ERROR_CODES
from moldau.testing.error_responses import error_response, has_error_code, names_of, with_errors
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker, MetadataResponseTopic
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.schema import Array, FieldType, Nested, Text, fields_of

CODE = ERROR_CODES["COORDINATOR_LOAD_IN_PROGRESS"]
SERVED = [
    (key, version) for key, row in API_VERSIONS.items() for version in range(row.min_version, row.max_version + 1)
]


def example(struct: type[msgspec.Struct], version: int) -> msgspec.Struct:
    """A request with two elements in each array."""

    def value(field_type: FieldType, number: int) -> object:
        if isinstance(field_type, Nested):
            return example(field_type.struct, version)
        return f"name-{number}" if isinstance(field_type, Text) else number

    values: dict[str, object] = {}
    for field in fields_of(struct):
        if not field.is_present(version):
            continue
        if isinstance(field.type, Array):
            values[field.name] = (value(field.type.element, 0), value(field.type.element, 1))
        elif isinstance(field.type, Text):
            values[field.name] = f"a {field.name}"
    return struct(**values)


def codes(value: object, version: int) -> Iterator[int]:
    if isinstance(value, msgspec.Struct):
        for field in fields_of(type(value)):
            if field.name in ("error_code", "partition_error_code") and field.is_present(version):
                yield getattr(value, field.name)
            else:
                yield from codes(getattr(value, field.name), version)
    elif isinstance(value, tuple):
        for element in value:
            yield from codes(element, version)


@pytest.mark.parametrize(("key", "version"), SERVED, ids=[f"{key.name}-{version}" for key, version in SERVED])
def test_every_answer_is_well_formed_and_says_so(key: ApiKey, version: int) -> None:
    row = API_VERSIONS[key]
    assert has_error_code(key)
    request = example(row.request, version)
    encode_message(request, version)
    response = error_response(key, version, request, "COORDINATOR_LOAD_IN_PROGRESS")
    decoded, end = decode_message(row.response, version, data := encode_message(response, version))
    assert end == len(data)
    found = list(codes(decoded, version))
    assert CODE in found
    assert set(found) <= {CODE} if key not in (ApiKey.FETCH, ApiKey.METADATA) else set(found) <= {0, CODE}


def test_all_that_was_asked_about_is_answered() -> None:
    topics = tuple(
        OffsetCommitRequestTopic(
            name=name, partitions=tuple(OffsetCommitRequestPartition(partition_index=index) for index in (3, 5))
        )
        for name in ("a", "b")
    )
    response = error_response(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(topics=topics), "NOT_COORDINATOR")
    assert [
        (topic.name, [(one.partition_index, one.error_code) for one in topic.partitions]) for topic in response.topics
    ] == [
        ("a", [(3, 16), (5, 16)]),
        ("b", [(3, 16), (5, 16)]),
    ]


def test_an_error_of_a_group_stands_for_all_below_it() -> None:
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0, 1)),)
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=topics),))
    response = error_response(ApiKey.OFFSET_FETCH, 9, asked, "NOT_COORDINATOR")
    assert [(group.group_id, group.error_code, group.topics) for group in response.groups] == [("g", 16, ())]


def test_produce_names_its_partitions_by_other_words() -> None:
    partition = PartitionProduceData(index=4, records=b"")
    request = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="t", partition_data=(partition,)),))
    response = error_response(ApiKey.PRODUCE, 9, request, "NOT_LEADER_OR_FOLLOWER")
    (topic,) = response.responses
    (answer,) = topic.partition_responses
    assert (topic.name, answer.index, answer.error_code, answer.base_offset) == ("t", 4, 6, -1)


def test_the_top_of_a_fetch_is_for_sessions_only() -> None:
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=(FetchPartition(partition=2),)),))
    response = error_response(ApiKey.FETCH, 12, request, "NOT_LEADER_OR_FOLLOWER")
    assert response.error_code == 0
    (partition,) = response.responses[0].partitions
    assert (partition.partition_index, partition.error_code, partition.high_watermark) == (2, 6, -1)
    response = error_response(ApiKey.FETCH, 12, request, "FETCH_SESSION_ID_NOT_FOUND")
    assert (response.error_code, response.responses) == (70, ())


def test_metadata_keeps_its_brokers() -> None:
    answer = MetadataResponse(
        brokers=(MetadataResponseBroker(node_id=1, host="h", port=9092),), topics=(MetadataResponseTopic(name="t"),)
    )
    response = with_errors(ApiKey.METADATA, 12, answer, "LEADER_NOT_AVAILABLE")
    assert response.brokers == answer.brokers
    assert [topic.error_code for topic in response.topics] == [5]


def test_names_are_found_wherever_they_stand() -> None:
    for key, version in SERVED:
        topics, group = names_of(example(API_VERSIONS[key].request, version))
        if key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.CREATE_TOPICS) and version < 10:
            assert topics, (key, version)
        if key in (ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT, ApiKey.OFFSET_FETCH):
            assert group, (key, version)
