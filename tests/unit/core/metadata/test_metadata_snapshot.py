"""Snapshot files and metadata batches: written data is read back, and broken bytes are recognized."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.core.metadata.batches import build_metadata_batch, decode_record, encode_record
from moldau.core.metadata.features import FORMATTED_LEVELS, RecordVersions, served_features
from moldau.core.metadata.fold import MetadataFold, MetadataRecord, UnknownRecord
from moldau.core.metadata.image import ResourceType
from moldau.core.metadata.image_records import image_records
from moldau.core.metadata.random_uuid import random_uuid
from moldau.core.metadata.snapshot import (
    MAX_RECORDS_PER_BATCH,
    QuorumControl,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    parse_snapshot_file_name,
    snapshot_file_name,
)
from moldau.errors import ProtocolError
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import Offset, Uuid, uuid_to_text, whole
from moldau.wire.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    DelegationTokenRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from moldau.wire.protocol.messages.raft_records import VotersRecord, VotersRecordVoter
from moldau.wire.records.batch import iterate_batches

LEVELS = dict(FORMATTED_LEVELS)
VERSIONS = RecordVersions.for_levels(LEVELS)
VOTERS = VotersRecord(voters=(VotersRecordVoter(1, Uuid(b"\x07" * 16)),))


def test_a_snapshot_is_read_back() -> None:
    records = (FeatureLevelRecord("metadata.version", 30), TopicRecord("a", Uuid(b"\x01" * 16)))
    snapshot = Snapshot(records, QuorumControl(1, VOTERS), 1234)
    assert decode_snapshot(encode_snapshot(snapshot, LEVELS, now_ms=5)) == snapshot


def test_many_records_stand_in_several_batches_with_rising_offsets() -> None:
    records = (NoOpRecord(),) * (MAX_RECORDS_PER_BATCH + 1)
    data = encode_snapshot(Snapshot(records, QuorumControl(), 0), LEVELS, now_ms=5)
    headers = [header for _, header in iterate_batches(data)]
    assert [header.record_count for header in headers] == [1, MAX_RECORDS_PER_BATCH, 1, 1]
    assert [header.base_offset for header in headers] == [0, 1, 10_001, 10_002]
    assert decode_snapshot(data).records == records


@given(st.data())
def test_a_cut_or_damaged_snapshot_is_refused(data: st.DataObject) -> None:
    whole = encode_snapshot(Snapshot((NoOpRecord(),), QuorumControl(1, VOTERS), 9), LEVELS, now_ms=5)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ProtocolError):
        decode_snapshot(whole[:cut])
    place = data.draw(st.integers(21, 80))
    damaged = bytearray(whole)
    damaged[place] ^= 0xFF
    with pytest.raises(ProtocolError):
        decode_snapshot(damaged)


def test_snapshot_files_are_named_by_end_offset_and_epoch() -> None:
    name = "00000000000000000074-0000000002.checkpoint"
    assert snapshot_file_name(Offset(74), 2) == name
    assert parse_snapshot_file_name(name) == (74, 2)
    for other in (name + ".part", name + ".deleted", "bootstrap.checkpoint", name[1:], "quorum-state"):
        assert parse_snapshot_file_name(other) is None


@pytest.mark.parametrize(
    ("record", "version"),
    [
        (PartitionRecord(), 2),
        (RegisterBrokerRecord(), 4),
        (BrokerRegistrationChangeRecord(fenced=1), 0),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 1),
        (BrokerRegistrationChangeRecord(log_dirs=(Uuid(bytes(16)),)), 2),
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=()), 3),
        (TopicRecord(), 0),
    ],
)
def test_records_are_written_in_the_versions_that_kafka_writes(record: MetadataRecord, version: int) -> None:
    assert encode_record(record, VERSIONS)[2] == version
    assert decode_record(encode_record(record, VERSIONS)) == record


def test_lower_levels_write_lower_versions() -> None:
    assert RecordVersions.for_levels({"metadata.version": 25}) == RecordVersions(3, 1, 1, False)


def test_a_record_of_a_later_kafka_is_told_by_what_cannot_be_read() -> None:
    assert decode_record(b"\x01\x63\x00\x00") == UnknownRecord("metadata record of unknown kind 99")
    with pytest.raises(ProtocolError):
        decode_record(None)


def test_a_batch_holds_the_records_in_order() -> None:
    records = [NoOpRecord(), TopicRecord("a")]
    batch = whole(build_metadata_batch(records, LEVELS, now_ms=7, leader_epoch=3, base_offset=40))
    [(_, header)] = iterate_batches(batch)
    assert (header.base_offset, header.record_count, header.partition_leader_epoch, header.is_control) == (
        40,
        2,
        3,
        False,
    )


def test_clients_are_shown_only_the_features_that_are_served() -> None:
    assert served_features({**LEVELS, "kraft.version": 1}) == {
        "eligible.leader.replicas.version": 1,
        "kraft.version": 1,
        "metadata.version": 30,
        "transaction.version": 2,
    }
    assert served_features({"metadata.version": 30, "kraft.version": 0}) == {"metadata.version": 30}


def test_random_uuids_are_version_4_and_never_look_like_a_flag() -> None:
    random = SeededRandom(1)
    uuids = [random_uuid(random) for _ in range(500)]
    assert all(uuid[6] >> 4 == 4 and uuid[8] >> 6 == 2 for uuid in uuids)
    assert not any(uuid_to_text(uuid).startswith("-") for uuid in uuids)
    assert len(set(uuids)) == 500


def test_an_image_and_the_records_that_make_it_are_the_same() -> None:
    fold = MetadataFold("cluster")
    topic_id = Uuid(b"\x01" * 16)
    records: list[MetadataRecord] = [
        *(FeatureLevelRecord(name, level) for name, level in FORMATTED_LEVELS),
        RegisterBrokerRecord(
            broker_id=2,
            broker_epoch=4,
            end_points=(BrokerEndpoint("PLAINTEXT", "h", 9, 0),),
            features=(BrokerFeature("metadata.version", 7, 30),),
            rack="r",
            log_dirs=(topic_id,),
        ),
        BrokerRegistrationChangeRecord(2, 4, fenced=-1, cordoned_log_dirs=()),
        RegisterControllerRecord(
            1, topic_id, False, (ControllerEndpoint("C", "h", 1),), (ControllerFeature("f", 0, 1),)
        ),
        TopicRecord("b", topic_id),
        PartitionRecord(1, topic_id, (2, 3), (2,), (3,), (4,), 2, 1, 5, 6, (topic_id, topic_id), (3,), (4,)),
        PartitionRecord(0, topic_id, (2, 3), (2,), (), (), 2, 0, 5, 6, (topic_id, topic_id)),
        TopicRecord("a", Uuid(b"\x02" * 16)),
        ConfigRecord(ResourceType.TOPIC, "b", "y", "1"),
        ConfigRecord(ResourceType.TOPIC, "b", "x", "2"),
        ConfigRecord(ResourceType.BROKER, "", "min.insync.replicas", "1"),
        ProducerIdsRecord(2, 4, 5000),
        AccessControlEntryRecord(topic_id, 2, "acl", 3, "User:ann", "*", 3, 3),
        AccessControlEntryRecord(Uuid(b"\x03" * 16)),
        UserScramCredentialRecord("ann", 2, b"salt", b"stored", b"server", 4096),
        DelegationTokenRecord("User:ann", "User:ben", ("User:cy",), 1, 2, 3, "token"),
        RemoveAccessControlEntryRecord(Uuid(b"\x03" * 16)),
    ]
    for record in records:
        fold.apply(record)
    again = MetadataFold("cluster")
    written = list(image_records(fold.image))
    for record in written:
        again.apply(record)
    assert vars(again.image) == vars(fold.image)
    assert len(again.image.logins.delegation_tokens()) == 1
    assert list(again.image.logins.values()) == list(fold.image.logins.values()) == records[-3:-1]
    assert written[-3:] == records[-5:-4] + records[-3:-1]
    assert list(image_records(again.image)) == written
    assert written[0] == FeatureLevelRecord("metadata.version", 30)


def test_a_copied_image_does_not_move_with_the_first() -> None:
    fold = MetadataFold("cluster")
    fold.apply(TopicRecord("a", Uuid(b"\x01" * 16)))
    copy = fold.image.copy()
    assert vars(copy) == vars(fold.image)
    fold.apply(RemoveTopicRecord(Uuid(b"\x01" * 16)))
    assert list(copy.topics_by_name) == ["a"]
