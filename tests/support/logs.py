"""Operations of tests on a partition's log."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.core.log.directories.moving import FutureLog
from moldau.core.log.log import Log
from moldau.wire.records.batch import BatchHeader, iterate_batches
from moldau.wire.records.record import Record, read_records


def flush(log: Log | FutureLog, now_ms: int) -> None:
    """Makes everything in the log durable, as a broker's flusher does."""
    plan = log.unflushed()
    if plan is not None:
        plan.run()
        log.mark_flushed(plan, now_ms)


def records_from(log: Log, offset: int) -> bytes:
    """The batches from the one that holds the offset on, up to a MiB."""
    return bytes(log.read(offset, max_bytes=1 << 20, end_offset=log.log_end_offset, may_wait=True).records or b"")


def batches_in(log: Log) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch of the log, without its header."""
    offset = log.log_start_offset
    while offset < log.log_end_offset and (data := records_from(log, offset)):
        for position, header in iterate_batches(data):
            offset = header.next_offset
            yield header, data[position : position + header.size]


def records_in(log: Log) -> list[Record]:
    """Every client record."""
    return [record for header, batch in batches_in(log) if not header.is_control for record in read_records(batch)]
