"""Opens the files of a partition, after a clean stop or after a crash.

After a clean stop only the tail of the last segment is read. After a crash every segment from the one with the recovery
point on is read whole: each batch must follow the last one, with a right CRC and a new offset. At the first wrong byte,
at or above the recovery point, the log is cut and the rest is kept in another file (see cut); it was never promised.
Below the recovery point, or after a clean stop, everything was on the disk: damage there is not from a crash, and the
log is not opened. Indexes, leader epochs and producer state of the read part are rebuilt.
"""

from __future__ import annotations

import msgspec

from moldau.core.log.cleaning.swap import finish_swaps
from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.checkpoint import RECOVERY_POINT_CHECKPOINT
from moldau.core.log.files.offset_index import OffsetIndex
from moldau.core.log.files.old_formats import refuse_old_format
from moldau.core.log.files.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    base_offsets,
    flush_file,
    parse_base_offset,
    save_transactions,
    segment_file_name,
    write_whole_file,
)
from moldau.core.log.files.time_index import TimeIndex
from moldau.core.log.files.transaction_index import AbortedTransaction
from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.log.producer_state import ProducerState
from moldau.core.log.recovery.cut import CrashLimit, Cut, cut_tail, set_aside
from moldau.core.log.recovery.damage import MIN_BATCH_LENGTH, DamagedBatchError
from moldau.core.log.recovery.inspection import (
    check_first_segment,
    first_whole_batch,
    is_end_sound,
    load_leader_epochs,
    repair_indexes,
)
from moldau.core.log.recovery.recalled_epochs import check_latest_epoch, recall_epochs
from moldau.core.log.recovery.replay import rebuild_producers, repair_transactions, take_in_batch
from moldau.core.log.recovery.rewriting import rewrite_unflushed
from moldau.core.log.settings import LogSettings
from moldau.errors import DamagedLogError
from moldau.ports import Disk, File
from moldau.wire.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
)
from moldau.wire.records.crc import crc32c

_CHUNK_BYTES = 512 << 10
_TEMPORARY_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")
_unpack_header = HEADER.unpack_from


class LoadedLog(msgspec.Struct):
    """The opened files. `cuts`: the parts that recovery removed from the log, and their files."""

    segments: list[Segment]
    next_offset: int
    leader_epochs: LeaderEpochs
    producers: ProducerState
    recovery_point: int
    health: DirectoryHealth
    may_have_holes: bool
    cleaned_offset: int
    cuts: list[Cut] = msgspec.field(default_factory=list)
    is_clean: bool = False
    """The files are unchanged since a clean stop: no segment was recovered."""
    is_rewritten: bool = False
    """Unflushed data is written again, see rewriting."""


class RecoveryPlan(msgspec.Struct, frozen=True):
    """What the checkpoints of the directory say about a log, and how strictly its files are read."""

    is_clean: bool = False
    """The last stop was clean."""
    recovery_point: int = 0
    """Every record below is on the disk. 0: unknown."""
    log_start_offset: int = 0
    cleaned_offset: int = 0
    """Compaction may have removed records below. 0: never, NO_LIMIT: unknown."""
    is_read_whole: bool = False
    """Also checks the records below the recovery point."""
    refuses_damage: bool = True
    """False for a repair: the log is cut at the first damage, even below the recovery point."""
    is_rewritten: bool = False
    """After a failed flush, see rewriting."""


def load_log(
    disk: Disk,
    directory: str,
    settings: LogSettings,
    *,
    now_ms: int,
    plan: RecoveryPlan,
    health: DirectoryHealth,
) -> LoadedLog:
    """Reads the directory of a partition, which must exist. `health` notes damaged files and rebuilt ones.

    Raises DamagedLogError for damage below the recovery point, StorageFailedError for unreadable files.
    """
    names = _tidy(disk, directory, disk.list_directory(directory), health)
    bases = base_offsets(names, LOG_SUFFIX)
    segments = [_existing_segment(disk, directory, base, now_ms, settings) for base in bases]
    for segment, next_base in zip(segments, bases[1:], strict=False):
        segment.next_offset = next_base
    loaded = LoadedLog(
        segments=segments,
        next_offset=max(plan.log_start_offset, 0),
        leader_epochs=LeaderEpochs(),
        producers=ProducerState(settings.max_producer_ids),
        recovery_point=plan.recovery_point,
        health=health,
        may_have_holes=settings.is_compacted or plan.cleaned_offset > 0,
        cleaned_offset=plan.cleaned_offset,
        is_rewritten=plan.is_rewritten,
    )
    try:
        # a flush writes the epochs file before it moves the recovery point
        flushed = [segment for segment in segments if segment.base_offset < plan.recovery_point or plan.is_clean]
        loaded.leader_epochs = load_leader_epochs(disk, directory, flushed, health)
        _load(loaded, directory, names, settings, now_ms, plan)
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    return loaded


