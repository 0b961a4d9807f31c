"""Finds the last five batches of each producer in the log, after a start from a snapshot.

Kafka's snapshot file has one batch of each producer. A client with five requests in flight repeats all five after the
restart. The older four would be rejected as a gap (45), which ends an idempotent producer of librdkafka. They are near
the end of the log, so their headers are read there.
"""

from __future__ import annotations

from contextlib import suppress

from moldau.core.log.files.segment import Segment, load_offset_index
from moldau.core.log.producer_state import KEPT_BATCHES, ProducedBatch, ProducerState
from moldau.core.log.recovery.damage import DamagedBatchError, follow_batches
from moldau.wire.records.batch import CONTROL_FLAG

TAIL_BYTES = 4 << 20
"""The bytes that are searched: enough for five requests of the usual largest size."""

RECENT_MS = 600_000
"""Producers that were silent for longer do not retry (Kafka's delivery.timeout.ms is 120 s)."""

_MAX_SEQUENCE = 0x7FFFFFFF


def recall_batches(segments: list[Segment], producers: ProducerState, end_offset: int, now_ms: int) -> None:
    """Completes the state that was loaded at `end_offset`, from the batches below. Waits for the disk."""
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
    with suppress(DamagedBatchError):  # after damage, a repeated batch of a producer may count as new
        for _, fields in follow_batches(segment.file, start, segment.size):
            first, attributes, delta, timestamp, producer_id = fields[0], fields[5], fields[6], fields[8], fields[9]
            epoch, sequence = fields[10], fields[11]
            if first >= end_offset:
                break
            if producer_id >= 0 and not attributes & CONTROL_FLAG:
                batch = (sequence, (sequence + delta) & _MAX_SEQUENCE, first + delta, delta, timestamp)
                batches.setdefault((producer_id, epoch), []).append(batch)
    return batches
