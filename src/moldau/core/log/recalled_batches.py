"""The last five batches of each producer, found again in the log after a start from a snapshot.

Kafka's snapshot file keeps one batch of a producer. A client with five requests in flight whose answers were lost with
the connection repeats all five after the restart: the older four would be refused as a gap (45), which ends an
idempotent producer of librdkafka for good. They lie near the end of the log, so their headers are read from there.
"""

from __future__ import annotations

from moldau.core.log.producer_state import KEPT_BATCHES, ProducedBatch, ProducerState
from moldau.core.log.segment import Segment, load_offset_index
from moldau.wire.records.batch import CONTROL_FLAG, HEADER, HEADER_SIZE, LENGTH_OVERHEAD

TAIL_BYTES = 4 << 20
"""How far back is looked: the answers of five requests of the usual largest size fit."""

RECENT_MS = 600_000
"""Producers that wrote nothing for longer repeat nothing (Kafka's delivery.timeout.ms is 120 s)."""

_MAX_SEQUENCE = 0x7FFFFFFF
_READ_BYTES = 512 << 10
_unpack_header = HEADER.unpack_from


def recall_batches(segments: list[Segment], producers: ProducerState, end_offset: int, now_ms: int) -> None:
    """Completes the state that was just loaded at `end_offset` from the batches below it. Waits for the disk."""
    wanted = {
        producer_id: entry
        for producer_id, entry in producers.entries.items()
        if len(entry.batches) == 1 and entry.batches[0][0] > 0 and now_ms - entry.last_timestamp_ms <= RECENT_MS
    }
    if not wanted:
        return
    found: dict[tuple[int, int], list[ProducedBatch]] = {}
    budget = TAIL_BYTES
    for segment in reversed(segments):
        if segment.base_offset >= end_offset or budget <= 0:
            continue
        start = load_offset_index(segment).floor_position(max(0, segment.size - budget))
        budget -= segment.size - start
        older = _produced_batches(segment, start, end_offset)
        for key, batches in older.items():
            found[key] = batches + found.get(key, [])
    for producer_id, entry in wanted.items():
        known = entry.batches[0]
        for batch in reversed(found.get((producer_id, entry.epoch), [])):
            is_before = (batch[1] + 1) & _MAX_SEQUENCE == known[0] and batch[2] < known[2]
            if is_before and len(entry.batches) < KEPT_BATCHES:
                entry.batches.insert(0, batch)
                known = batch


def _produced_batches(segment: Segment, start: int, end_offset: int) -> dict[tuple[int, int], list[ProducedBatch]]:
    """The batches of producers in one segment from position `start` on, by producer id and epoch, oldest first."""
    batches: dict[tuple[int, int], list[ProducedBatch]] = {}
    position, length = start, _READ_BYTES
    while position + HEADER_SIZE <= segment.size:
        data = segment.file.read(position, length)
        local = 0
        while local + HEADER_SIZE <= len(data):
            first, size, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = _unpack_header(
                data, local
            )
            if size < HEADER_SIZE - LENGTH_OVERHEAD or first >= end_offset:
                return batches
            if producer_id >= 0 and not attributes & CONTROL_FLAG:
                batch = (sequence, (sequence + delta) & _MAX_SEQUENCE, first + delta, delta, timestamp)
                batches.setdefault((producer_id, epoch), []).append(batch)
            local += size + LENGTH_OVERHEAD
        if local == 0:
            break
        position += local
    return batches