def _load(
    loaded: LoadedLog, directory: str, names: list[str], settings: LogSettings, now_ms: int, plan: RecoveryPlan
) -> None:
    segments, recovery_point, log_start_offset = loaded.segments, loaded.recovery_point, plan.log_start_offset
    if segments:
        first = len(segments) - 1
        if plan.is_read_whole:
            first = 0
        elif not plan.is_clean:
            while first > 0 and segments[first].base_offset > recovery_point:
                first -= 1
        _load_segments(loaded, names, first, settings, now_ms, plan)
    if loaded.next_offset < log_start_offset:
        _set_segments_aside(loaded, 0, loaded.next_offset)
        loaded.next_offset = log_start_offset
        loaded.producers.clear(log_start_offset)
    if loaded.next_offset < recovery_point and plan.refuses_damage:
        # the recorded offset of the metadata log has a checksum, the recovery point of other logs has none
        doubt = "" if plan.is_read_whole else f", or {RECOVERY_POINT_CHECKPOINT} is damaged"
        raise DamagedLogError(
            f"{directory} ends at offset {loaded.next_offset}, but everything below offset {recovery_point} was on the "
            f"disk: files are missing or shorter than they were{doubt}; see `moldau log repair --help`"
        )
    loaded.recovery_point = min(loaded.recovery_point, loaded.next_offset)
    loaded.leader_epochs.truncate_from_end(loaded.next_offset)
    if plan.is_clean:
        check_first_segment(segments, loaded.leader_epochs, loaded.health)
    loaded.leader_epochs = check_latest_epoch(segments, loaded.leader_epochs, loaded.health)
    recall_epochs(segments, loaded.leader_epochs, log_start_offset)


def _load_segments(
    loaded: LoadedLog, names: list[str], first_unflushed: int, settings: LogSettings, now_ms: int, plan: RecoveryPlan
) -> None:
    segments, log_start_offset = loaded.segments, plan.log_start_offset
    is_tail_trusted = plan.is_clean and not plan.is_read_whole
    for segment in segments[:first_unflushed]:
        if is_end_sound(segment, loaded.may_have_holes):
            segment.is_index_saved = True
        else:
            repair_indexes(segment, settings.index_interval_bytes, loaded.health, loaded.may_have_holes)
    snapshots = base_offsets(names, SNAPSHOT_SUFFIX)
    loaded.is_clean = is_tail_trusted and _load_clean_tail(segments[-1], settings)
    trusted = segments if loaded.is_clean else segments[:first_unflushed]
    repair_transactions(
        trusted, segments, names, snapshots, now_ms, loaded.health, max_producer_ids=settings.max_producer_ids
    )
    start = segments[-1].next_offset if loaded.is_clean else segments[first_unflushed].base_offset
    rebuild_producers(
        loaded.producers, segments, snapshots, start, now_ms, loaded.health, log_start_offset=log_start_offset
    )
    if loaded.is_clean:
        loaded.next_offset = loaded.recovery_point = start
        return
    # these snapshots include batches that are read again below, and that may be cut
    for base in snapshots:
        if base > start:
            disk_path = f"{segments[0].directory}/{segment_file_name(base, SNAPSHOT_SUFFIX)}"
            segments[0].disk.remove(disk_path)
    for segment in segments[first_unflushed:]:
        segment.remove_index_files()
    # The checkpoint file may be older than a truncation. Epochs whose batches compaction removed are only there
    first = first_whole_batch(segments[first_unflushed])
    if first is None:
        loaded.leader_epochs.truncate_from_end(start)
    else:
        loaded.leader_epochs.keep_before(max(start, first[0]), first[1])
    flushed_offset = loaded.recovery_point
    if flushed_offset <= log_start_offset and not plan.is_clean:
        # the log was flushed while it was empty, and its first copied batch may begin below the log start
        flushed_offset = 0
    limit = CrashLimit(flushed_offset, plan.is_clean) if plan.refuses_damage else CrashLimit(0, False)
    _recover(loaded, first_unflushed, settings, now_ms, limit)


