"""The arithmetic from options to offsets and from offsets to tasks, without a broker and without Spark."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.columnar import PartitionRange
from moldau.spark.options import EARLIEST, LATEST, Subscription, parse_source_options
from moldau.spark.source.offsets import (
    SMALL_TASK_OFFSETS,
    DataLossError,
    StartError,
    StreamOffset,
    check_bounds,
    is_delayed,
    limit_offsets,
    offset_from_dict,
    offset_to_dict,
    plan_tasks,
    recreated_topics,
    resolve_end,
    resolve_start,
    subscribed_partitions,
)
from moldau.types import ZERO_UUID, TopicPartition, Uuid

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID_1, ID_2 = Uuid(b"1" * 16), Uuid(b"2" * 16)

sizes = st.lists(st.integers(min_value=0, max_value=1_000_000), min_size=1, max_size=20)


class FakeLog:
    """Partitions from `first` to `end`, with one record every `step_ms` from time 0."""

    def __init__(self, first: int = 10, end: int = 100, step_ms: int = 10) -> None:
        self.first, self.end, self.step_ms = first, end, step_ms

    def __call__(self, wanted):
        return {partition: self.answer(what) for partition, what in wanted.items()}

    def answer(self, what: int) -> int:
        if what == EARLIEST:
            return self.first
        if what == LATEST:
            return self.end
        offset = max(self.first, -(-what // self.step_ms))
        return offset if offset < self.end else -1

    def log_ends(self, partitions):
        return dict.fromkeys(partitions, self.end)


def options(**more: str):
    return parse_source_options({"kafka.bootstrap.servers": "x:1", "subscribe": "a", **more}, is_streaming=False)


def ranges_of(*counts: int) -> list[PartitionRange]:
    return [PartitionRange("t", number, 5, 5 + count) for number, count in enumerate(counts)]


def test_the_checkpoint_text_is_sparks_with_topic_ids_beside_it():
    offset = StreamOffset({A1: 7, A0: 3, B0: 0}, {"a": ID_1, "b": ZERO_UUID})
    nested = offset_to_dict(offset)
    text = '{"a": {"0": 3, "1": 7}, "b": {"0": 0}, "@topic_ids": {"a": "MTExMTExMTExMTExMTExMQ"}}'
    assert json.dumps(nested) == text
    assert offset_from_dict(nested) == StreamOffset({A0: 3, A1: 7, B0: 0}, {"a": ID_1})


def test_offsets_of_sparks_own_connector_are_taken_as_they_are():
    assert offset_from_dict({"a": {"0": 3}}) == StreamOffset({A0: 3}, {})


def test_a_pattern_must_match_the_whole_name():
    found = {"orders": (0,), "orders-2": (0, 1), "x-orders": (0,)}
    matched = subscribed_partitions(Subscription(pattern="orders.*"), found)
    assert [str(one) for one in matched] == ["orders-0", "orders-2-0", "orders-2-1"]


@pytest.mark.parametrize("wanted", [Subscription(topics=("gone",)), Subscription(partitions=(TopicPartition("a", 5),))])
def test_what_is_named_must_exist(wanted: Subscription):
    with pytest.raises(StartError, match="does not exist"):
        subscribed_partitions(wanted, {"a": (0, 1)})


def test_start_and_end_by_word_by_offset_and_by_time():
    log = FakeLog()
    assert resolve_start(options(), [A0], log, log.log_ends) == {A0: 10}
    assert resolve_end(options(), [A0], log, log.log_ends) == {A0: 100}
    assert resolve_start(options(startingOffsets='{"a":{"0":42,"1":-2}}'), [A0, A1], log, log.log_ends) == {
        A0: 42,
        A1: 10,
    }
    assert resolve_start(options(startingTimestamp="500"), [A0], log, log.log_ends) == {A0: 50}
    assert resolve_end(options(endingTimestamp="5000"), [A0], log, log.log_ends) == {A0: 100}


def test_a_start_after_the_last_record_is_an_error_unless_latest_is_meant():
    with pytest.raises(StartError, match="startingOffsetsByTimestampStrategy"):
        resolve_start(options(startingTimestamp="5000"), [A0], FakeLog(), FakeLog().log_ends)
    lenient = options(startingTimestamp="5000", startingOffsetsByTimestampStrategy="latest")
    assert resolve_start(lenient, [A0], FakeLog(), FakeLog().log_ends) == {A0: 100}


def test_offsets_must_name_every_partition():
    with pytest.raises(StartError, match="every partition"):
        resolve_start(options(startingOffsets='{"a":{"0":1}}'), [A0, A1], FakeLog(), FakeLog().log_ends)


def test_records_that_are_gone_fail_the_query_or_are_left_out():
    lost = [PartitionRange("a", 0, 2, 50), PartitionRange("a", 1, 60, 40), PartitionRange("b", 0, 20, 20)]
    with pytest.raises(DataLossError, match="a-0: offsets 2 to 9 are gone") as error:
        check_bounds(lost, FakeLog(), fail_on_data_loss=True)
    assert "a-1: the next offset to read was 60" in str(error.value)
    kept, said = check_bounds(lost, FakeLog(), fail_on_data_loss=False)
    assert kept == [PartitionRange("a", 0, 10, 50)]
    assert len(said) == 2


@pytest.mark.slow
@given(sizes, st.integers(min_value=1, max_value=2_000_000))
def test_a_limited_batch_is_shared_in_proportion_and_none_starves(waiting: list[int], limit: int):
    partitions = [TopicPartition("t", number) for number in range(len(waiting))]
    start = dict.fromkeys(partitions, 3)
    end = {partition: 3 + size for partition, size in zip(partitions, waiting, strict=True)}
    limited = limit_offsets(start, end, limit)
    taken = {partition: limited[partition] - 3 for partition in partitions}
    assert sum(taken.values()) <= limit + len(partitions)
    assert all(0 <= taken[partition] <= end[partition] - 3 for partition in partitions)
    assert all(taken[partition] > 0 for partition in partitions if end[partition] > 3)


@given(sizes, st.integers(min_value=1, max_value=8), st.none() | st.integers(min_value=1, max_value=64))
def test_tasks_cover_every_offset_once(counts: list[int], cores: int, min_partitions: int | None):
    planned = plan_tasks(ranges_of(*counts), parallelism=cores, min_partitions=min_partitions)
    covered = {number: [] for number in range(len(counts))}
    for task in planned:
        assert task
        for span in task:
            assert span.size > 0
            covered[span.partition].append((span.start_offset, span.end_offset))
    for number, count in enumerate(counts):
        position = 5
        for begin, end in sorted(covered[number]):
            assert begin == position
            position = end
        assert position == 5 + count
    if min_partitions is None:
        assert len(planned) <= cores
    elif sum(counts) > 64 * len(counts):
        assert len(planned) >= min(min_partitions, sum(counts))


def test_whole_partitions_are_packed_into_even_tasks():
    planned = plan_tasks(ranges_of(9_000, 4_000, 5_000, 1_000), parallelism=2)
    assert [[span.partition for span in task] for task in planned] == [[0], [1, 2, 3]] or [
        sum(span.size for span in task) for task in planned
    ] == [10_000, 9_000]


def test_a_small_batch_is_one_task():
    assert len(plan_tasks(ranges_of(SMALL_TASK_OFFSETS // 4, SMALL_TASK_OFFSETS // 4), parallelism=8)) == 1


def test_a_topic_made_anew_is_known_by_its_id():
    assert recreated_topics({"a": ID_1, "b": ID_1}, {"a": ID_2, "b": ID_1}) == ["a"]
    assert recreated_topics({"a": ZERO_UUID, "b": ID_1}, {"a": ID_2, "b": ZERO_UUID}) == []


def test_a_start_at_a_group_has_the_given_start_for_partitions_without_offsets():
    at_group = options(startingGroup="g", startingOffsets="earliest")
    assert resolve_start(at_group, [A0, A1], FakeLog(), FakeLog().log_ends, {A1: 42, B0: 7}) == {A0: 10, A1: 42}
    by_offsets = options(startingGroup="g", startingOffsets=json.dumps({"a": {"0": 11, "1": 12}}))
    assert resolve_start(by_offsets, [A0, A1], FakeLog(), FakeLog().log_ends, {A1: 42}) == {A0: 11, A1: 42}


def test_a_start_at_a_group_asks_for_no_offset_that_the_group_has():
    def unasked(wanted):
        raise AssertionError(wanted)

    late = options(startingGroup="g", startingTimestamp="999999")
    assert resolve_start(late, [A0], unasked, unasked, {A0: 42}) == {A0: 42}


def test_a_start_at_a_group_without_any_offset_is_refused():
    with pytest.raises(StartError, match=r"group 'g' has no committed offset of a-0, a-1.*startingGroup"):
        resolve_start(options(startingGroup="g"), [A0, A1], FakeLog(), FakeLog().log_ends, {B0: 7})
    assert resolve_start(options(startingGroup="g"), [], FakeLog(), FakeLog().log_ends, {}) == {}


@pytest.mark.parametrize(
    ("waiting", "since_ms", "expected"), [(9, 0, True), (10, 0, False), (9, 999, True), (9, 1_000, False)]
)
def test_a_batch_is_delayed_while_too_little_waits_and_the_last_is_not_long_ago(waiting, since_ms, expected):
    def delayed(least: int | None) -> bool:
        return is_delayed(
            {A0: 5}, {A0: 5 + waiting - 2, A1: 2},
            min_offsets=least, since_last_batch_ms=since_ms, max_delay_ms=1_000,
        )  # fmt: skip

    assert delayed(10) is expected
    assert not delayed(None)


def test_a_task_reads_at_most_as_many_offsets_as_the_option_says():
    tasks = plan_tasks(ranges_of(25, 10, 1), parallelism=2, max_records=10)
    assert [[(span.start_offset, span.end_offset) for span in task] for task in tasks] == [
        [(5, 13)], [(13, 21)], [(21, 30)], [(5, 15)], [(5, 6)],
    ]  # fmt: skip
    more = plan_tasks(ranges_of(25, 10, 1), parallelism=2, max_records=10, min_partitions=8)
    assert len(more) >= 8
    assert sum(span.size for task in more for span in task) == 36
