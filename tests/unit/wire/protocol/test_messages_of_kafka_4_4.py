"""Messages of Apache Kafka 4.4 that the other oracles do not know yet. The bytes are from its own classes."""

from __future__ import annotations

import msgspec
import pytest

from moldau.types import Uuid
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.protocol.messages.cluster import UnregisterControllerRequest, UnregisterControllerResponse
from moldau.wire.protocol.messages.group_admin import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from moldau.wire.protocol.messages.metadata_records import UnregisterControllerRecord
from moldau.wire.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_TOPIC_ID = Uuid(b"\x01" * 16)
_COMMITTED = TxnOffsetCommitRequestTopic(
    topic_id=_TOPIC_ID, partitions=(TxnOffsetCommitRequestPartition(4, 5, 6, "x"),)
)
_ANSWERED = TxnOffsetCommitResponseTopic(topic_id=_TOPIC_ID, partitions=(TxnOffsetCommitResponsePartition(4, 100),))

SAID_BY_KAFKA = [
    (ApiVersionsRequest("a", "1", "c", 7), 5, "0261023102630000000700"),
    (ApiVersionsRequest("a", "1"), 5, "0261023100ffffffff00"),
    (ApiVersionsResponse(error_code=129), 5, "0081010000000000"),
    (DeleteGroupsRequest(("g",)), 3, "02026700"),
    (DeleteGroupsResponse(1, (DeletableGroupResult("g", 134, "why"),)), 3, "000000010202670086047768790000"),
    (
        TxnOffsetCommitRequest("t", "g", 1, 2, 3, "m", None, (_COMMITTED,)),
        6,
        "027402670000000000000001000200000003026d0002010101010101010101010101010101010200000004000000000000000500000006"
        "0278000000",
    ),
    (
        TxnOffsetCommitResponse(1, (_ANSWERED,)),
        6,
        "00000001020101010101010101010101010101010102000000040064000000",
    ),
    (UnregisterControllerRequest(7), 0, "0000000700"),
    (UnregisterControllerResponse(1, 136, "why"), 0, "0000000100880477687900"),
    (UnregisterControllerRecord(7), 0, "0000000700"),
]


@pytest.mark.parametrize(("message", "version", "said"), SAID_BY_KAFKA)
def test_the_bytes_are_those_of_apache_kafka_4_4(message: msgspec.Struct, version: int, said: str) -> None:
    body = bytes.fromhex(said)
    assert encode_message(message, version) == body
    assert decode_message(type(message), version, body) == (message, len(body))