def _recover(loaded: LoadedLog, first: int, settings: LogSettings, now_ms: int, limit: CrashLimit) -> None:
    """Reads the segments from index `first` on and cuts at the first damage. Raises DamagedLogError if a crash cannot
    have caused the damage."""
    expected_offset = loaded.segments[first].base_offset
    for index in range(first, len(loaded.segments)):
        segment = loaded.segments[index]
        file_size = segment.file.size()
        is_tail_lost = segment.base_offset > expected_offset and not _may_be_hole(loaded, expected_offset, limit)
        if segment.base_offset < expected_offset or is_tail_lost:
            # No log writes overlapping segments. A lost tail of the previous segment was cut between two batches (or is
            # the whole file), so no CRC shows it. Later records were acknowledged after the lost ones
            before = loaded.segments[index - 1]
            limit.check(before, before.size, expected_offset)
            _set_segments_aside(loaded, index, expected_offset)
            break
        aborted = scan_segment(segment, settings, loaded.leader_epochs, loaded.producers, now_ms)
        segment.note_full_index()
        expected_offset = segment.next_offset
        if segment.size < file_size:
            refuse_old_format(segment, file_size)
            limit.check(segment, segment.size, expected_offset)
            # from the end to the start, so a crash in between leaves a log without a hole
            _set_segments_aside(loaded, index + 1, expected_offset)
            loaded.cuts.append(cut_tail(segment, expected_offset))
        if loaded.is_rewritten:
            rewrite_unflushed(segment, loaded.recovery_point)
        save_transactions(segment, aborted)
        if aborted:
            # the recovery point may already count this file as durable, before the next flush
            flush_file(segment.disk, segment.path(TRANSACTION_INDEX_SUFFIX))
            segment.disk.flush_directory(segment.directory)
        loaded.producers.map_end_offset = expected_offset
        if index + 1 < len(loaded.segments):
            segment.seal()
            # retention may delete this segment before the next stop, but its producers must stay known
            path = f"{segment.directory}/{segment_file_name(expected_offset, SNAPSHOT_SUFFIX)}"
            write_whole_file(segment.disk, path, loaded.producers.encode())
        if index + 1 >= len(loaded.segments):
            break
    loaded.next_offset = expected_offset
    loaded.recovery_point = min(loaded.recovery_point, expected_offset)


def _may_be_hole(loaded: LoadedLog, offset: int, limit: CrashLimit) -> bool:
    """Whether compaction may have removed the records from `offset` to the next segment. A round is flushed before the
    recovery point or the cleaner checkpoint. A segment begins where the log ends, also in a follower that copies holes,
    unless a hole is too long for an index."""
    is_crash_work = offset >= max(loaded.recovery_point, loaded.cleaned_offset) and not limit.is_clean
    return loaded.may_have_holes and not is_crash_work


