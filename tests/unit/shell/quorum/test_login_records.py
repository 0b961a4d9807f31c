"""Records of features that are not served: kept through snapshots, or the start fails with their place."""

from __future__ import annotations

import asyncio

import pytest

from moldau.core.metadata.batches import encode_record
from moldau.core.metadata.features import RecordVersions
from moldau.core.metadata.fold import MetadataRecord
from moldau.shell.quorum.metadata_log import load_snapshot
from moldau.shell.quorum.quorum_state import QUORUM_STATE, QuorumError
from moldau.types import Uuid
from moldau.wire.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    RemoveAccessControlEntryRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from moldau.wire.protocol.messages.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from moldau.wire.protocol.record_codec import encode_metadata_record
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from tests.support.quorum import METADATA_LOG, GatedWorkers, Node, codes, create, grow, stop, turn

pytestmark = pytest.mark.asyncio


def append_to_log(node: Node, records: list[MetadataRecord], frames: tuple[bytes, ...] = ()) -> int:
    """Like another controller of the same directory: one batch after the log end. Gives its first offset."""
    data = node.disk.read_file(METADATA_LOG)
    *_, (_, last) = iterate_batches(data)
    versions = RecordVersions.for_levels({"metadata.version": 30})
    values = [*(encode_record(record, versions) for record in records), *frames]
    rows = [(None, value, node.clock.now_ms(), ()) for value in values]
    batch = build_batch(rows, base_offset=last.next_offset, leader_epoch=last.partition_leader_epoch)
    node.disk.open(METADATA_LOG).append(batch)
    return last.next_offset


KEPT: list[MetadataRecord] = [
    AccessControlEntryRecord(Uuid(b"\x03" * 16), 2, "orders", 3, "User:ann", "*", 3, 2),
    AccessControlEntryRecord(Uuid(b"\x04" * 16), 2, "orders", 3, "User:ben", "*", 3, 3),
    UserScramCredentialRecord("ann", 2, b"salt", b"stored", b"server", 4096),
    DelegationTokenRecord("User:ann", "User:ben", ("User:cy",), 1, 2, 3, "token"),
]


async def test_what_is_not_served_goes_through_snapshots_unchanged() -> None:
    node = Node(metadata_log_max_record_bytes_between_snapshots="500")
    await stop(await node.start_with_broker())
    append_to_log(node, [*KEPT, RemoveAccessControlEntryRecord(Uuid(b"\x04" * 16))])
    in_force = (KEPT[0], KEPT[2], KEPT[3])
    for prefix in ("first", "second"):
        role = await node.start_with_broker()
        assert len(role.image.acls) == 1
        assert len(role.image.logins.delegation_tokens()) == 1
        await grow(role, prefix, 8)
        await stop(role)
        records = load_snapshot(node.disk).snapshot.records
        assert tuple(record for record in records if type(record) in {type(kept) for kept in KEPT}) == in_force


def set_credential(name: str) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest((), (ScramCredentialUpsertion(name, 2, 4096, b"salt", b"password"),))


def names_in(records: tuple[MetadataRecord, ...]) -> list[str]:
    return [record.name for record in records if isinstance(record, UserScramCredentialRecord)]


async def test_a_credential_is_shown_and_goes_into_a_snapshot_only_when_it_is_committed() -> None:
    node = Node(metadata_log_max_record_bytes_between_snapshots="500")
    workers = GatedWorkers()
    workers.gate.set()
    role = await node.start_with_broker(workers)
    await role.submit(set_credential("ann"))
    for _ in range(20):
        await turn()  # the start writes a snapshot
    workers.gate.clear()
    topics = asyncio.ensure_future(codes(role, create("a", "b", partitions=20)))
    for _ in range(3):
        await turn()  # the flush of the topics has begun, without the later records
    late = asyncio.ensure_future(role.submit(set_credential("ben")))
    await turn()
    workers.gate.set()
    workers.gate.clear()
    assert await topics == [0, 0]
    assert names_in(role.image.logins.values()) == ["ann"]
    workers.gate.set()
    await late
    assert names_in(role.image.logins.values()) == ["ann", "ben"]
    await stop(role)
    records = load_snapshot(node.disk).snapshot.records
    assert "b" in [record.name for record in records if isinstance(record, TopicRecord)]
    assert names_in(records) == ["ann"]


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b"\x01\x63\x00\x00", "unknown kind 99"),
        (
            encode_metadata_record(FeatureLevelRecord("metadata.version", 34), 0),
            "metadata.version is 4.5-IV0, but Moldau supports 4.0-IV3 to 4.4-IV2",
        ),
        (encode_metadata_record(FeatureLevelRecord("transaction.version", 3), 0), "transaction.version is 3"),
        (encode_metadata_record(FeatureLevelRecord("later.version", 1), 0), "later.version is 1"),
    ],
)
async def test_a_record_of_a_later_kafka_refuses_the_start_and_nothing_is_written(frame: bytes, said: str) -> None:
    node = Node()
    await stop(await node.start())
    offset = append_to_log(node, [], (frame,))
    before = node.disk.read_file(METADATA_LOG), node.disk.read_file(QUORUM_STATE)
    with pytest.raises(QuorumError, match=rf"__cluster_metadata-0.* offset {offset}:.*Record.*{said}"):
        await node.start()
    assert (node.disk.read_file(METADATA_LOG), node.disk.read_file(QUORUM_STATE)) == before


async def test_a_level_that_was_taken_back_refuses_nothing() -> None:
    node = Node()
    await stop(await node.start())
    append_to_log(node, [FeatureLevelRecord("transaction.version", level) for level in (3, 2)])
    await stop(await node.start())
