"""The plan of a Fetch request: what each partition gives, when the answer leaves, and what is worth another look."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.core.log.reading import HOLD_ANY
from moldau.core.replication.fetch_plan import (
    DIRECTORY_FAILED,
    LITTLE_BYTES,
    MAX_MIN_BYTES,
    STOP,
    STREAM,
    FetchLook,
    FetchTerms,
    FetchWait,
    fetch_terms,
    is_caught_up,
)
from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import FetchedUpTo
from moldau.errors import KafkaError
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.types import BrokerId
from moldau.wire.protocol.elsewhere import PreferredReadReplica
from moldau.wire.protocol.fast_fetch import FetchEntry
from moldau.wire.records.builder import build_batch
from tests.support.partition import NOW_MS, TWO, open_partition

MIB = 1 << 20
CONSUMER = FetchTerms(12, -1, -1, False, "", 50 * MIB, 1, False)
FOLLOWER = msgspec.structs.replace(CONSUMER, version=17, replica_id=2, is_follower=True)


def entry(offset: int = 0, *, epoch: int = -1, last_epoch: int = -1, max_bytes: int = 50 * MIB) -> FetchEntry:
    return b"t", 0, epoch, offset, last_epoch, -1, max_bytes


def look(terms: FetchTerms = CONSUMER, *, is_little: bool = False, count: int = 2, held: int = HOLD_ANY) -> FetchLook:
    begun = FetchLook(terms, is_little)
    begun.allow(count, 50 * MIB, held)
    return begun


def filled(*sizes: int, **how: Any) -> Partition:
    partition = open_partition(**how)
    for size in sizes:
        partition.append(bytearray(build_batch([(None, bytes(size), NOW_MS, ())])), NOW_MS)
    return partition


def wire_terms(**fields: int) -> FetchTerms:
    asked = {"replica_id": -1, "min_bytes": 1, "max_bytes": 50 * MIB, "isolation_level": 0, **fields}
    bounds = asked["min_bytes"], asked["max_bytes"], asked["isolation_level"]
    question = ((asked["replica_id"], -1), 500, *bounds, 0, -1, [], (), "")
    return fetch_terms(question, 12, 55 * MIB, asked.get("quota_bytes"))


@pytest.mark.parametrize("field", [{"isolation_level": 2}, {"isolation_level": -1}, {"max_bytes": -1}])
def test_a_request_with_a_bad_limit_is_rejected(field: dict[str, int]) -> None:
    with pytest.raises(KafkaError) as caught:
        wire_terms(**field)
    assert caught.value.code == 42


def test_a_request_waits_for_no_more_than_its_answer_may_hold() -> None:
    assert wire_terms(min_bytes=50 * MIB).min_bytes == MAX_MIN_BYTES
    found = wire_terms(min_bytes=1_000, quota_bytes=300)
    assert (found.min_bytes, found.max_bytes) == (300, 300)
    assert wire_terms(max_bytes=2**31 - 1).max_bytes == 55 * MIB


@pytest.mark.parametrize(("replica_id", "reader"), [(-1, -1), (-2, -1), (-3, -3), (5, 5)])
def test_a_negative_id_is_a_consumer_but_for_a_move_of_a_log(replica_id: int, reader: int) -> None:
    found = wire_terms(replica_id=replica_id)
    assert (found.replica_id, found.is_follower) == (reader, replica_id == 5)


@pytest.mark.parametrize(
    ("terms", "asked", "code"),
    [
        (CONSUMER, entry(-1), 1),
        (CONSUMER, entry(1), 0),
        (CONSUMER, entry(2), 1),
        (CONSUMER, entry(epoch=4), 75),
        (CONSUMER, entry(epoch=2), 74),
        (CONSUMER, entry(max_bytes=-1), 42),
        (CONSUMER, entry(last_epoch=9), 1),
        (FOLLOWER, entry(), 6),
        (FOLLOWER, entry(epoch=3), 75),
    ],
)
def test_an_error_is_answered_at_once(terms: FetchTerms, asked: FetchEntry, code: int) -> None:
    found = look(terms)
    assert found.read(asked, filled(10)) == 0
    assert [result[2] for result in found.results] == [code]
    assert found.is_urgent == found.is_due == bool(code)


def test_errors_from_before_the_log_come_last() -> None:
    found = look()
    found.refuse(entry(), 3)
    found.read(entry(9), filled(10))
    found.read(entry(), filled(10))
    assert [(result[2], result[8]) for result in found.results] == [(1, None), (0, None), (3, ())]
    assert found.count == 3


def test_only_a_leader_serves_readers_that_cannot_name_their_rack() -> None:
    partition = filled(image=msgspec.structs.replace(TWO, leader=BrokerId(2)))
    codes = []
    for version in (10, 11):
        found = look(msgspec.structs.replace(CONSUMER, version=version))
        found.read(entry(), partition)
        codes += [result[2] for result in found.results]
    assert codes == [6, 0]


def test_another_place_to_read_from_is_answered_at_once() -> None:
    for asked, elsewhere in ((entry(), PreferredReadReplica(2)), (entry(2, last_epoch=3), (3, 1))):
        found = look()
        found.read(asked, filled(10), PreferredReadReplica(2))
        assert [(result[6], result[7]) for result in found.results] == [(elsewhere, None)]
        assert found.is_urgent


def test_consumers_read_to_the_high_watermark_and_followers_to_the_log_end() -> None:
    partition = filled(10, 10, image=TWO)
    partition.step(FetchedUpTo(2, -1, partition.leader_epoch, 1, 0), NOW_MS)
    sizes = []
    for terms, asked in ((CONSUMER, entry()), (FOLLOWER, entry(epoch=3))):
        found = look(terms)
        found.read(asked, partition)
        sizes.append(found.size)
    assert sizes[0] > 0
    assert sizes[1] == 2 * sizes[0]


def test_a_throttled_follower_gets_no_records() -> None:
    found = look(FOLLOWER)
    found.read(entry(epoch=3), filled(10, image=TWO), is_held_back=True)
    assert (found.size, found.is_due, found.results[0][2]) == (0, False, 0)


@pytest.mark.parametrize(("max_bytes", "asked"), [(1, entry()), (0, entry()), (50 * MIB, entry(max_bytes=0))])
def test_the_first_batch_comes_whole_and_no_second_one(max_bytes: int, asked: FetchEntry) -> None:
    found, partition = look(msgspec.structs.replace(CONSUMER, max_bytes=max_bytes)), filled(5_000, 5_000)
    found.read(asked, partition)
    found.read(asked, partition)
    records = [len(result[7] or b"") for result in found.results]
    assert 5_000 < records[0] < 5_200
    assert records[1] == 0


def test_an_answer_has_at_most_4_mib_and_of_one_partition_1_mib() -> None:
    partition = filled(*[900_000] * 6)
    for count, min_bytes, most in ((2, 1, 4 * MIB), (1, 1, MIB), (1, MAX_MIN_BYTES, 4 * MIB)):
        found = look(msgspec.structs.replace(CONSUMER, min_bytes=min_bytes), count=count)
        found.read(entry(), partition)
        assert most - 900_000 - 1_000 < found.size <= most


def test_after_its_bytes_are_read_a_turn_reads_little_or_nothing() -> None:
    for size, is_incomplete, todo in ((100, False, 0), (LITTLE_BYTES * 2 // 3, True, 0), (LITTLE_BYTES, True, STOP)):
        found = look(is_little=True)
        assert found.read(entry(), filled(size)) == todo
        assert found.is_incomplete == is_incomplete


def test_a_cold_read_stops_the_look_which_goes_on_after_it() -> None:
    disk = MemoryDisk()
    partition = filled(10, disk=disk)
    disk.fail(Fault("read_cached", "cold", "t-0", times=2))
    found = look()
    assert found.read(entry(), partition) == STOP
    cold = found.take_cold()
    assert cold is not None
    cold.run()
    found.leave_cold_out()
    assert found.read(entry(), partition) == 0
    assert (found.count, found.size) == (1, 0), "the second read is left out"
    assert found.read(entry(), partition) == 0
    assert found.size > 10


def test_a_batch_that_is_too_large_for_the_memory_is_streamed() -> None:
    partition = filled(5_000)
    found = look(msgspec.structs.replace(CONSUMER, max_bytes=1_000), held=1_000)
    assert found.read(entry(), partition) == STREAM
    assert found.later is not None

    class Streamed:
        def __len__(self) -> int:
            return 5_068

        def next_piece(self, max_bytes: int, then: Any) -> None:
            raise NotImplementedError

    batch = Streamed()
    found.stream(batch)
    assert (found.size, found.results[0][7]) == (5_068, batch)


def test_a_failed_directory_is_reported_to_the_handler() -> None:
    disk = MemoryDisk()
    partition = filled(10, disk=disk)
    disk.fail(Fault("read_cached", "io", "t-0", times=1))
    found = look()
    assert found.read(entry(), partition) == DIRECTORY_FAILED
    assert [result[2] for result in found.results] == [56]


def test_a_wait_is_over_when_min_bytes_have_arrived() -> None:
    partition, terms = filled(), msgspec.structs.replace(CONSUMER, min_bytes=150)
    wait = FetchWait(terms, [partition], 0)
    outcomes = []
    for _ in range(2):
        partition.append(bytearray(build_batch([(None, bytes(10), NOW_MS, ())])), NOW_MS)
        outcomes.append(wait.is_worth_a_look(partition))
    assert outcomes == [False, True]


def test_a_lost_partition_is_worth_a_look() -> None:
    for lose in (Partition.end, Partition.take_offline):
        partition = filled()
        wait = FetchWait(CONSUMER, [partition], 0)
        assert not wait.is_worth_a_look(partition)
        lose(partition)
        assert wait.is_worth_a_look(partition)


def test_each_change_is_worth_a_look_of_a_consumer_while_records_are_not_committed() -> None:
    partition = filled(10, image=TWO)
    assert FetchWait(CONSUMER, [partition], 0).is_worth_a_look(partition)
    assert not FetchWait(FOLLOWER, [partition], 0).is_worth_a_look(partition)


def test_a_follower_with_all_records_of_this_leader_is_caught_up() -> None:
    partition = filled(10, image=TWO)
    offsets = [(1, 3), (0, 3), (1, 2)]
    assert [is_caught_up(FOLLOWER, partition, entry(at, epoch=epoch)) for at, epoch in offsets] == [True, False, False]
    stranger = msgspec.structs.replace(FOLLOWER, replica_id=5)
    assert not is_caught_up(stranger, partition, entry(1, epoch=3))
    partition.take_offline()
    assert not is_caught_up(FOLLOWER, partition, entry(1, epoch=3))