def scan_segment(
    segment: Segment,
    settings: LogSettings,
    leader_epochs: LeaderEpochs,
    producers: ProducerState,
    now_ms: int,
) -> list[AbortedTransaction]:
    """Reads all batches and rebuilds the indexes. `segment.size` and `next_offset` end at the last good batch.

    Returns the transactions aborted in it. The tight loop of recovery, 1 us a batch, so it builds no BatchHeaders.
    """
    offset_index, time_index = OffsetIndex(), TimeIndex()
    segment.use_indexes(offset_index, time_index)
    base = segment.base_offset
    expected, position, since_entry, max_timestamp, max_timestamp_offset = base, 0, 0, -1, base
    interval = settings.index_interval_bytes
    known_epoch, previous = leader_epochs.latest_epoch, leader_epochs.read_offset
    file, file_size = segment.file, segment.file.size()
    chunk_bytes, is_damaged = _CHUNK_BYTES, False
    aborted: list[AbortedTransaction] = []
    while not is_damaged and position + HEADER_SIZE <= file_size:
        data = file.read(position, chunk_bytes)
        data_size = len(data)
        local = length = 0
        while local + HEADER_SIZE <= data_size:
            fields = _unpack_header(data, local)
            first, length, epoch, magic, crc, _, delta, _, timestamp, producer_id, _, _, _ = fields
            end = local + length + LENGTH_OVERHEAD
            last = first + delta
            if (
                length < MIN_BATCH_LENGTH
                or magic != MAGIC
                or first < expected
                or delta < 0
                or last - base > MAX_RELATIVE_OFFSET
            ):
                is_damaged = True
                break
            if end > data_size:
                break
            if crc32c(data[local + ATTRIBUTES_POSITION : end]) != crc:
                is_damaged = True
                break
            if epoch != known_epoch:
                known_epoch = leader_epochs.take_in(epoch, first, previous)
            previous = first
            if producer_id >= 0:
                take_in_batch(producers, fields, data, local, end, now_ms, aborted)
            if timestamp > max_timestamp:
                max_timestamp, max_timestamp_offset = timestamp, last
            if since_entry > interval:
                offset_index.append(last - base, position + local)
                time_index.maybe_append(max_timestamp, max_timestamp_offset - base)
                since_entry = 0
            elif expected == base:
                segment.set_roll_time(timestamp, settings)
            since_entry += end - local
            expected = last + 1
            local = end
        position += local
        if local == 0 and not is_damaged:
            # the batch is larger than a chunk, or the file ends inside it
            chunk_bytes = length + LENGTH_OVERHEAD
            is_damaged = data_size < HEADER_SIZE or position + chunk_bytes > file_size
        else:
            chunk_bytes = _CHUNK_BYTES
    leader_epochs.read_offset = previous
    segment.size, segment.next_offset, segment.bytes_since_index_entry = position, expected, since_entry
    segment.max_timestamp_ms, segment.max_timestamp_offset = max_timestamp, max_timestamp_offset
    return aborted


# --- after a clean stop ---


def _load_clean_tail(segment: Segment, settings: LogSettings) -> bool:
    """Opens the last segment by its index files and the batches after their last entry. False: read all of it."""
    disk = segment.disk
    try:
        offset_index = OffsetIndex.decode(disk.read_file(segment.path(INDEX_SUFFIX)), segment.size)
        time_index = TimeIndex.decode(disk.read_file(segment.path(TIME_INDEX_SUFFIX)))
    except FileNotFoundError:
        return segment.size == 0 and _use_empty_indexes(segment)
    if offset_index is None or time_index is None:
        return False
    segment.use_indexes(offset_index, time_index)
    max_timestamp, relative_offset = time_index.last
    segment.max_timestamp_ms, segment.max_timestamp_offset = max_timestamp, segment.base_offset + relative_offset
    start = offset_index.positions[-1] if len(offset_index) else 0
    # a stop writes the largest timestamp to the time index: a larger one in the tail means that entries are missing
    return _scan_tail(segment, segment.file, start, settings) and segment.max_timestamp_ms == max_timestamp


def _use_empty_indexes(segment: Segment) -> bool:
    segment.use_indexes(OffsetIndex(), TimeIndex())
    segment.max_timestamp_ms = -1
    return True


def _scan_tail(segment: Segment, file: File, start: int, settings: LogSettings) -> bool:
    """Follows the batches from `start` to the end of the file. False if the last one does not end there."""
    file_size = segment.size
    position = start
    segment.bytes_since_index_entry = 0
    while position < file_size:
        header = file.read(position, HEADER_SIZE)
        if len(header) < HEADER_SIZE:
            return False
        first, length, _, magic, _, _, delta, _, timestamp, *_ = _unpack_header(header)
        size = length + LENGTH_OVERHEAD
        if magic != MAGIC or length < MIN_BATCH_LENGTH or position + size > file_size or first < segment.next_offset:
            return False
        if position == 0:
            segment.set_roll_time(timestamp, settings)
        if position == start and start > 0:
            segment.bytes_since_index_entry = 0
        segment.append_entry(position, size, first + delta, timestamp, settings.index_interval_bytes)
        position += size
    segment.size = file_size
    if start > 0:
        first_header = _unpack_header(file.read(0, HEADER_SIZE))
        segment.set_roll_time(first_header[8], settings)
    return position == file_size


