"""A log that is compacted in place: shortcuts to write keys, run a round, and read the result."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.core.log.cleaning.cleanable import find_cleanable, plan_round
from moldau.core.log.cleaning.compaction import CompactionPlan, CompactionResult, compact, flush_cleaned
from moldau.core.log.log import Log
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from moldau.wire.records.control import end_of_transaction
from moldau.wire.records.record import Record, read_records

DEDUPE_BYTES = 1 << 20


def keyed(*pairs: tuple[str, str | None], timestamp_ms: int, **fields: object) -> bytearray:
    """A batch with these keys and values; None is a tombstone."""
    rows = [(key.encode(), None if value is None else value.encode(), timestamp_ms, ()) for key, value in pairs]
    return bytearray(build_batch(rows, **fields))  # type: ignore[arg-type]


def begin_round(
    log: Log, now_ms: int, cleaned_offset: int = 0, *, nonce: str = "0a", dedupe_bytes: int = DEDUPE_BYTES
) -> tuple[CompactionPlan, CompactionResult]:
    """The first half of a round: the `.cleaned` files exist and are durable."""
    cleanable = find_cleanable(log, cleaned_offset, log.log_end_offset, now_ms)
    plan = plan_round(
        log, cleanable, now_ms=now_ms, nonce=nonce, dedupe_buffer_bytes=dedupe_bytes, io_buffer_bytes=4096
    )
    steps = compact(log.disk, plan)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: CompactionResult = end.value
            break
    flush_cleaned(log.disk, plan, result)
    return plan, result


def run_round(log: Log, now_ms: int, cleaned_offset: int = 0, *, dedupe_bytes: int = DEDUPE_BYTES) -> CompactionResult:
    """One whole round."""
    plan, result = begin_round(log, now_ms, cleaned_offset, dedupe_bytes=dedupe_bytes)
    for segment in result.segments:
        assert log.replace_segments(plan, segment, now_ms)
    return result


def batches(log: Log) -> list[bytes]:
    """Every batch of the log, by fetches of 2,000 bytes."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, max_bytes=2000, end_offset=log.log_end_offset).records
        if not records:
            break
        data = bytes(records)
        for position, header in iterate_batches(data):
            found.append(data[position : position + header.size])
            offset = header.next_offset
    return found


def records(log: Log) -> list[Record]:
    return [record for batch in batches(log) for record in read_records(batch)]


def content(log: Log) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of every record."""
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in records(log)
    ]


def committed_records(log: Log, stable_offset: int) -> Iterator[tuple[int, str, str | None]]:
    """(offset, key, value), as a consumer with `isolation.level=read_committed`, by fetches of 700 bytes."""
    offset = log.log_start_offset
    while offset < stable_offset:
        read = log.read(offset, max_bytes=700, end_offset=stable_offset).records
        if not read:
            return
        data = bytes(read)
        headers = list(iterate_batches(data))
        entries = log.aborted_transactions(offset, headers[-1][1].next_offset)
        waiting = sorted(entries, key=lambda entry: entry.first_offset)
        aborted: set[int] = set()
        for position, header in headers:
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            batch = data[position : position + header.size]
            if header.is_control:
                marker = end_of_transaction(batch)
                if marker is not None and not marker.is_commit:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                for record in read_records(batch):
                    if record.offset >= offset:
                        value = None if record.value is None else record.value.decode()
                        yield record.offset, (record.key or b"").decode(), value
            offset = header.next_offset
