"""Plans offsets from options, and tasks from offsets, without a broker and without Spark.

A stream's offset is Spark's own text for topics, `{"topic":{"0":23}}`, with two entries under names that no topic can
have. One has the topic ids: a topic that was deleted and created again starts at 0, and only its id shows that. The
other, in the end of a stream's first batch, has the start of that batch. Spark stores only the ends of batches, and
asks for the start of the first batch again after a restart, when "latest" is a different offset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from moldau.columnar import PartitionRange
from moldau.errors import MoldauError
from moldau.spark.options import EARLIEST, SourceOptions, StartOrEnd, Subscription, nested_offsets, offsets_to_json
from moldau.types import ZERO_UUID, TopicPartition, Uuid, uuid_from_text, uuid_to_text

TOPIC_IDS = "@topic_ids"
FIRST_START = "@first_start"

SMALL_TASK_OFFSETS = 1_000
"""Below this many offsets, a second task costs more (about 10 ms) than it saves."""

OffsetLookup = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]
"""Asks the cluster for the offset of LATEST, EARLIEST or a time in ms, per partition; -1 if no record is that late."""

LogEnds = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]
"""Asks the cluster for the ends of logs, including uncommitted records."""

TopicIds = Mapping[str, Uuid]


class DataLossError(MoldauError):
    """Records between the two offsets no longer exist (or never did), and `failOnDataLoss` is true."""


class StartError(MoldauError):
    """The starting or ending offsets do not fit the existing partitions."""


class StreamOffset(msgspec.Struct, frozen=True):
    """A stream's progress: the next offset of every partition, and the ids of their topics.

    `first_start`: the start of the stream's first batch, only in the end of that batch.
    """

    offsets: dict[TopicPartition, int]
    topic_ids: dict[str, Uuid]
    first_start: StreamOffset | None = None


def offset_to_dict(offset: StreamOffset) -> dict[str, Any]:
    """The form for Spark's checkpoint. Equal offsets give equal text, because topics and partitions are in order."""
    nested: dict[str, Any] = {**nested_offsets(offset.offsets)}
    ids = {topic: uuid_to_text(offset.topic_ids[topic]) for topic in sorted(offset.topic_ids)}
    known = {topic: text for topic, text in ids.items() if text != uuid_to_text(ZERO_UUID)}
    if known:
        nested[TOPIC_IDS] = known
    if offset.first_start is not None:
        nested[FIRST_START] = offset_to_dict(offset.first_start)
    return nested


def offset_from_dict(nested: Mapping[str, Mapping[str, Any]]) -> StreamOffset:
    """The reverse. Accepts offsets without topic ids (those of Spark's own connector)."""
    offsets = topic_offsets(nested)
    ids = {topic: uuid_from_text(str(text)) for topic, text in nested.get(TOPIC_IDS, {}).items()}
    first_start = offset_from_dict(nested[FIRST_START]) if FIRST_START in nested else None
    return StreamOffset(offsets, ids, first_start)


