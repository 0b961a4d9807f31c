"""Each format that Moldau stores: a sample, the bytes that are written for it, and what is read from them.

`python -m tests.formats.stored` adds the bytes of new samples to golden.json. It never changes bytes that are there:
data on disks has them. A new version of a format gets a sample of its own, and the reader keeps both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from moldau.core.auditing.lines import CHANGE, Event, Origin, line_of
from moldau.core.groups.records import (
    GroupMetadataRecord,
    GroupRecord,
    OffsetRecord,
    decode_group_record,
    encode_group_record,
)
from moldau.core.log.directories.directory import (
    deleted_directory_name,
    future_directory_name,
    parse_stray_name,
    stray_directory_name,
)
from moldau.core.log.files.checkpoint import (
    CleanShutdown,
    decode_clean_shutdown,
    decode_leader_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_leader_epochs,
    encode_offsets,
    encode_partition_metadata,
)
from moldau.core.log.files.flushed_offset import FlushedOffset
from moldau.core.log.files.offset_index import OffsetIndex
from moldau.core.log.files.time_index import TimeIndex
from moldau.core.log.files.transaction_index import AbortedTransaction, decode_transactions, encode_transactions
from moldau.core.log.producer_state import ProducerEntry, ProducerState
from moldau.core.metadata.snapshot import QuorumControl, Snapshot, decode_snapshot, encode_snapshot, snapshot_file_name
from moldau.core.raft.steps import QuorumState
from moldau.core.transactions.records import decode_transaction_record, encode_transaction_record
from moldau.core.transactions.state import TransactionMetadata, TransactionRecord, TransactionState
from moldau.products.pipelines.core.commit_metadata import (
    BoardPlace,
    CommitMetadata,
    metadata_of,
    pipeline_metadata,
    read_commit_metadata,
)
from moldau.products.pipelines.targets.sql_table import BATCHES, BATCHES_COLUMNS, OWNERS, OWNERS_COLUMNS
from moldau.products.registry.core import records as registry
from moldau.products.sql.catalog.catalog import Function, NamedType, PersistentQuery, QueryState, Relation, View, What
from moldau.products.sql.catalog.deciding import Change, NextNumber, Put, Remove
from moldau.products.sql.catalog.journal import read_change, stored_change
from moldau.products.sql.catalog.storage import Storage
from moldau.products.sql.language.queries import Name
from moldau.products.sql.language.statements import Column, Kind, Role
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.node.storage_format import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from moldau.shell.quorum.quorum_state import read_quorum_state, write_quorum_state
from moldau.spark.source.offsets import StreamOffset, offset_from_dict, offset_to_dict
from moldau.testing.history.events import Send
from moldau.types import BrokerId, Offset, TopicPartition, Uuid
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from moldau.wire.protocol.messages.metadata_records import FeatureLevelRecord, TopicRecord
from moldau.wire.protocol.messages.raft_records import LeaderChangeMessage, VotersRecord
from moldau.wire.protocol.record_codec import METADATA_RECORDS, decode_metadata_record, encode_metadata_record
from moldau.wire.protocol.schema import message_info
from moldau.wire.records import builder
from moldau.wire.records.compression import Compression
from moldau.wire.records.control import ControlType, build_control_batch, decode_control_key
from moldau.wire.records.record import read_records

GOLDEN = Path(__file__).with_name("golden.json")
TOPIC_ID = Uuid(bytes(range(1, 17)))
ORDERS = TopicPartition("orders", 3)
NOW_MS = 1_764_460_800_000
RECORDS: list[builder.RecordTuple] = [
    (b"key", b"value", NOW_MS, (("header", b"x"), ("null", None))),
    (None, None, NOW_MS + 5, ()),
]


class Stored(NamedTuple):
    """`value` is written as `written()`; `read` gives it back. `name`: in docs/reference/stored-formats.md before a
    colon, then the variant."""

    name: str
    value: Any
    written: Callable[[], bytes]
    read: Callable[[bytes], Any]
    is_exact: bool = True
    """False: another version of a library may write other bytes with the same meaning."""


def _text(name: str, text: str) -> Stored:
    """A name or statement that must never change."""
    return Stored(name, text, text.encode, bytes.decode)


def _pair(name: str, record: Any, encode: Callable[[Any], tuple[bytes, bytes | None]], decode: Any) -> Stored:
    """A record of an internal topic: the length of its key, the key, the value."""

    def written() -> bytes:
        key, value = encode(record)
        return len(key).to_bytes(2, "big") + key + (value or b"")

    def read(data: bytes) -> Any:
        end = 2 + int.from_bytes(data[:2], "big")
        return decode(data[2:end], data[end:] or None)

    return Stored(name, record, written, read)


def _on_disk(name: str, value: Any, path: str, write: Callable[[MemoryDisk], None], read: Any) -> Stored:
    """A file whose writer and reader use a disk."""

    def written() -> bytes:
        disk = MemoryDisk()
        write(disk)
        return disk.read_file(path)

    def read_it(data: bytes) -> Any:
        disk = MemoryDisk()
        disk.replace_file(path, data)
        return read(disk)

    return Stored(name, value, written, read_it)


def _record_batches() -> list[Stored]:
    expected = [(row[0], row[1], row[2], row[3]) for row in RECORDS]

    def read(data: bytes) -> Any:
        return [
            (
                None if one.key is None else bytes(one.key),
                None if one.value is None else bytes(one.value),
                one.timestamp,
                tuple((key, None if value is None else bytes(value)) for key, value in one.headers),
            )
            for one in read_records(data)
        ]

    plain = Stored(".log: batch", expected, lambda: builder.build_batch(RECORDS, base_offset=7, leader_epoch=2), read)
    of_transaction = Stored(
        ".log: batch of a transaction",
        expected,
        lambda: builder.build_batch(
            RECORDS, producer_id=9, producer_epoch=1, base_sequence=4, is_transactional=True, base_offset=1 << 40
        ),
        read,
    )
    compressed = [
        Stored(
            f".log: batch with {codec.name.lower()}",
            expected,
            lambda codec=codec: builder.build_batch(RECORDS, compression=codec),
            read,
            is_exact=False,
        )
        for codec in Compression
        if codec is not Compression.NONE
    ]
    leader = LeaderChangeMessage(leader_id=4)
    control = Stored(
        ".log: control batch",
        (ControlType.LEADER_CHANGE, leader),
        lambda: build_control_batch([(ControlType.LEADER_CHANGE, encode_message(leader, 0))], timestamp=NOW_MS),
        lambda data: (
            decode_control_key(read_records(data)[0].key),
            decode_message(LeaderChangeMessage, 0, read_records(data)[0].value or b"")[0],
        ),
    )
    return [plain, of_transaction, *compressed, control]


def _indexes() -> list[Stored]:
    offsets = [(17, 4_096), (40, 9_000)]
    times = [(NOW_MS, 17), (NOW_MS + 60_000, 40)]

    def offset_index() -> bytes:
        index = OffsetIndex()
        for offset, position in offsets:
            index.append(offset, position)
        return index.encode()

    def read_offset_index(data: bytes) -> Any:
        index = OffsetIndex.decode(data, 10_000)
        return None if index is None else list(zip(index.offsets, index.positions, strict=True))

    def time_index() -> bytes:
        index = TimeIndex()
        for time_ms, offset in times:
            index.maybe_append(time_ms, offset)
        return index.encode()

    def read_time_index(data: bytes) -> Any:
        index = TimeIndex.decode(data)
        return None if index is None else [(len(index), *index.last)]

    aborted = [AbortedTransaction(9, 100, 140, 141)]
    return [
        Stored(".index", offsets, offset_index, read_offset_index),
        Stored(".timeindex", [(2, *times[-1])], time_index, read_time_index),
        Stored(".txnindex", aborted, lambda: encode_transactions(aborted), decode_transactions),
    ]


def _small_files() -> list[Stored]:
    offsets = {ORDERS: 12, TopicPartition("_schemas", 0): 0}
    epochs = [(0, 0), (3, 41)]
    state = QuorumState(2, 7, 1, "AQIDBAUGBwgJCgsMDQ4PEA")
    old_state = QuorumState(2, 7, voter_ids=(1, 2, 3))
    path = "quorum-state"
    properties = MetaProperties(BrokerId(4), "K5ZpEbuMRXGvV8lS0ZHQEw", TOPIC_ID)
    return [
        _on_disk(
            "meta.properties",
            properties,
            META_PROPERTIES,
            lambda disk: write_meta_properties(disk, properties, NOW_MS),
            read_meta_properties,
        ),
        Stored("offset checkpoints", offsets, lambda: encode_offsets(offsets), decode_offsets),
        Stored("leader-epoch-checkpoint", epochs, lambda: encode_leader_epochs(epochs), decode_leader_epochs),
        Stored("partition.metadata", TOPIC_ID, lambda: encode_partition_metadata(TOPIC_ID), decode_partition_metadata),
        Stored(
            ".kafka_cleanshutdown",
            CleanShutdown(broker_epoch=55),
            lambda: encode_clean_shutdown(55),
            decode_clean_shutdown,
        ),
        _on_disk(
            "quorum-state: version 1",
            state,
            path,
            lambda disk: write_quorum_state(disk, path, state),
            lambda disk: read_quorum_state(disk, path),
        ),
        _on_disk(
            "quorum-state: version 0",
            old_state,
            path,
            lambda disk: write_quorum_state(disk, path, old_state),
            lambda disk: read_quorum_state(disk, path),
        ),
        _on_disk(
            "flushed-offset",
            70_000,
            "flushed-offset",
            lambda disk: FlushedOffset(disk, "flushed-offset").save(70_000),
            lambda disk: FlushedOffset(disk, "flushed-offset").read(),
        ),
        _text("names of directories: deleted", deleted_directory_name(ORDERS, TOPIC_ID)),
        _text("names of directories: future", future_directory_name(ORDERS, TOPIC_ID)),
        Stored(
            "names of directories: stray",
            ORDERS,
            lambda: stray_directory_name(ORDERS, TOPIC_ID).encode(),
            lambda data: parse_stray_name(data.decode()),
        ),
    ]


def _metadata_log() -> list[Stored]:
    """Each record with its defaults, in its newest version, and a snapshot with two of them."""
    records = []
    for cls in METADATA_RECORDS.values():
        record, version = cls(), message_info(cls).versions.last
        records.append(
            Stored(
                f"__cluster_metadata: {cls.__name__}",
                (record, version),
                lambda record=record, version=version: encode_metadata_record(record, version),
                decode_metadata_record,
            )
        )
    levels = {"metadata.version": 29, "kraft.version": 1}
    snapshot = Snapshot(
        (FeatureLevelRecord(name="metadata.version", feature_level=29), TopicRecord(name="orders", topic_id=TOPIC_ID)),
        QuorumControl(1, VotersRecord(voters=())),
        NOW_MS,
    )
    return [
        *records,
        Stored(".checkpoint", snapshot, lambda: encode_snapshot(snapshot, levels, now_ms=NOW_MS), decode_snapshot),
        _text(".checkpoint: its name", snapshot_file_name(Offset(1_234), 5)),
    ]


def _producer_snapshot() -> Stored:
    state = ProducerState(max_producer_ids=2)
    entry = state.entries[9] = ProducerEntry(1, NOW_MS)
    entry.last_timestamp_ms = NOW_MS
    entry.coordinator_epoch = 2
    entry.last_sequence = 5
    entry.batches.append((4, 5, 42, 1, NOW_MS))
    entry.transaction_first_offset = 41

    def read(data: bytes) -> Any:
        read_state = ProducerState(max_producer_ids=2)
        read_state.load(data, 43, NOW_MS)
        found = read_state.entries[9]
        return found.epoch, list(found.batches), found.coordinator_epoch, found.transaction_first_offset

    return Stored(".snapshot", (1, [(4, 5, 42, 1, NOW_MS)], 2, 41), state.encode, read)


def _internal_topics() -> list[Stored]:
    member = MemberMetadata(
        member_id="m-1",
        client_id="app",
        client_host="/127.0.0.1",
        rebalance_timeout=60_000,
        session_timeout=10_000,
        subscription=b"s",
        assignment=b"a",
    )
    group = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="m-1", members=(member,)
    )
    groups: dict[str, GroupRecord] = {
        "offset": OffsetRecord(
            OffsetCommitKey("readers", "orders", 3), OffsetCommitValue(offset=12, leader_epoch=2, metadata="note")
        ),
        "offset deleted": OffsetRecord(OffsetCommitKey("readers", "orders", 3), None),
        "group": GroupMetadataRecord(GroupMetadataKey("readers"), group),
    }
    open_transaction = TransactionMetadata(
        producer_id=9,
        producer_epoch=1,
        state=TransactionState.ONGOING,
        timeout_ms=60_000,
        partitions={ORDERS: None},
        start_ms=NOW_MS,
        last_update_ms=NOW_MS,
    )
    transactions = {f"version {version}": TransactionRecord("copier", open_transaction, version) for version in (0, 1)}
    schemas: dict[str, registry.Record] = {
        "schema": (
            registry.SchemaKey(subject="orders-value", version=1),
            registry.SchemaValue("orders-value", 1, 1, '"string"'),
        ),
        "mode": (registry.ModeKey("orders-value"), registry.ModeValue("READWRITE")),
        "no operation": (registry.NoopKey(), None),
    }
    return [
        *(
            _pair(f"__consumer_offsets: {kind}", record, encode_group_record, decode_group_record)
            for kind, record in groups.items()
        ),
        *(
            _pair(f"__transaction_state: {kind}", record, encode_transaction_record, decode_transaction_record)
            for kind, record in transactions.items()
        ),
        *(
            _pair(f"_schemas: {kind}", record, registry.encode_record, registry.decode_record)
            for kind, record in schemas.items()
        ),
    ]


def _statements() -> list[Stored]:
    key = Column(Name("user", 1, 23), "string", Role.KEY)
    storage = Storage(topic="c", value_format="avro", partitions=4, timestamp="at")
    written = {"statement": "CREATE ...", "properties": {"sql.dialect": "ksql"}, "types": {"t": "int"}}
    changes: dict[str, Change] = {
        "stream": Put(Relation("clicks", Kind.STREAM, storage, (key,), "CREATE STREAM ...")),
        "table": Put(Relation("pages", Kind.TABLE, Storage(), None, "CREATE TABLE ...", made_by="CTAS_PAGES_0")),
        "query": Put(
            PersistentQuery(
                **written, id="CTAS_PAGES_0", sink="pages", reads=frozenset({"b", "a"}), state=QueryState.PAUSED
            )
        ),
        "view": Put(View(**written, name="both", reads=frozenset({"a"}))),
        "function": Put(Function(**written, name="plus")),
        "type": Put(NamedType("t", "int")),
        "removed": Remove(What.VIEW, "both"),
        "number": NextNumber(1),
    }
    return [_pair(f"_moldau_sql_ID: {kind}", change, stored_change, read_change) for kind, change in changes.items()]


def _pipelines() -> list[Stored]:
    described = pipeline_metadata("shop", "shop.eu", "host-1", BoardPlace(8_081, True), ["shop.dead-letters"])
    metadata = CommitMetadata(41, described)
    offset = StreamOffset({ORDERS: 12}, {"orders": TOPIC_ID}, StreamOffset({ORDERS: 0}, {"orders": TOPIC_ID}))
    return [
        Stored(
            "commit metadata of a pipeline",
            metadata,
            lambda: metadata_of(41, described.text()).encode(),
            lambda data: read_commit_metadata([data.decode()]),
        ),
        Stored(
            "Spark's checkpoint: offsets",
            offset,
            lambda: json.dumps(offset_to_dict(offset)).encode(),
            lambda data: offset_from_dict(json.loads(data)),
        ),
        _text("tables of pipelines: batches", f"create table {BATCHES} {BATCHES_COLUMNS}"),
        _text("tables of pipelines: owners", f"create table {OWNERS} {OWNERS_COLUMNS}"),
    ]


def _lines() -> list[Stored]:
    send = Send(process="p", at_ms=5, operation=1, topic="orders", record="7", key="k")
    event = Event(
        NOW_MS, CHANGE, Origin("User:ann", "127.0.0.1", "PLAINTEXT"), "CreateTopics", "TOPIC", "orders", "NONE"
    )
    return [
        Stored("history", send, lambda: msgspec.json.encode(send), lambda data: msgspec.json.decode(data, type=Send)),
        _text("audit log", line_of(event, 1).decode()),
    ]


def every_format() -> list[Stored]:
    """All samples, in the order of the documentation."""
    return [
        *_record_batches(),
        *_indexes(),
        _producer_snapshot(),
        *_small_files(),
        *_metadata_log(),
        *_internal_topics(),
        *_statements(),
        *_pipelines(),
        *_lines(),
    ]


def read_golden() -> dict[str, bytes]:
    """By the name of the sample."""
    return {name: bytes.fromhex(text) for name, text in json.loads(GOLDEN.read_text("utf-8")).items()}


def main() -> None:
    golden = read_golden() if GOLDEN.exists() else {}
    added = {one.name: one.written() for one in every_format() if one.name not in golden}
    texts = {name: data.hex() for name, data in {**golden, **added}.items()}
    GOLDEN.write_text(json.dumps(texts, indent=0) + "\n", "utf-8")
    print(f"added: {', '.join(added) or 'nothing'}")


if __name__ == "__main__":
    main()
