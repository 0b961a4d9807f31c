"""The plan of a Produce request: results, waits, and the handler's work after each batch."""

from __future__ import annotations

import pytest

from moldau.core.log.appending import CLIENT
from moldau.core.replication.produce_plan import (
    COUNT_ERROR,
    DIRECTORY_FAILED,
    FLUSH,
    WAKE,
    ProducePlan,
    find_repeated,
)
from moldau.errors import ProtocolError, kafka_error
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.types import whole
from moldau.wire.records.builder import build_batch
from tests.support.partition import NOW_MS, TWO, open_partition


def batch(timestamp_ms: int = NOW_MS) -> memoryview:
    return memoryview(bytearray(build_batch([(None, b"v", timestamp_ms, ())])))


def test_a_committed_batch_wakes_those_who_wait() -> None:
    plan = ProducePlan(9, 1, CLIENT)
    assert plan.append(b"t", 0, batch(), open_partition(), NOW_MS) == WAKE
    assert plan.results == [(b"t", 0, 0, 0, -1, 0, None)]
    assert not plan.waiting


def test_acks_all_waits_for_followers() -> None:
    partition = open_partition(image=TWO)
    plan = ProducePlan(9, -1, CLIENT)
    assert plan.append(b"t", 0, batch(), partition, NOW_MS) == WAKE
    assert [(each.place, each.end_offset, each.is_flush_due) for each in plan.waiting] == [(0, 1, False)]
    plan.not_acknowledged(plan.waiting[0], kafka_error("REQUEST_TIMED_OUT"))
    assert plan.results[0][:4] == (b"t", 0, 7, 0)


def test_a_due_flush_is_requested_and_waited_for() -> None:
    plan = ProducePlan(9, 1, CLIENT)
    assert plan.append(b"t", 0, batch(), open_partition(flush_messages=1), NOW_MS) == FLUSH
    assert [each.is_flush_due for each in plan.waiting] == [True]


def test_an_error_of_the_log_carries_the_log_start_offset() -> None:
    plan = ProducePlan(9, 1, CLIENT)
    partition = open_partition(message_timestamp_after_max_ms=1_000)
    assert plan.append(b"t", 0, batch(NOW_MS + 60_000), partition, NOW_MS) == COUNT_ERROR
    assert (plan.results[0][2], plan.results[0][5]) == (32, 0)
    assert plan.has_errors


def test_a_failed_directory_is_reported_to_the_handler() -> None:
    disk = MemoryDisk()
    partition = open_partition(disk=disk)
    disk.fail(Fault("append", "io", times=1))
    plan = ProducePlan(9, 1, CLIENT)
    assert plan.append(b"t", 0, batch(), partition, NOW_MS) == DIRECTORY_FAILED
    assert plan.results[0][2] == 56


def test_a_partition_that_is_named_twice_is_rejected() -> None:
    repeated = whole(find_repeated([(b"t", 0, None), (b"t", 1, None), (b"t", 0, None)]))
    assert [(key, error.code) for key, error in repeated.items()] == [((b"t", 0), 42)]


def test_with_acks_0_an_error_ends_the_connection() -> None:
    plan = ProducePlan(9, 0, CLIENT)
    plan.check_unanswered()
    plan.reject_target(b"t", 0, kafka_error("UNKNOWN_TOPIC_OR_PARTITION"))
    with pytest.raises(ProtocolError):
        plan.check_unanswered()
