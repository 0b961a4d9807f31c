"""Cuts a log at damage, and keeps the cut bytes in another file.

Readable data is never deleted because earlier data is unreadable. A cut tail is first copied to `<segment
file>.cut-<offset>`, and a later segment is renamed to such a name; the offset is the new log end. Neither Moldau nor
Apache Kafka reads such a file again. A tail of zeros, as a file system leaves it after a power failure, is not kept.
"""

from __future__ import annotations

import re

import msgspec

from moldau.core.log.files.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, Segment
from moldau.errors import DamagedLogError
from moldau.ports import Disk

MAX_KEPT_TAILS = 16
"""The most kept tails of one partition, because a machine that loses power repeatedly leaves a torn tail each time. The
number of set-aside segments is not bounded: they were whole files of the log."""
_COPY_BYTES = 1 << 20
_CUT_NAME = re.compile(r"(\d{20})\.log\.cut-(\d+)(?:\.(\d+))?", re.ASCII)


class CrashLimit(msgspec.Struct, frozen=True):
    """Where damage by a crash may begin. Flushed data survives a crash."""

    flushed_offset: int
    is_clean: bool
    """After a clean stop, damage may begin only right after the flushed offset, if that is the log end. Batches between
    the two mean that another program stopped cleanly without recording how far it had come."""

    def check(self, segment: Segment, position: int, offset: int) -> None:
        """Raises DamagedLogError unless a crash can have caused damage here."""
        flushed_offset = self.flushed_offset
        if offset < flushed_offset or (self.is_clean and (offset > flushed_offset or not flushed_offset)):
            until = f"below offset {flushed_offset} " if offset < flushed_offset else ""
            raise DamagedLogError(
                f"{segment.path(LOG_SUFFIX)} is damaged from byte {position} on, offset {offset}, "
                f"but everything {until}was on the disk; see `moldau log repair --help`"
            )


class Cut(msgspec.Struct, frozen=True):
    """`byte_count` bytes from `position` on of the file `path`, which followed `offset`.

    `kept_in`: the file that has them now, empty for zeros.
    """

    path: str
    position: int
    offset: int
    byte_count: int
    kept_in: str

    def describe(self) -> str:
        """One sentence without its subject, for the log line of a partition."""
        kept = f"kept them in {self.kept_in}" if self.kept_in else "kept nothing of them: they were zeros"
        place = f"{self.path} from byte {self.position} on, offset {self.offset}"
        return f"cut {self.byte_count} bytes of {place}, and {kept}"


def cut_tail(segment: Segment, offset: int) -> Cut:
    """Ends the file of `segment` at its `size`, durably, after a copy of the rest. Waits.

    Raises StorageFullError before the file is changed, StorageFailedError.
    """
    path, size, file_size = segment.path(LOG_SUFFIX), segment.size, segment.file.size()
    kept_in = _keep_tail(segment, path, offset, file_size)
    segment.file.truncate(size)
    # otherwise the next crash may restore the torn bytes below a recovery point that counts them as flushed
    segment.file.flush()
    return Cut(path, size, offset, file_size - size, kept_in)


def set_aside(segment: Segment, offset: int) -> Cut:
    """Removes a segment after the cut from the log: its records get another name, its index files are removed."""
    disk, path, byte_count = segment.disk, segment.path(LOG_SUFFIX), segment.file.size()
    segment.close()
    kept_in = ""
    if byte_count:
        kept_in = _free_name(disk, segment.directory, f"{path}.cut-{offset}")
        disk.rename(path, kept_in)
    for suffix in SEGMENT_SUFFIXES:
        disk.remove(segment.path(suffix))
    return Cut(path, 0, offset, byte_count, kept_in)


def is_cut_name(name: str) -> bool:
    """Whether the name is that of a kept tail or segment."""
    return _CUT_NAME.fullmatch(name) is not None


def _keep_tail(segment: Segment, path: str, offset: int, file_size: int) -> str:
    disk, directory = segment.disk, segment.directory
    if _is_zero(segment, file_size):
        return ""
    kept_in = _free_name(disk, directory, f"{path}.cut-{offset}")
    copy = disk.open(kept_in)
    try:
        for position in range(segment.size, file_size, _COPY_BYTES):
            copy.append(segment.file.read(position, min(_COPY_BYTES, file_size - position)))
        copy.flush()
    except BaseException:
        copy.close()
        disk.remove(kept_in)
        raise
    copy.close()
    _forget_old_tails(disk, directory)
    disk.flush_directory(directory)
    return kept_in


def _is_zero(segment: Segment, file_size: int) -> bool:
    for position in range(segment.size, file_size, _COPY_BYTES):
        data = segment.file.read(position, min(_COPY_BYTES, file_size - position))
        if data.count(0) != len(data):
            return False
    return True


def _free_name(disk: Disk, directory: str, path: str) -> str:
    """`path`, with a number after it if the log was cut at that offset before. The latest has the largest number."""
    name = path.rpartition("/")[2]
    stems = (match for match in _cut_names(disk, directory) if match[0].startswith(f"{name}.") or match[0] == name)
    number = max((int(match[3] or 1) for match in stems), default=0)
    return f"{path}.{number + 1}" if number else path


def _forget_old_tails(disk: Disk, directory: str) -> None:
    found = [
        (int(match[2]), int(match[3] or 1), match[0])
        for match in _cut_names(disk, directory)
        if int(match[2]) > int(match[1])
    ]
    found.sort()
    for _, _, name in found[:-MAX_KEPT_TAILS]:
        disk.remove(f"{directory}/{name}")


def _cut_names(disk: Disk, directory: str) -> list[re.Match[str]]:
    names = disk.list_directory(directory)
    return [match for name in names if (match := _CUT_NAME.fullmatch(name)) is not None]
