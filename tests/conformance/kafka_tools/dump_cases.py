"""Cases of `kafka-dump-log`. `write-log FOLDER` writes files whose bytes never change (`log_files`). See cases."""

from __future__ import annotations

import struct

from moldau.types import Uuid
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.messages.share_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from moldau.wire.protocol.record_codec import encode_record_value
from moldau.wire.records.builder import build_batch
from moldau.wire.records.compression import Compression
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from moldau.wire.records.crc import crc32c
from tests.conformance.kafka_tools.formatter_cases import coordinator_records
from tests.conformance.kafka_tools.step import Step

_DUMP = "kafka-dump-log --files"
_DIR = "{tmp}/{p}log"
_BASE = "00000000000000000050"
_MS = 1_700_000_000_000

DUMPS: dict[str, tuple[Step, ...]] = {
    "dump-log-flags": (
        Step("kafka-dump-log"),
        Step("kafka-dump-log --help"),
        Step("kafka-dump-log --version"),
        Step("kafka-dump-log --print-data-log", says=True),
        Step("kafka-dump-log --files a.log --files b.log"),
        Step(f"{_DUMP} {_DIR}/none.log"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.index"),
        Step(f"{_DUMP} {_DIR}", says=True),
        Step(f"{_DUMP} {_DIR}/meta.properties,{_DIR}/leader-epoch-checkpoint", says=True),
    ),
    "dump-log-segments": (
        Step(f"write-log {_DIR}", is_quiet=True),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --deep-iteration", says=True),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --print-data-log"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --print-data-log --skip-record-metadata"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --max-bytes 10"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --max-bytes 200"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --max-bytes x"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --value-decoder-class"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --value-decoder-class org.apache.kafka.tools.api.LongDecoder"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --key-decoder-class org.apache.kafka.tools.api.IntegerDecoder"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --value-decoder-class no.such.Decoder"),
        Step(f"{_DUMP} {_DIR}/00000000000000000060.log"),
        Step(f"{_DUMP} {_DIR}/00000000000000000070.log"),
        Step(f"{_DUMP} {_DIR}/00000000000000000080.log"),
    ),
    "dump-log-indexes": (
        Step(f"write-log {_DIR}", is_quiet=True),
        Step(f"{_DUMP} {_DIR}/{_BASE}.index", says=True),
        Step(f"{_DUMP} {_DIR}/{_BASE}.timeindex", says=True),
        Step(f"{_DUMP} {_DIR}/{_BASE}.index,{_DIR}/{_BASE}.timeindex --verify-index-only", says=True),
        Step(f"{_DUMP} {_DIR}/{_BASE}.index --max-message-size 20"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.index --index-sanity-check"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.timeindex --index-sanity-check"),
        Step(f"{_DUMP} {_DIR}/00000000000000000060.index"),
        Step(f"{_DUMP} {_DIR}/00000000000000000060.index --index-sanity-check"),
        Step(f"{_DUMP} {_DIR}/00000000000000000070.index --index-sanity-check"),
        Step(f"{_DUMP} {_DIR}/00000000000000000070.timeindex --index-sanity-check"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.txnindex"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.snapshot"),
        Step(f"{_DUMP} {_DIR}/00000000000000000060.snapshot", says=True),
        Step(f"{_DUMP} {_DIR}/00000000000000000070.snapshot", says=True),
    ),
    "dump-log-decoders": (
        Step(f"write-log {_DIR}", is_quiet=True),
        Step(f"{_DUMP} {_DIR}/00000000000000000000.log --offsets-decoder"),
        Step(f"{_DUMP} {_DIR}/00000000000000000001.log --transaction-log-decoder"),
        Step(f"{_DUMP} {_DIR}/00000000000000000002.log --share-group-state-decoder"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --offsets-decoder"),
        Step(f"{_DUMP} {_DIR}/{_BASE}.log --offsets-decoder --transaction-log-decoder"),
        Step(f"{_DUMP} {_DIR}/00000000000000000001.log --share-group-state-decoder", is_quiet=True),
    ),
}


def log_files() -> dict[str, bytes]:
    """Names and contents: a segment and its files, truncated and damaged ones, and coordinator topics."""
    plain = build_batch(
        [(b"key1", b"12345678", _MS, (("h", b"1"), ("i", None))), (None, "é\n".encode() + b"\xff23456", _MS + 5, ())],
        base_offset=50,
        leader_epoch=3,
    )
    packed = build_batch(
        [(b"key2", b"payload2", _MS + 7, ()), (b"tomb", b"abcdefgh", _MS + 9, ())],
        base_offset=54,
        producer_id=5,
        producer_epoch=1,
        base_sequence=7,
        is_transactional=True,
        compression=Compression.NONE,
    )
    marker = build_end_transaction_batch(
        EndTransactionMarker(False, 2),
        producer_id=5,
        producer_epoch=1,
        timestamp=_MS + 10,
        base_offset=56,
        leader_epoch=3,
    )
    segment = plain + packed + marker
    second, third = len(plain), len(plain) + len(packed)
    return {
        f"{_BASE}.log": segment,
        f"{_BASE}.index": struct.pack(">6i", 1, 0, 4, second, 9, third) + bytes(16),
        f"{_BASE}.timeindex": struct.pack(">qiqiqiqi", _MS + 5, 1, _MS + 8, 5, _MS + 3, 6, _MS + 20, 9) + bytes(24),
        f"{_BASE}.txnindex": struct.pack(">hqqqq", 0, 5, 54, 56, 57),
        f"{_BASE}.snapshot": _snapshot(),
        "00000000000000000060.log": segment[:-3],
        "00000000000000000060.index": b"",
        "00000000000000000060.snapshot": bytes(2) + _snapshot()[2:],
        "00000000000000000070.log": segment[:70] + bytes((segment[70] ^ 1,)) + segment[71:],
        "00000000000000000070.index": struct.pack(">ii", 1, 0) + b"abc",
        "00000000000000000070.timeindex": struct.pack(">qiqi", 9, 1, 8, 2),
        "00000000000000000070.snapshot": _snapshot()[:2] + bytes(4) + _snapshot()[6:],
        "00000000000000000080.log": plain + bytes(100),
        "00000000000000000000.log": _records(coordinator_records("groups")[:-2]),
        "00000000000000000001.log": _records(coordinator_records("transactions")),
        "00000000000000000002.log": _records(_shares()),
    }


def _records(rows: list[tuple[bytes | None, bytes | None]]) -> bytes:
    return build_batch([(key, value, _MS, ()) for key, value in rows])


def _snapshot() -> bytes:
    """One producer that has written nothing since its last marker, and one with an open transaction."""
    entries = struct.pack(">qhiqiqiq", 5, 1, -1, -1, 0, _MS, 3, -1) + struct.pack(">qhiqiqiq", 6, 1, 7, 9, 2, _MS, 3, 4)
    body = struct.pack(">i", 2) + entries
    return struct.pack(">hI", 1, crc32c(body)) + body


def _shares() -> list[tuple[bytes | None, bytes | None]]:
    topic_id = Uuid(bytes(range(16)))
    snapshot, update = (
        kind.to_bytes(2, "big") + encode_message(key, 0)
        for kind, key in enumerate((ShareSnapshotKey("g", topic_id, 3), ShareUpdateKey("g", topic_id, 3)))
    )
    state = (StateBatch(5, 9, 2, 1), StateBatch(10, 10, 0, 2))
    return [
        (snapshot, encode_record_value(ShareSnapshotValue(1, 2, 3, 4, -1, _MS, _MS + 1, ()), 0)),
        (snapshot, encode_record_value(ShareSnapshotValue(1, 2, 3, 4, 7, _MS, _MS + 1, state), 0)),
        (update, encode_record_value(ShareUpdateValue(1, 2, -1, -1, state), 0)),
        (update, encode_record_value(ShareUpdateValue(1, 2, 5, 6, ()), 0)),
        (snapshot, None),
        (b"\x00\x09abc", b"x"),
    ]
