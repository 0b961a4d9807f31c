"""Checks indexes as Kafka's dump-log tool does: whether entries match the segment, and whether a start accepts the
files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from moldau.cli.dump.batches import read_file
from moldau.cli.dump.indexes import OFFSET_ENTRY, TIME_ENTRY, offset_entries, time_entries
from moldau.wire.records.batch import BatchHeader, iterate_batches
from moldau.wire.records.record import read_records

NOT_FOUND = -1
Pairs = dict[str, list[tuple[int, int]]]
"""Keyed by the absolute path of a file."""


class IndexFindings:
    """The mismatches of all files of one run; Kafka's tool prints them at the end."""

    def __init__(self) -> None:
        self._mismatches: Pairs = {}
        self._timestamps: Pairs = {}
        self._disorder: Pairs = {}
        self._not_found: Pairs = {}

    def lines(self) -> Iterator[str]:
        for path, pairs in self._mismatches.items():
            yield f"Mismatches in :{path}"
            # one line for each offset, the largest first
            for offset, found in sorted(dict(pairs).items(), reverse=True):
                yield f"  Index offset: {offset}, log offset: {found}"
        for path, pairs in self._timestamps.items():
            yield f"Found timestamp mismatch in :{path}"
            for timestamp, found in pairs:
                yield f"  Index timestamp: {timestamp}, log timestamp: {found}"
        for path, pairs in self._disorder.items():
            yield f"Found out of order timestamp in :{path}"
            for timestamp, earlier in pairs:
                yield f"  Index timestamp: {timestamp}, Previously indexed timestamp: {earlier}"
        for path, pairs in self._not_found.items():
            yield f"The following indexed offsets are not found in :{path}"
            for offset, found in pairs:
                yield f"Indexed offset: {offset}, found log offset: {found}"

    def check_offset_index(self, path: Path, max_batch_bytes: int) -> Iterator[str]:
        """Yields the entries and compares each with the batch at its position. Raises OSError, and ValueError for a
        position at which no whole batch of at most `max_batch_bytes` begins."""
        segment = path.with_suffix(".log")
        view = memoryview(read_file(segment))
        for offset, position in offset_entries(path):
            found = next(_batches_from(view, position, segment, max_batch_bytes), None)
            if found is None:
                raise ValueError(f"no whole batch begins at position {position} of {segment}")
            if found[1].last_offset != offset:
                self._mismatches.setdefault(str(path.absolute()), []).append((offset, found[1].last_offset))
            yield f"offset: {offset} position: {position}"

    def check_time_index(self, path: Path) -> Iterator[str]:
        """Yields the entries and compares each with the batch that ends with its offset. Raises OSError and
        ValueError."""
        segment = path.with_suffix(".log")
        view = memoryview(read_file(segment))
        positions = list(offset_entries(path.with_suffix(".index")))
        offsets = [offset for offset, _ in positions]
        earlier = -1
        for timestamp, offset in time_entries(path):
            number = bisect_right(offsets, offset)
            start = positions[number - 1][1] if number else 0
            at = next((one for one in _batches_from(view, start, segment) if one[1].last_offset >= offset), None)
            self._check_time(path, timestamp, offset, earlier, view, at)
            yield f"timestamp: {timestamp} offset: {offset}"
            earlier = timestamp

    def _check_time(
        self,
        path: Path,
        timestamp: int,
        offset: int,
        earlier: int,
        view: memoryview,
        at: tuple[int, BatchHeader] | None,
    ) -> None:
        name = str(path.absolute())
        if at is None or at[1].last_offset != offset:
            self._not_found.setdefault(name, []).append((offset, NOT_FOUND if at is None else at[1].last_offset))
            return
        position, header = at
        largest = max((one.timestamp for one in read_records(view[position : position + header.size])), default=-1)
        if largest != timestamp:
            self._timestamps.setdefault(name, []).append((timestamp, largest))
        if earlier >= timestamp:
            self._disorder.setdefault(name, []).append((timestamp, earlier))


def _batches_from(
    view: memoryview, position: int, segment: Path, max_bytes: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    if not 0 <= position <= len(view):
        raise ValueError(f"Slice from position {position} exceeds end position of {segment} ({len(view)} bytes)")
    part = view[position:] if max_bytes is None else view[position : position + max_bytes]
    for relative, header in iterate_batches(part):
        yield position + relative, header


def check_sanity(path: Path) -> None:
    """Checks an index as Kafka does at its start. Raises OSError, and ValueError for an index that Kafka would
    rebuild."""
    if path.suffix == ".index":
        _check_offset_sanity(path)
    else:
        read_file(path.with_suffix(".index"))
        _check_time_sanity(path)


def _check_offset_sanity(path: Path) -> None:
    data, base = path.read_bytes(), int(path.stem)
    count = len(data) // OFFSET_ENTRY.size
    last_offset = base + OFFSET_ENTRY.unpack_from(data, (count - 1) * OFFSET_ENTRY.size)[0] if count else base
    if last_offset < base:
        raise ValueError(
            f"Corrupt index found, index file {path} has non-zero size but the last offset is {last_offset} which is "
            f"less than the base offset {base}"
        )
    if len(data) % OFFSET_ENTRY.size:
        raise ValueError(
            f"Index file {path} is corrupt, found {len(data)} bytes which is neither positive nor a multiple of "
            f"{OFFSET_ENTRY.size}"
        )


def _check_time_sanity(path: Path) -> None:
    data, base = path.read_bytes(), int(path.stem)
    count = len(data) // TIME_ENTRY.size
    if count:
        first, _ = TIME_ENTRY.unpack_from(data, 0)
        last, relative = TIME_ENTRY.unpack_from(data, (count - 1) * TIME_ENTRY.size)
        begin = f"Corrupt time index found, time index file ({path}) has non-zero size but the last"
        if last < first:
            raise ValueError(f"{begin} timestamp is {last} which is less than the first timestamp {first}")
        if relative < 0:
            raise ValueError(f"{begin} offset is {base + relative} which is less than the first offset {base}")
    if len(data) % TIME_ENTRY.size:
        raise ValueError(
            f"Time index file {path} is corrupt, found {len(data)} bytes which is neither positive nor a multiple of "
            f"{TIME_ENTRY.size}"
        )