def topic_offsets(nested: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """The offsets in such a text, without the additional entries of our source."""
    return {
        TopicPartition(topic, int(number)): int(value)
        for topic, partitions in nested.items()
        if not topic.startswith("@")
        for number, value in partitions.items()
    }


def read_by_all(sources: Iterable[Mapping[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """A topic that the query reads twice may be in its checkpoint twice; only offsets that both sources have read are
    done."""
    found: dict[TopicPartition, int] = {}
    for offsets in sources:
        for partition, offset in offsets.items():
            found[partition] = min(offset, found.get(partition, offset))
    return found


def subscribed_partitions(
    subscription: Subscription, partitions_of: Mapping[str, Sequence[int]]
) -> list[TopicPartition]:
    """The partitions to read, in order. Raises StartError for a topic or partition that is named but absent."""
    if subscription.partitions:
        for wanted in subscription.partitions:
            if wanted.partition not in partitions_of.get(wanted.topic, ()):
                raise StartError(f"partition {wanted.partition} of topic {wanted.topic!r} does not exist")
        return list(subscription.partitions)
    if subscription.pattern is not None:
        pattern = re.compile(subscription.pattern)
        topics: Iterable[str] = [topic for topic in partitions_of if pattern.fullmatch(topic)]
    else:
        topics = subscription.topics
        for topic in topics:
            if topic not in partitions_of:
                raise StartError(f"topic {topic!r} does not exist")
    return sorted(TopicPartition(topic, number) for topic in topics for number in partitions_of[topic])


def resolve_start(
    options: SourceOptions,
    partitions: Sequence[TopicPartition],
    lookup: OffsetLookup,
    log_ends: LogEnds,
    committed: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, int]:
    """The first offset of every partition. `committed`: the offsets of the starting group, which have priority.

    Raises StartError if a starting time is after the last record and the options do not allow that, or if the group has
    no offset for any of the partitions.
    """
    wanted = _wanted(options.start, partitions, "starting")
    if committed is not None:
        known = {partition: committed[partition] for partition in partitions if partition in committed}
        if partitions and not known:
            raise StartError(
                f"group {options.starting_group!r} has no committed offset of {', '.join(map(str, partitions[:10]))}: "
                "check the name of the group, or leave out startingGroup"
            )
        others = [partition for partition in partitions if partition not in known]
        return {**_resolved_start(options, wanted, others, lookup, log_ends), **known}
    return _resolved_start(options, wanted, partitions, lookup, log_ends)


def _resolved_start(
    options: SourceOptions,
    wanted: Mapping[TopicPartition, int],
    partitions: Sequence[TopicPartition],
    lookup: OffsetLookup,
    log_ends: LogEnds,
) -> dict[TopicPartition, int]:
    found = _looked_up(wanted, partitions, lookup, is_time=options.start.timestamps_ms is not None)
    late = [partition for partition in partitions if found[partition] < 0]
    if late and not options.use_latest_after_last_timestamp:
        raise StartError(
            f"no record of {late[0]} is at or after its starting timestamp {wanted[late[0]]}; "
            "set startingOffsetsByTimestampStrategy to latest to start at the end"
        )
    return _with_log_ends(found, late, log_ends)


def not_before(
    begin: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    log_ends: LogEnds,
) -> dict[TopicPartition, int]:
    """The latest offsets, but not before the beginning if the log reaches that far, because nothing is lost then: a
    reader of uncommitted records was ahead of the last stable offset, and the records that it has not read are not
    committed yet."""
    ahead = [partition for partition in latest if begin[partition] > latest[partition]]
    ends = log_ends(ahead) if ahead else {}
    return {**latest, **{partition: begin[partition] for partition in ahead if begin[partition] <= ends[partition]}}


def resolve_end(
    options: SourceOptions, partitions: Sequence[TopicPartition], lookup: OffsetLookup, log_ends: LogEnds
) -> dict[TopicPartition, int]:
    """The end offset of every partition, exclusive."""
    wanted = _wanted(options.end, partitions, "ending")
    found = _looked_up(wanted, partitions, lookup, is_time=options.end.timestamps_ms is not None)
    return _with_log_ends(found, [partition for partition in partitions if found[partition] < 0], log_ends)


def check_first_batch(options: SourceOptions, end: StreamOffset) -> None:
    """Raises StartError for an unfinished first batch of Spark's own connector, unless the options give its start: that
    connector stores the start in a file that a Python source cannot read."""
    by_words = options.start.offsets is not None or options.start.position == EARLIEST
    if end.first_start is None and not end.topic_ids and (options.starting_group is not None or not by_words):
        raise StartError(
            "the first batch of this checkpoint was planned by Spark's own Kafka connector and is not finished: set "
            "startingOffsets to the JSON in the file sources/0/0 of the checkpoint, where that batch starts"
        )


def check_bounds(
    ranges: Iterable[PartitionRange], lookup: OffsetLookup, *, fail_on_data_loss: bool
) -> tuple[list[PartitionRange], list[str]]:
    """The ranges without lost offsets, and the losses as sentences. Empty ranges are left out.

    `lookup` omits partitions that are gone. Raises DataLossError with those sentences if anything was lost and
    `fail_on_data_loss`.
    """
    asked = list(ranges)
    earliest = lookup({span.topic_partition: EARLIEST for span in asked}) if asked else {}
    kept: list[PartitionRange] = []
    losses: list[str] = []
    for span in asked:
        first = earliest.get(span.topic_partition)
        if first is None:
            losses.append(f"{span.topic_partition} is gone")
            continue
        if span.size < 0:
            losses.append(
                f"{span.topic}-{span.partition}: the next offset to read was {span.start_offset}, "
                f"but the partition ends at {span.end_offset}"
            )
            continue
        if span.start_offset < first and span.size:
            last = min(first, span.end_offset) - 1
            gone = f"offsets {span.start_offset} to {last} are" if last > span.start_offset else f"offset {last} is"
            losses.append(f"{span.topic}-{span.partition}: {gone} gone")
        kept.append(msgspec.structs.replace(span, start_offset=max(span.start_offset, first)))
    raise_losses(losses, fail_on_data_loss=fail_on_data_loss)
    return [span for span in kept if span.size > 0], losses


def raise_losses(losses: Sequence[str], *, fail_on_data_loss: bool) -> None:
    """Raises DataLossError if there is a loss and `fail_on_data_loss`."""
    if losses and fail_on_data_loss:
        shown = "; ".join(losses[:10])
        raise DataLossError(f"records were lost: {shown}. To continue without them, set failOnDataLoss to false")


def limit_offsets(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], max_offsets: int
) -> dict[TopicPartition, int]:
    """End offsets with about `max_offsets` in total at most, shared in proportion to the waiting offsets of each
    partition.

    A partition with waiting offsets gets at least one, so that none starves (as in Spark's connector).
    """
    sizes = {partition: max(0, end[partition] - start.get(partition, 0)) for partition in end}
    total = sum(sizes.values())
    if total <= max_offsets:
        return dict(end)
    limited: dict[TopicPartition, int] = {}
    for partition, size in sizes.items():
        share = max_offsets * size // total
        begin = start.get(partition, 0)
        limited[partition] = min(end[partition], begin + max(share, 1)) if size else end[partition]
    return limited


def is_delayed(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    *,
    min_offsets: int | None,
    since_last_batch_ms: int,
    max_delay_ms: int,
) -> bool:
    """Whether too few offsets wait for a batch, and the last batch is not yet `max_delay_ms` ago."""
    if min_offsets is None or since_last_batch_ms >= max_delay_ms:
        return False
    return sum(max(0, end[partition] - start.get(partition, 0)) for partition in end) < min_offsets


def plan_tasks(
    ranges: Sequence[PartitionRange],
    *,
    parallelism: int,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[tuple[PartitionRange, ...]]:
    """The ranges for each task.

    Without the two options: whole topic-partitions, packed into at most `parallelism` tasks of about equal size, so a
    partition's records stay in one task, in order. `min_partitions`: at least that many tasks. `max_records`: at most
    this many offsets in each. Both split large ranges.
    """
    wanted = [span for span in ranges if span.size > 0]
    if not wanted:
        return []
    total = sum(span.size for span in wanted)
    if max_records is not None:
        wanted = [piece for span in wanted for piece in _cut(span, -(-span.size // max_records))]
    if min_partitions is not None and min_partitions > len(wanted):
        parts = {span: max(1, -(-span.size * min_partitions // total)) for span in wanted}
        return [(piece,) for span, count in parts.items() for piece in _cut(span, count)]
    if max_records is not None:
        return [(span,) for span in wanted]
    tasks = min(parallelism, len(wanted), max(1, -(-total // SMALL_TASK_OFFSETS)))
    if min_partitions is not None:
        tasks = max(tasks, min(min_partitions, len(wanted)))
    packed: list[list[PartitionRange]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    for span in sorted(wanted, key=lambda one: (-one.size, one.topic, one.partition)):
        lightest = loads.index(min(loads))
        packed[lightest].append(span)
        loads[lightest] += span.size
    return [tuple(sorted(task, key=lambda one: (one.topic, one.partition))) for task in packed]


def recreated_topics(before: TopicIds, now: TopicIds) -> list[str]:
    """Topics that now have a different id. An id of zeros (a broker before Kafka 2.8) means unknown."""
    return [
        topic
        for topic, topic_id in sorted(before.items())
        if topic_id != ZERO_UUID and now.get(topic, ZERO_UUID) not in (ZERO_UUID, topic_id)
    ]


def _wanted(bound: StartOrEnd, partitions: Sequence[TopicPartition], which: str) -> dict[TopicPartition, int]:
    """The requested offset or time for each partition. Raises StartError unless a list names exactly the partitions
    that are read."""
    if bound.position is not None:
        return dict.fromkeys(partitions, bound.position)
    times = bound.timestamps_ms
    if times is not None and None in times:
        return dict.fromkeys(partitions, times[None])
    named: dict[TopicPartition, int] = {}
    if times is not None:
        named = {partition: time for partition, time in times.items() if partition is not None}
    elif bound.offsets is not None:
        named = bound.offsets
    if sorted(named) != sorted(partitions):
        raise StartError(
            f"{which} offsets must name every partition that is read, and no other (-1 is latest, -2 earliest): "
            f"they name {offsets_to_json(named)}, read are {', '.join(map(str, partitions))}"
        )
    return dict(named)


def _looked_up(
    wanted: Mapping[TopicPartition, int],
    partitions: Sequence[TopicPartition],
    lookup: OffsetLookup,
    *,
    is_time: bool,
) -> dict[TopicPartition, int]:
    asked = {partition: wanted[partition] for partition in partitions if is_time or wanted[partition] < 0}
    answers = lookup(asked) if asked else {}
    return {partition: answers.get(partition, wanted[partition]) for partition in partitions}


def _with_log_ends(
    found: dict[TopicPartition, int], late: Sequence[TopicPartition], log_ends: LogEnds
) -> dict[TopicPartition, int]:
    """For a partition without a record that late, the end of the log: all of its records, also uncommitted ones, are
    before the time."""
    return {**found, **log_ends(late)} if late else found


def _cut(span: PartitionRange, parts: int) -> list[PartitionRange]:
    bounds = [span.start_offset + span.size * part // parts for part in range(parts + 1)]
    pieces = [msgspec.structs.replace(span, start_offset=begin, end_offset=end) for begin, end in pairwise(bounds)]
    return [piece for piece in pieces if piece.size > 0]
