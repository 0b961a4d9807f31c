"""Every served message in every version: the same bytes as kio and kafka-python, and decoded again."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.errors import OutOfBoundValue

from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.messages import raft_records
from tests.unit.wire.protocol.oracles import (
    kafka_python_bytes,
    kio_bytes,
    kio_read,
    to_kio,
)
from tests.unit.wire.protocol.samples import (
    ALL_MESSAGES,
    API_MESSAGES,
    NODE_MESSAGES,
    MessageClass,
    generated,
    messages,
    sample_id,
)

KIO_RECORDS = [
    (raft_records.LeaderChangeMessage, 0),
    (raft_records.LeaderChangeMessage, 1),
    (raft_records.SnapshotHeaderRecord, 0),
    (raft_records.SnapshotFooterRecord, 0),
    (raft_records.KRaftVersionRecord, 0),
    (raft_records.VotersRecord, 0),
]

NEWER_THAN_KIO = {"ApiVersions": 5, "DeleteGroups": 3, "TxnOffsetCommit": 6, "UnregisterController": 0}
"""The first version of an API that the oracles lack: test_messages_of_kafka_4_4.py has Kafka's own bytes."""

KNOWN_TO_KIO = [
    (cls, version)
    for cls, version in API_MESSAGES
    if version < NEWER_THAN_KIO.get(cls.__name__.removesuffix("Request").removesuffix("Response"), version + 1)
]

few = generated(12)


NOT_IN_KAFKA_PYTHON = (
    *("UnregisterBroker", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "AddRaft", "RemoveRaft"),
    *("CreateDelegation", "RenewDelegation", "ExpireDelegation", "DescribeDelegation"),
)
"""kafka-python 3.0 lacks these: only kio is asked."""


@pytest.mark.parametrize(("cls", "version"), KNOWN_TO_KIO, ids=sample_id)
def test_the_bytes_are_those_of_kio_in_both_directions_and_those_of_kafka_python(cls: MessageClass, version: int):
    @few
    @given(messages(cls, version))
    def agree(message):
        body = encode_message(message, version)
        _agree_with_kio(message, version, body)
        if not cls.__name__.startswith(NOT_IN_KAFKA_PYTHON):
            assert body == kafka_python_bytes(message, version)

    agree()


@pytest.mark.parametrize(("cls", "version"), KIO_RECORDS + NODE_MESSAGES, ids=sample_id)
def test_the_bytes_of_control_records_and_of_what_nodes_say_are_those_of_kio(cls: MessageClass, version: int):
    @few
    @given(messages(cls, version))
    def agree(message):
        _agree_with_kio(message, version, encode_message(message, version))

    agree()


def _agree_with_kio(message: msgspec.Struct, version: int, body: bytes) -> None:
    theirs = to_kio(message, version)
    assert body == kio_bytes(theirs)
    with contextlib.suppress(OutOfBoundValue):  # kio rejects -1 (none) for the begin of a transaction
        assert kio_read(type(theirs), body) == (theirs, len(body))
    assert decode_message(type(message), version, body) == (message, len(body))


@pytest.mark.parametrize(("cls", "version"), ALL_MESSAGES, ids=sample_id)
def test_what_was_encoded_is_decoded_from_any_buffer_and_position(cls: MessageClass, version: int):
    @generated(5)  # the oracles' messages are encoded and decoded, too
    @given(messages(cls, version), st.binary(max_size=3), st.binary(max_size=3))
    def round_trip(message, before, after):
        body = encode_message(message, version)
        end = len(before) + len(body)
        for make in (bytes, bytearray, memoryview):
            assert decode_message(cls, version, make(before + body + after), len(before)) == (message, end)

    round_trip()
