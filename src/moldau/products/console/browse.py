"""Searches the records of a topic from an offset, a time or an end, with a filter. Joins no group and commits nothing;
time and records are bounded."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.cluster import TIMEOUT_S, ClusterError, PartitionFacts, TopicFacts
from moldau.products.console.core.browsing import Question
from moldau.products.console.tail import make_consumer

READ_TIMEOUT_S = 5.0
MAX_SCANNED = 50_000
"""How many records one page examines. A filter that matches few records stops there, and the page says so."""
MAX_HELD_BYTES = 64 << 20
"""The total size of the values that one page holds."""
FURTHER_BACK = 4
"""Each further look back goes this many times as far."""
STEP = 500

Age = tuple[int, int, int]
"""Timestamp, partition and offset: unique for each record."""


class Found(msgspec.Struct, frozen=True):
    """`next_offsets`: the start of the next page, empty at the end of the topic. `is_complete`: the whole request was
    read; otherwise `scanned` records were examined before a bound was reached. `unread`: the number of requested
    partitions that were not read, because they have no leader or are too many."""

    messages: list[Message]
    next_offsets: dict[int, int]
    scanned: int
    is_complete: bool
    unread: int = 0


class _Look(msgspec.Struct, frozen=True):
    """The result of one look back. `has_ended`: it reached the ends of all partitions. `may_go_further`: a look from
    further back may find more."""

    found: Found
    has_ended: bool
    may_go_further: bool


class Browser:
    """The consumer of one question; use it from one thread, and `close` it. `topic`: contains only the partitions to
    read."""

    def __init__(self, access: ClusterAccess, topic: TopicFacts) -> None:
        self._topic = topic
        self._consumer = make_consumer(
            access,
            "browse",
            {
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "queued.max.messages.kbytes": 16_384,
                "fetch.message.max.bytes": 1_048_576,
                "fetch.wait.max.ms": 100,
            },
        )

    def close(self) -> None:
        self._consumer.close()

    def find(self, question: Question) -> Found:
        """The records that `question` asks for. Raises ClusterError."""
        chosen = [each for each in self._topic.partitions if each.start is not None and each.end is not None]
        try:
            if question.start == "end" and not question.next_offsets:
                return self._newest(chosen, question)
            starts = self._starts(chosen, question)
            ends = {each.index: each.end or 0 for each in chosen}
            return self._oldest(starts, ends, question)
        except KafkaException as exception:
            raise ClusterError(exception.args[0].str()) from None

    def _starts(self, chosen: list[PartitionFacts], question: Question) -> dict[int, int]:
        first = {each.index: each.start or 0 for each in chosen}
        if question.next_offsets:
            asked = dict(question.next_offsets)
            return {index: max(start, asked[index]) for index, start in first.items() if index in asked}
        if question.start == "offset":
            return {index: max(start, question.offset) for index, start in first.items()}
        if question.start == "time":
            wanted = [TopicPartition(self._topic.name, index, question.timestamp_ms) for index in first]
            ends = {each.index: each.end or 0 for each in chosen}
            found = self._consumer.offsets_for_times(wanted, timeout=TIMEOUT_S) if wanted else []
            # -1 means that every record is older: begin at the partition's end.
            return {each.partition: each.offset if each.offset >= 0 else ends[each.partition] for each in found}
        return first

    def _oldest(self, starts: dict[int, int], ends: dict[int, int], question: Question) -> Found:
        """Reads forward from `starts`; returns the oldest of the records that were read, over all partitions."""
        spans = {index: (start, ends[index]) for index, start in starts.items() if start < ends[index]}
        by_partition: dict[int, list[Message]] = {index: [] for index in spans}
        next_offsets: dict[int, int] = {}
        scanned = held_bytes = 0
        for message in self._read(spans, time.monotonic() + READ_TIMEOUT_S):
            scanned += 1
            partition = message.partition() or 0
            if _is_taken(question, message):
                if len(by_partition[partition]) < question.count:
                    by_partition[partition].append(message)
                    held_bytes += len(message.value() or b"")
                else:
                    next_offsets.setdefault(partition, message.offset() or 0)
            is_full = all(len(by_partition[index]) >= question.count for index in spans)
            if is_full or scanned >= MAX_SCANNED or held_bytes >= MAX_HELD_BYTES:
                break
        next_offsets = {index: span[0] for index, span in spans.items()} | next_offsets
        shown = list(heapq.merge(*by_partition.values(), key=_age))[: question.count]
        shown_count = Counter(message.partition() or 0 for message in shown)
        for index, messages in by_partition.items():
            if shown_count[index] < len(messages):
                next_offsets[index] = messages[shown_count[index]].offset() or 0
        return Found(shown, next_offsets, scanned, not spans or len(shown) >= question.count)

    def _newest(self, chosen: list[PartitionFacts], question: Question) -> Found:
        """The last records, newest first, from at most MAX_SCANNED offsets.

        Reads the last `count` offsets of each partition, because one partition may have all of the newest records.
        Offsets may be without a record (transaction markers, aborted records, compaction), or the filter may reject the
        records: then it reads from further back.
        """
        holding = [each for each in chosen if (each.start or 0) < (each.end or 0)]
        most = max(1, MAX_SCANNED // max(1, len(holding)))
        share = most if question.has_filter else min(most, question.count)
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        look = self._look_back(holding, question, share, deadline_s)
        while not look.found.is_complete and look.may_go_further and share < most:
            share = min(most, FURTHER_BACK * share)
            further = self._look_back(holding, question, share, deadline_s)
            if not further.has_ended:
                # it ran out of time before it reached the records of the earlier look, because it reads the oldest
                # first
                break
            look = further
        return look.found

    def _look_back(self, holding: list[PartitionFacts], question: Question, share: int, deadline_s: float) -> _Look:
        """The newest records among the last `share` offsets of each partition."""
        spans: dict[int, tuple[int, int]] = {}
        cut: set[int] = set()
        for each in holding:
            start, end = each.start or 0, each.end or 0
            spans[each.index] = (max(start, end - share), end)
            if end - share > start:
                cut.add(each.index)
        newest: list[tuple[Age, Message]] = []
        oldest: dict[int, Age] = {}
        left_out: Age | None = None
        scanned = held_bytes = 0
        for message in self._read(spans, deadline_s):
            scanned += 1
            if not _is_taken(question, message):
                continue
            age, partition = _age(message), message.partition() or 0
            oldest[partition] = min(age, oldest.get(partition, age))
            if left_out is not None and age < left_out:
                continue
            held_bytes += len(message.value() or b"")
            # One heap for all partitions bounds the memory: each may hold that many, and values may be large.
            heapq.heappush(newest, (age, message))
            while len(newest) > question.count or (held_bytes > MAX_HELD_BYTES and len(newest) > 1):
                if len(newest) <= question.count:
                    left_out = newest[0][0]
                held_bytes -= len(heapq.heappop(newest)[1].value() or b"")
        # Unread records of a partition are older than its read ones. They cannot belong to the page if it is full and
        # its last record is no older than one of that partition.
        is_full = len(newest) == question.count
        are_settled = all(is_full and index in oldest and oldest[index] <= newest[0][0] for index in cut)
        shown = [message for _, message in sorted(newest, key=itemgetter(0), reverse=True)]
        found = Found(shown, {}, scanned, not spans and left_out is None and are_settled)
        return _Look(found, has_ended=not spans, may_go_further=not spans and left_out is None)

    def _read(self, spans: dict[int, tuple[int, int]], deadline_s: float) -> Iterator[Message]:
        """The records of `spans` (start, end). Removes a span once its end is reached."""
        if spans:
            self._consumer.assign([TopicPartition(self._topic.name, index, span[0]) for index, span in spans.items()])
        while spans and time.monotonic() < deadline_s:
            for message in self._consumer.consume(STEP, 0.1):
                partition, offset = message.partition() or 0, message.offset() or 0
                if partition not in spans:
                    continue
                if message.error() is not None:
                    # The end is also reached if only markers or gaps of compaction are left before it.
                    if message.error().code() == KafkaError._PARTITION_EOF:
                        spans.pop(partition)
                    continue
                end = spans[partition][1]
                spans.pop(partition)
                if offset + 1 < end:
                    spans[partition] = (offset + 1, end)
                if offset < end:
                    yield message


def _is_taken(question: Question, message: Message) -> bool:
    headers = [(name, value if isinstance(value, bytes) else None) for name, value in message.headers() or []]
    return question.takes(message.key(), message.value(), headers)


def _age(message: Message) -> Age:
    kind, timestamp_ms = message.timestamp()
    return (timestamp_ms if kind else -1, message.partition() or 0, message.offset() or 0)
