"""Reads a suspicious sealed segment whole: finds the damage, and builds new indexes for the rest.

A start checks the end of each sealed segment (`is_end_sound`, two short reads), a fetch the batches that it passes.
After a contradiction `inspect` reads the whole file. Damaged bytes stay where they are. The next readable part begins
at the first batch after them with a valid CRC and a plausible offset; the new index includes it. The segment remembers
the damaged bytes: readers get an error there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.checkpoint import LEADER_EPOCH_CHECKPOINT
from moldau.core.log.files.offset_index import OffsetIndex
from moldau.core.log.files.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Repair, Segment
from moldau.core.log.files.time_index import TimeIndex
from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.log.recovery.damage import MIN_BATCH_LENGTH
from moldau.core.log.recovery.recalled_epochs import epochs_of_batches
from moldau.ports import Disk
from moldau.wire.records.batch import ATTRIBUTES_POSITION, HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC
from moldau.wire.records.crc import crc32c

MAX_TOLD = 10
"""Damaged ranges of one file that are reported one by one."""
MAX_DAMAGES = 1_000
"""Damaged ranges of one segment that are reported separately. Beyond them the last one reaches the end of the file."""

_CHUNK_BYTES = 512 << 10
_END_BYTES = 8192
_MAGIC_POSITION = 16
_MAGIC_BYTE = bytes([MAGIC])
_unpack_header = HEADER.unpack_from


class Extent(msgspec.Struct, frozen=True):
    """The size of a segment at one moment. Appends continue after it."""

    size: int
    end_offset: int


def inspect(
    segment: Segment, extent: Extent, interval: int, health: DirectoryHealth, *, may_have_holes: bool
) -> Repair:
    """Reads all batches of a segment, and reports damage once. `interval`: bytes between index entries. Waits."""
    walk = _Walk(segment, extent, interval, may_have_holes)
    walk.run()
    path = segment.path(LOG_SUFFIX)
    for begin, end in walk.damages[:MAX_TOLD]:
        health.found(path, f"bytes {begin} to {end - 1} are damaged: readers of the records there get CORRUPT_MESSAGE")
    if len(walk.damages) > MAX_TOLD:
        health.found(path, f"{len(walk.damages) - MAX_TOLD} more ranges of bytes are damaged")
    is_end_damaged = bool(walk.damages) and walk.damages[-1][1] == extent.size
    if walk.expected < extent.end_offset and not is_end_damaged and not may_have_holes:
        health.found(
            path,
            f"the records from offset {walk.expected} to {extent.end_offset - 1}, where the next segment begins, "
            f"are not in the file of {extent.size} bytes: readers of them get CORRUPT_MESSAGE",
        )
    return Repair(extent.size, extent.end_offset, walk.offset_index, walk.time_index, tuple(walk.damages))


class _Walk:
    """Walks from batch to batch, and over damaged bytes to the next batch."""

    def __init__(self, segment: Segment, extent: Extent, interval: int, may_have_holes: bool) -> None:
        self.offset_index, self.time_index = OffsetIndex(), TimeIndex()
        self.damages: list[tuple[int, int]] = []
        self.expected = segment.base_offset
        self.max_timestamp_ms, self.max_timestamp_offset = -1, segment.base_offset
        self._file, self._size = segment.file, extent.size
        self._base_offset, self._end_offset = segment.base_offset, extent.end_offset
        self._interval = interval
        self._may_have_holes = may_have_holes
        self._is_behind_damage = False
        self._since_entry = 0
        self._chunk, self._chunk_position = b"", 0

    def run(self) -> None:
        position = 0
        while position < self._size:
            fields = self._batch(position)
            if fields is None:
                end = self._find_batch(position + 1)
                self._skip(position, end)
                position = end
            else:
                self._note(fields, position)
                position += fields[1] + LENGTH_OVERHEAD
        # sealing a segment adds this entry
        self.time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset - self._base_offset)

    def _read(self, position: int, length: int) -> memoryview:
        local = position - self._chunk_position
        if local < 0 or local + length > len(self._chunk):
            self._chunk, self._chunk_position, local = self._file.read(position, max(length, _CHUNK_BYTES)), position, 0
        return memoryview(self._chunk)[local : local + length]

    def _batch(self, position: int) -> tuple[int, ...] | None:
        """The header of the whole, undamaged batch at `position`; None for other bytes."""
        header = self._read(position, HEADER_SIZE)
        if len(header) < HEADER_SIZE:
            return None
        fields = HEADER.unpack(header)
        first, length, magic, delta = fields[0], fields[1], fields[3], fields[6]
        size = length + LENGTH_OVERHEAD
        is_possible = magic == MAGIC and length >= MIN_BATCH_LENGTH and position + size <= self._size and delta >= 0
        # the CRC does not cover the base offset
        is_in_place = self.expected <= first and first + delta < self._end_offset
        is_next = first == self.expected or self._may_have_holes or self._is_behind_damage
        if not (is_possible and is_in_place and is_next):
            return None
        batch = self._read(position, size)
        return fields if len(batch) == size and crc32c(batch[ATTRIBUTES_POSITION:]) == fields[4] else None

    def _skip(self, position: int, end: int) -> None:
        """The bytes from `position` to `end` are damaged."""
        if len(self.damages) >= MAX_DAMAGES:
            position, end = self.damages.pop()[0], self._size
        self.damages.append((position, end))

    def _note(self, fields: tuple[int, ...], position: int) -> None:
        first, last, timestamp_ms = fields[0], fields[0] + fields[6], fields[8]
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.max_timestamp_offset = timestamp_ms, last
        if position > 0 and (self._since_entry > self._interval or self._is_behind_damage):
            # after damage with its first offset: a search for any record of the batch must begin after the damage
            offset = first if self._is_behind_damage else last
            self.offset_index.append(offset - self._base_offset, position)
            self.time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset - self._base_offset)
            self._since_entry = 0
        self._is_behind_damage = False
        self._since_entry += fields[1] + LENGTH_OVERHEAD
        self.expected = last + 1

    def _find_batch(self, position: int) -> int:
        """The position of the next whole batch, at or after `position`; the size of the file if none follows."""
        self._is_behind_damage = True
        while position + HEADER_SIZE <= self._size:
            data = self._file.read(position, _CHUNK_BYTES)
            found = data.find(_MAGIC_BYTE, _MAGIC_POSITION)
            while found >= 0:
                if self._batch(position + found - _MAGIC_POSITION) is not None:
                    return position + found - _MAGIC_POSITION
                found = data.find(_MAGIC_BYTE, found + 1)
            if len(data) <= _MAGIC_POSITION:
                break
            position += len(data) - _MAGIC_POSITION
        return self._size


def is_end_sound(segment: Segment, may_have_holes: bool) -> bool:
    """Whether the end of a sealed segment fits its index files and the next segment. Three short reads.

    `may_have_holes`: compaction may have removed the last records.
    """
    index, time_index = _load(segment)
    if index is None or time_index is None or (not len(index) and len(time_index) > 1):
        # both get their entries together, and the time index gets one more at the end
        return False
    position = index.positions[-1] if len(index) else 0
    expected, latest_ms = segment.base_offset, -1
    while position < segment.size:
        data = segment.file.read(position, min(_END_BYTES, segment.size - position))
        local = 0
        while local + HEADER_SIZE <= len(data):
            fields = _unpack_header(data, local)
            first, length, last = fields[0], fields[1], fields[0] + fields[6]
            if fields[3] != MAGIC or length < MIN_BATCH_LENGTH or not expected <= first <= last < segment.next_offset:
                return False
            expected, latest_ms = last + 1, max(latest_ms, fields[8])
            local += length + LENGTH_OVERHEAD
        if local == 0 or position + local > segment.size:
            return False
        position += local
    largest_ms, relative_offset = time_index.last
    is_time_sound = latest_ms <= largest_ms and segment.base_offset + relative_offset < max(expected, 1)
    is_whole = expected == segment.next_offset or may_have_holes
    # a segment that compaction emptied has no entry in either index
    is_emptied = segment.size == 0 and (len(index) > 0 or len(time_index) > 0)
    return is_whole and (is_time_sound or segment.size == 0) and not is_emptied


def _load(segment: Segment) -> tuple[OffsetIndex | None, TimeIndex | None]:
    index, time_index = None, None
    with suppress(FileNotFoundError):
        index = OffsetIndex.decode(segment.disk.read_file(segment.path(INDEX_SUFFIX)), max(1, segment.size))
    with suppress(FileNotFoundError):
        time_index = TimeIndex.decode(segment.disk.read_file(segment.path(TIME_INDEX_SUFFIX)))
    return index, time_index


def repair_indexes(segment: Segment, interval: int, health: DirectoryHealth, may_have_holes: bool) -> None:
    """Reads a sealed segment whole, gives it new indexes in memory, and reports damage once. Waits. Raises
    StorageFailedError."""
    saved_index, saved_time_index = _load(segment)
    extent = Extent(segment.size, segment.next_offset)
    found = inspect(segment, extent, interval, health, may_have_holes=may_have_holes)
    segment.use_indexes(found.offset_index, found.time_index)
    segment.max_timestamp_ms, relative_offset = found.time_index.last
    segment.max_timestamp_offset = segment.base_offset + relative_offset
    segment.damages, segment.is_inspected = found.damages, True
    if may_have_holes and not segment.size and saved_time_index is not None and len(saved_time_index):
        # readers would take the missing records for a hole of compaction
        health.found(segment.path(LOG_SUFFIX), "the file is empty, but its time index says that it held records")
    for suffix, saved in ((INDEX_SUFFIX, saved_index), (TIME_INDEX_SUFFIX, saved_time_index)):
        if saved is None:
            state = "damaged" if segment.disk.exists(segment.path(suffix)) else "missing"
            health.found(segment.path(suffix), f"the file is {state}, and was rebuilt from the log")
    if not found.damages and saved_index is not None and saved_time_index is not None:
        is_same = saved_index.positions == found.offset_index.positions
        suffix = TIME_INDEX_SUFFIX if is_same else INDEX_SUFFIX
        if not is_same or saved_time_index.last != found.time_index.last:
            health.found(segment.path(suffix), "the file does not fit the log, and was rebuilt")


def load_leader_epochs(disk: Disk, directory: str, flushed: Sequence[Segment], health: DirectoryHealth) -> LeaderEpochs:
    """The epochs in their file. If it is unreadable, those in the batch headers of the segments `flushed`; recovery
    reads the later ones in any case. Waits."""
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    epochs = LeaderEpochs()
    try:
        epochs = LeaderEpochs.decode(disk.read_file(path))
        reason = "no leader epoch is in it"
    except FileNotFoundError:
        reason = "the file is missing"
    except ValueError as error:
        reason = f"damaged: {error}"
    if epochs.entries:
        return epochs
    epochs = epochs_of_batches(flushed)
    if epochs.entries:
        health.found(path, f"{reason}; the leader epochs were read from the log")
    return epochs


def check_first_segment(segments: Sequence[Segment], epochs: LeaderEpochs, health: DirectoryHealth) -> None:
    """Reports missing files before the first one, after a clean stop. Whatever moves the start of a log also moves its
    first leader epoch, and a clean stop writes that."""
    if segments and epochs.entries and epochs.entries[0][1] < segments[0].base_offset:
        begin, end = epochs.entries[0][1], segments[0].base_offset - 1
        health.found(
            segments[0].path(LOG_SUFFIX),
            f"the log begins with this file, but {LEADER_EPOCH_CHECKPOINT} says offset {begin}: the files of the "
            f"records from offset {begin} to {end} are missing",
        )


def first_whole_batch(segment: Segment) -> tuple[int, int] | None:
    """(base offset, leader epoch) of the first batch of the file; None if it is not whole. Waits."""
    head = segment.file.read(0, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return None
    base_offset, length, epoch, magic, crc, *_ = _unpack_header(head)
    size = length + LENGTH_OVERHEAD
    if magic != MAGIC or not HEADER_SIZE <= size <= segment.file.size() or base_offset < segment.base_offset:
        return None
    batch = segment.file.read(0, size)
    return (base_offset, epoch) if crc32c(batch[ATTRIBUTES_POSITION:]) == crc else None
