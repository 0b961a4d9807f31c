"""A partition that lies in two log directories: which one stays.

A move (see moving) copies a log, gives the copy its name, and takes the old directory away once the copy is durable. A
crash in between leaves both. When the process died, the copy has all that the old log has, and what was appended since.
When the machine died, the copy may have lost anything; then nothing that it alone had was promised, for the first flush
of the copy makes all of it durable. So the longer one stays, except for a compacted log that lacks a batch in its
middle: there holes are allowed, and recovery cannot see the loss. While both exist neither is compacted.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.core.log.log import Log
from moldau.types import ZERO_UUID, Uuid
from moldau.wire.records.batch import iterate_batches

_READ_BYTES = 1 << 20


def is_first_kept(first: Log, second: Log, topic_id: Uuid, is_second_assigned: bool) -> bool:
    """Of two logs just opened. `topic_id`: what the metadata knows under the name, ZERO_UUID if nothing; a log of
    another topic goes. `is_second_assigned`: the metadata names the directory of `second`, which decides between two
    equals.
    """
    if topic_id != ZERO_UUID:
        is_first_ours = first.topic_id in (topic_id, ZERO_UUID)
        is_second_ours = second.topic_id in (topic_id, ZERO_UUID)
        if is_first_ours != is_second_ours:
            return is_first_ours
    if first.settings.is_compacted:
        has_first_hole, has_second_hole = _lacks_a_batch_of(first, second), _lacks_a_batch_of(second, first)
        if has_first_hole != has_second_hole:
            return has_second_hole
    if first.log_end_offset != second.log_end_offset:
        return first.log_end_offset > second.log_end_offset
    return not is_second_assigned


def _lacks_a_batch_of(log: Log, other: Log) -> bool:
    """Whether `other` holds a batch, before the end of `log`, that `log` does not."""
    start_offset = max(log.log_start_offset, other.log_start_offset)
    own = _last_offsets(log, start_offset)
    mine = next(own, -1)
    for offset in _last_offsets(other, start_offset):
        if offset >= log.log_end_offset:
            return False
        while 0 <= mine < offset:
            mine = next(own, -1)
        if mine != offset:
            return True
    return False


def _last_offsets(log: Log, start_offset: int) -> Iterator[int]:
    """Of each batch from `start_offset` on; waits for the disk."""
    offset = start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=_READ_BYTES, end_offset=log.log_end_offset, may_wait=True).records
        if not data:
            return
        begin = offset
        for _, header in iterate_batches(data):
            yield header.last_offset
            offset = header.next_offset
        if offset == begin:
            return
