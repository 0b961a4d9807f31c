"""Replicas of a compacted partition may hold different batches, but the same record at each offset."""

from __future__ import annotations

import pytest

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.simulation.cluster.compacted_ledger import CompactedLedger
from moldau.simulation.trace import Trace
from moldau.simulation.violation import ViolationError
from moldau.types import METADATA_TOPIC_ID, LeaderEpoch, TopicPartition
from moldau.wire.records.builder import build_batch

PARTITION = TopicPartition("t", 0)
NOW_MS = 1_000


def replica(*values: bytes) -> Log:
    """One record of the same key after the other."""
    directory = LogDirectory.open(MemoryDisk())
    directory.create_log(PARTITION, METADATA_TOPIC_ID, LogSettings(), now_ms=NOW_MS)
    log = directory.logs[PARTITION]
    for value in values:
        batch = bytearray(build_batch([(b"key", value, NOW_MS, ())]))
        log.append(batch, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    return log


def ledger_of(**logs: Log) -> CompactedLedger:
    ledger = CompactedLedger(Trace(lambda: 0.0))
    for name, log in logs.items():
        ledger.opened(name, log, 0)
    return ledger


def test_the_same_record_lies_at_an_offset_on_every_replica():
    first, second = replica(b"a", b"b"), replica(b"a", b"c")
    ledger = ledger_of(first=first, second=second)
    ledger.high_watermark_moved("first", first, 2)
    ledger.high_watermark_moved("second", second, 1)
    with pytest.raises(ViolationError, match="replicas are equal below the high watermark"):
        ledger.high_watermark_moved("second", second, 2)


def test_the_last_record_of_a_key_is_the_same_in_the_end():
    first, second = replica(b"a", b"b"), replica(b"x", b"b")
    ledger = ledger_of(first=first, second=second)
    ledger.check_equal({"first": first, "second": second}, {"first": 2, "second": 2})
    third = replica(b"a", b"c")
    ledger.opened("third", third, 0)
    with pytest.raises(ViolationError, match="replicas are equal at the end"):
        ledger.check_equal({"first": first, "third": third}, {"first": 2, "third": 2})