def remove_stray_snapshots(segments: list[Segment], log_end_offset: int) -> None:
    """Removes snapshots of earlier clean stops that belong to no segment. The one at the log end stays."""
    disk, directory = segments[0].disk, segments[0].directory
    kept = {segment.base_offset for segment in segments}
    for name in disk.list_directory(directory):
        base = parse_base_offset(name, SNAPSHOT_SUFFIX)
        if base is not None and base not in kept and base != log_end_offset:
            disk.remove(f"{directory}/{name}")


# --- files ---


def cut_segments(segments: list[Segment], offset: int) -> None:
    """Removes every batch that reaches to `offset` or beyond from the files. Sizes and indexes are not updated.

    From the end to the start, so that a crash in between leaves no hole. Durable when it returns, because a cut below
    the recovery point is not checked again.
    """
    directory = segments[0].directory
    while len(segments) > 1 and segments[-1].base_offset >= offset:
        _remove_segment(segments.pop())
    try:
        position = segments[-1].locate(offset, 0, is_cached_only=False)
    except DamagedBatchError as error:
        # the leader sends the batches between the damage and `offset` again
        position = error.position
    segments[-1].file.truncate(position)
    segments[-1].file.flush()
    segments[-1].remove_index_files()
    segments[-1].disk.flush_directory(directory)


def load_truncated(
    segments: list[Segment],
    offset: int,
    settings: LogSettings,
    *,
    now_ms: int,
    plan: RecoveryPlan,
    leader_epochs: LeaderEpochs,
    health: DirectoryHealth,
) -> LoadedLog:
    """Cuts the files at `offset` and reads the rest as after a crash. Newer leader epochs are in memory."""
    disk, directory = segments[0].disk, segments[0].directory
    cut_segments(segments, offset)
    for segment in segments:
        segment.close()
    loaded = load_log(
        disk,
        directory,
        settings,
        now_ms=now_ms,
        # a batch that reaches beyond `offset` was removed too: only the files have the real end
        plan=msgspec.structs.replace(plan, recovery_point=min(plan.recovery_point, segments[-1].base_offset)),
        health=health,
    )
    loaded.leader_epochs = leader_epochs
    loaded.leader_epochs.truncate_from_end(loaded.next_offset)
    loaded.recovery_point = min(plan.recovery_point, loaded.next_offset)
    return loaded


def _existing_segment(disk: Disk, directory: str, base: int, now_ms: int, settings: LogSettings) -> Segment:
    segment = Segment(disk, directory, base, size=0, created_ms=now_ms)
    segment.size = segment.file.size()
    segment.bound_indexes(settings)
    return segment


def _set_segments_aside(loaded: LoadedLog, first: int, offset: int) -> None:
    """Removes the segments from index `first` on from the log, which ends at `offset`. Durable when it returns."""
    if len(loaded.segments) <= first:
        return
    disk, directory = loaded.segments[0].disk, loaded.segments[0].directory
    while len(loaded.segments) > first:
        loaded.cuts.append(set_aside(loaded.segments.pop(), offset))
    disk.flush_directory(directory)


def _remove_segment(segment: Segment) -> None:
    segment.close()
    for suffix in SEGMENT_SUFFIXES:
        segment.disk.remove(segment.path(suffix))


def _tidy(disk: Disk, directory: str, names: list[str], health: DirectoryHealth) -> list[str]:
    """Completes an interrupted compaction, and removes unfinished files of a crash."""
    kept = []
    for name in finish_swaps(disk, directory, names, health):
        if name.endswith(_TEMPORARY_SUFFIXES):
            disk.remove(f"{directory}/{name}")
        else:
            kept.append(name)
    return kept
