"""Records of Kafka's internal topics. The bytes are from logs of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from moldau.errors import InvariantError, ProtocolError
from moldau.types import uuid_from_text, uuid_to_text
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from moldau.wire.protocol.messages.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from moldau.wire.protocol.messages.raft_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from moldau.wire.protocol.record_codec import (
    GROUP_KEYS,
    METADATA_RECORDS,
    decode_group_key,
    decode_metadata_record,
    decode_record_value,
    encode_group_key,
    encode_metadata_record,
    encode_record_value,
)

WRITTEN_BY_KAFKA = {
    "BeginTransactionRecord": "01170001001212426f6f747374726170207265636f726473",
    "FeatureLevelRecord": "010c00116d657461646174612e76657273696f6e001e00",
    "ConfigRecord": "0104000401146d696e2e696e73796e632e7265706c69636173023100",
    "EndTransactionRecord": "01180000",
    "RegisterControllerRecord": (
        "011b0000000001ecf6e19af5cb43ab80b4c2a7e9d2809e00020b434f4e54524f4c4c45520a3132372e302e302e319f0700000008"
        "0e67726f75702e76657273696f6e00000001000e6b726166742e76657273696f6e0000000100116d657461646174612e76657273"
        "696f6e0007001e000e73686172652e76657273696f6e00000001001073747265616d732e76657273696f6e000000010014747261"
        "6e73616374696f6e2e76657273696f6e000000020021656c696769626c652e6c65616465722e7265706c696361732e7665727369"
        "6f6e000000010000"
    ),
    "RegisterBrokerRecord": (
        "0100040000000100715e6aad88084057871e7b56ca7845ba000000000000000d020a504c41494e544558540a3132372e302e302e"
        "319f0600000008147472616e73616374696f6e2e76657273696f6e000000020021656c696769626c652e6c65616465722e726570"
        "6c696361732e76657273696f6e0000000100116d657461646174612e76657273696f6e0007001e000e73686172652e7665727369"
        "6f6e00000001000e6b726166742e76657273696f6e00000001000e67726f75702e76657273696f6e00000001001073747265616d"
        "732e76657273696f6e00000001000001000100110218c0bada65bb4588ae1b3ca8c78d69bc"
    ),
    "BrokerRegistrationChangeRecord": "01110100000001000000000000000d01010101",
    "NoOpRecord": "01140000",
    "TopicRecord": "010200037431a72097ddb83d442291349331e2e926f600",
    "PartitionRecord": (
        "01030200000000a72097ddb83d442291349331e2e926f60200000001020000000101010000000100000000000000000218c0bada"
        "65bb4588ae1b3ca8c78d69bc00"
    ),
    "ProducerIdsRecord": "010f0000000001000000000000000d00000000000003e800",
    "PartitionChangeRecord": (
        "01050200000000824dca075c3c4b6abb7ab03ccef52cb5040001010104ffffffff0605020000000107050200000001"
    ),
    "ClearElrRecord": "011c00036d6900",
    "RemoveTopicRecord": "0109001f13bdf274504746b2ee153e507d6cff00",
}


@pytest.mark.parametrize("name", WRITTEN_BY_KAFKA)
def test_a_metadata_record_of_kafka_is_read_and_written_back_as_it_was(name):
    written = bytes.fromhex(WRITTEN_BY_KAFKA[name])
    for buffer in (written, bytearray(written), memoryview(written)):
        record, version = decode_metadata_record(buffer)
        assert type(record).__name__ == name
        assert encode_metadata_record(record, version) == written


def read(name: str) -> object:
    return decode_metadata_record(bytes.fromhex(WRITTEN_BY_KAFKA[name]))[0]


def test_the_fields_of_kafkas_records_are_where_they_belong():
    assert read("FeatureLevelRecord") == FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert read("ConfigRecord") == ConfigRecord(resource_type=4, name="min.insync.replicas", value="1")
    assert read("TopicRecord") == TopicRecord(name="t1", topic_id=uuid_from_text("pyCX3bg9RCKRNJMx4ukm9g"))
    assert read("ProducerIdsRecord") == ProducerIdsRecord(broker_id=1, broker_epoch=13, next_producer_id=1000)
    change = read("PartitionChangeRecord")
    assert isinstance(change, PartitionChangeRecord)
    assert (uuid_to_text(change.topic_id), change.leader, change.isr) == ("gk3KB1w8S2q7erA8zvUstQ", -1, ())
    assert (change.eligible_leader_replicas, change.last_known_elr) == ((1,), (1,))
    assert change.replicas is None


def test_every_kind_of_kafkas_metadata_log_is_known():
    assert sorted(METADATA_RECORDS) == [0, 1, 2, 3, 4, 5, *range(7, 13), 14, 15, *range(17, 30)]


def test_every_kind_of_group_key_is_told_apart():
    assert sorted(GROUP_KEYS) == [*range(9), *range(10, 18), *range(19, 24)]
    for kind, cls in GROUP_KEYS.items():
        written = encode_group_key(cls())
        assert written[:2] == kind.to_bytes(2, "big")
        assert decode_group_key(written) == cls()


@pytest.mark.parametrize(
    ("key", "value", "cls"),
    [
        (
            "0002001867726f75702d31333233362d323038363633313439332d31",
            "0003000000000000ffffffff000001a1fd1e5f7e00000000",
            GroupMetadataValue,
        ),
        (
            "0002001867726f75702d31333233362d323038363633313439332d31",
            (
                "00030008636f6e73756d657200000001000572616e676500386b61666b612d707974686f6e2d332e302e31322d33646633356164"
                "392d333535632d346335322d616365662d356563613833376236636336000001a1fd1e5f870000000100386b61666b612d707974"
                "686f6e2d332e302e31322d33646633356164392d333535632d346335322d616365662d356563613833376236636336ffff00136b"
                "61666b612d707974686f6e2d332e302e3132000a2f3132372e302e302e31000493e000001770000000240000000000010018746f"
                "7069632d31333233362d323038363633313439332d30000000000000000a00000000000000000000"
            ),
            GroupMetadataValue,
        ),
        (
            (
                "0001001867726f75702d31333233362d323038363633313439332d310018746f7069632d31333233362d32303836363331343933"
                "2d3000000000"
            ),
            "00040000000000000000ffffffff01000001a1fd1e609f010010e9e0e91a5ef94037a5bc9d7612f20c91",
            OffsetCommitValue,
        ),
    ],
)
def test_group_records_of_kafka_are_read_and_written_back_as_they_were(key, value, cls):
    found_key = decode_group_key(bytes.fromhex(key))
    assert isinstance(found_key, OffsetCommitKey | GroupMetadataKey)
    assert encode_group_key(found_key) == bytes.fromhex(key)
    found, version = decode_record_value(cls, bytes.fromhex(value))
    assert encode_record_value(found, version) == bytes.fromhex(value)


@pytest.mark.parametrize(
    ("cls", "version", "body"),
    [
        (SnapshotHeaderRecord, 0, "0000000001a1fd1cfd2800"),
        (SnapshotFooterRecord, 0, "000000"),
        (KRaftVersionRecord, 0, "0000000100"),
        (LeaderChangeMessage, 1, None),
        (
            VotersRecord,
            0,
            "0000020000000118c0bada65bb4588ae1b3ca8c78d69bc020b434f4e54524f4c4c45520a3132372e302e302e319f07000000"
            "0001000000",
        ),
    ],
)
def test_control_records_of_kafka_are_read_and_written_back_as_they_were(cls, version, body):
    written = bytes.fromhex(body) if body else encode_message(cls(version=version, leader_id=1), version)
    record, end = decode_message(cls, version, written)
    assert end == len(written)
    assert encode_message(record, version) == written


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\x00\x02\x00\x01",  # frame version 0
        b"\x02\x02\x00\x01",  # frame version 2
        b"\x01\x06\x00\x00",  # a kind that does not exist
        b"\x01\x02\x09\x00",  # a version that does not exist
        bytes.fromhex(WRITTEN_BY_KAFKA["TopicRecord"])[:-1],
        bytes.fromhex(WRITTEN_BY_KAFKA["TopicRecord"]) + b"\x00",
    ],
)
def test_what_is_no_metadata_record_is_a_protocol_error(record):
    with pytest.raises(ProtocolError):
        decode_metadata_record(record)


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x09\x00\x00", b"\xff\xff\x00\x00", b"\x00\x02\x00\x05abc"])
def test_what_is_no_group_key_is_a_protocol_error(key):
    with pytest.raises(ProtocolError):
        decode_group_key(key)


def test_only_records_of_its_own_kind_are_framed():
    with pytest.raises(InvariantError):
        encode_metadata_record(OffsetCommitKey(), 0)
    with pytest.raises(InvariantError):
        encode_group_key(TopicRecord())
