"""Which copy of a partition stays if two log directories have it.

A move (see moving) copies a log, renames the copy, and removes the old directory after the copy is durable. A crash in
between leaves both. If the process died, the copy has everything of the old log, and later appends. If the machine
died, the copy may have lost unflushed records, and recovery cut it there. So the longer one stays. While both exist,
neither is compacted.

A directory may also return after its partition began again in another one, by an unclean election. Then the other one
has the later leader epoch, and stays however short it is.
"""

from __future__ import annotations

from moldau.core.log.log import Log
from moldau.errors import ProtocolError
from moldau.types import ZERO_UUID, Uuid
from moldau.wire.records.batch import BatchHeader, read_header


def is_first_kept(first: Log, second: Log, topic_id: Uuid, is_second_assigned: bool) -> bool:
    """Whether `first` stays of two opened logs. `topic_id`: in the metadata, ZERO_UUID if unknown; a log of another
    topic is removed. `is_second_assigned`: the metadata names the directory of `second`, which decides between two
    equals."""
    if topic_id != ZERO_UUID:
        is_first_ours = first.topic_id in (topic_id, ZERO_UUID)
        is_second_ours = second.topic_id in (topic_id, ZERO_UUID)
        if is_first_ours != is_second_ours:
            return is_first_ours
    is_first_anew = is_other_history(first, second)
    if is_first_anew or is_other_history(second, first):
        return is_first_anew
    if first.log_end_offset != second.log_end_offset:
        return first.log_end_offset > second.log_end_offset
    return not is_second_assigned


def is_other_history(kept: Log, loser: Log) -> bool:
    """Whether `kept` has records of a later epoch where `loser` has older ones, so the offsets of `loser` say nothing
    about `kept`."""
    known = loser.leader_epochs.latest_epoch
    later = [start_offset for epoch, start_offset in kept.leader_epochs.entries if epoch > known]
    return bool(later) and later[0] < loser.log_end_offset and not _is_epoch_damaged(kept, loser, later[0])


def _is_epoch_damaged(kept: Log, loser: Log, offset: int) -> bool:
    """Whether only the last batch of `kept`, at `offset`, has the later epoch, and `loser` has the same batch there. No
    checksum covers the epoch of a batch, so that is a flipped bit; `loser` has all that `kept` has in any case."""
    last, other = _batch_at(kept, offset), _batch_at(loser, offset)
    if last is None or other is None:
        return False
    is_same = (last.base_offset, last.size, last.crc) == (other.base_offset, other.size, other.crc)
    return is_same and last.next_offset == kept.log_end_offset


def _batch_at(log: Log, offset: int) -> BatchHeader | None:
    try:
        records = log.read(offset, 1, log.log_end_offset, may_wait=True).records
    except ProtocolError:
        return None
    return read_header(records) if records else None
