"""The complete lines of files that grow, are rotated (renamed, or cut and written again), and go away.

A file is known by its inode and by its first bytes, so that a renamed file goes on where it was, and another file that
gets the same inode begins at its first byte. A last line without an end is left until it has one.
"""

from __future__ import annotations

import fnmatch
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from moldau.connect.handling.stages import RetriableError
from moldau.errors import MoldauError

HEAD_BYTES: Final = 256
"""The first bytes of a file that tell it from another one with the same inode."""
BLOCK_BYTES: Final = 1 << 20
MAX_BATCH_BYTES: Final = 16 << 20
"""Bytes of lines that one read gives, at most; a single line may be longer."""
MAX_FILES: Final = 10_000
"""Files of a directory that a task reads."""


class FileError(MoldauError):
    """A file or a line that cannot be read or written."""


class TargetError(FileError, RetriableError):
    """A target that cannot be written now: a full disk, a folder without permission."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file is read. `name`: when it was read last. `head`: the length and the CRC-32 of its first bytes."""

    name: str
    position: int
    head: tuple[int, int] = (0, 0)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "position": self.position, "head": list(self.head)}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Mark:
        return cls(str(found["name"]), int(found["position"]), (int(found["head"][0]), int(found["head"][1])))


@dataclass(frozen=True, slots=True)
class Found:
    """A file on the disk."""

    path: Path
    inode: int
    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of one file. `blocks`: bytes of whole lines, each with its end. `are_records`: each block is one record,
    with the ends of lines in it. `starts`: whether the first line begins the file."""

    path: Path
    blocks: list[bytes]
    count: int
    first: int
    end: int
    are_records: bool = False

    @property
    def texts(self) -> list[str]:
        """The lines, or records, without their last ends. Bytes that are no UTF-8 become U+FFFD."""
        if self.are_records:
            return [one.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace") for one in self.blocks]
        return [text for block in self.blocks for text in _decoded(block[:-1])]

    @property
    def starts(self) -> bool:
        return self.first == 0


class Folder:
    """The files that a task reads: `path`, or the files in it whose names match.

    `part` of `parts`: the tasks share the files by their inodes, which a rename does not change.
    """

    def __init__(self, path: Path, pattern: str = "*", part: int = 0, parts: int = 1) -> None:
        self.path = path
        self._pattern = pattern
        self._part, self._parts = part, parts

    def files(self, known: dict[int, Mark]) -> list[Found]:
        """Regular files, the one that has not changed for longest first. `known`: a single file that has been renamed
        in its folder is among them. Hidden files are left out. Raises FileError."""
        is_folder = self.path.is_dir()
        names = self._names(self.path if is_folder else self.path.parent)
        found = []
        for path, about in names:
            if is_folder:
                is_chosen = fnmatch.fnmatch(path.name, self._pattern) and not path.name.startswith(".")
            else:
                is_chosen = path.name == self.path.name or about.st_ino in known
            if is_chosen and about.st_ino % self._parts == self._part % self._parts:
                found.append(Found(path, about.st_ino, about.st_size, about.st_mtime_ns))
        if len(found) > MAX_FILES:
            raise FileError(
                f"{self.path} has {len(found)} files, more than {MAX_FILES}: move files away, or use more tasks"
            )
        return sorted(found, key=lambda one: (one.changed_ns, one.path.name))

    def _names(self, folder: Path) -> list[tuple[Path, os.stat_result]]:
        try:
            with os.scandir(folder) as entries:
                return [
                    (Path(one.path), about)
                    for one in entries
                    if (about := _stat(one)) is not None and stat.S_ISREG(about.st_mode)
                ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FileError(f"{folder} cannot be read: {error.strerror}") from None


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except OSError:  # it went away
        return None


def resumed(file: BinaryIO, size: int, mark: Mark | None) -> int:
    """Where reading goes on: 0 if the file is another one than the mark's, or was cut."""
    if mark is None or size < mark.position:
        return 0
    return mark.position if head_of(file, mark.head[0]) == mark.head else 0


def head_of(file: BinaryIO, length: int) -> tuple[int, int]:
    file.seek(0)
    found = file.read(min(length, HEAD_BYTES))
    return len(found), zlib.crc32(found)


def marked(found: Found, file: BinaryIO, position: int) -> Mark:
    return Mark(found.path.name, position, head_of(file, position))


class Seekable(Protocol):
    def seek(self, position: int, /) -> object: ...

    def read(self, size: int, /) -> bytes: ...


def read_lines(path: Path, file: Seekable, start: int, most: int, longest: int) -> Lines:
    """At most `most` complete lines from a byte on, and at most MAX_BATCH_BYTES of them. Raises FileError for a line of
    more than `longest` bytes."""
    file.seek(start)
    blocks: list[bytes] = []
    count, rest, end = 0, b"", start
    while count < most and end - start < MAX_BATCH_BYTES:
        block = file.read(BLOCK_BYTES)
        if not block:
            break
        rest += block
        cut = rest.rfind(b"\n")
        if cut < 0:
            if len(rest) > longest:
                raise FileError(f"{path}: the line at byte {end} has more than {longest} bytes (max.line.bytes)")
            continue
        used, found = cut + 1, rest.count(b"\n")
        if found > most - count:
            found = most - count
            parts = rest[:cut].split(b"\n", found)
            used -= len(parts[-1]) + 1  # the last part is all that comes after the last line
        blocks.append(rest[:used])
        count += found
        end += used
        rest = rest[used:]
    return Lines(path, blocks, count, start, end)


def read_range(path: Path, file: BinaryIO, start: int, end: int) -> bytes:
    """The bytes between two places."""
    file.seek(start)
    block = file.read(end - start)
    if len(block) < end - start:
        raise FileError(f"{path} is shorter than it was: byte {end} is gone")
    return block


def _decoded(block: bytes) -> list[str]:
    """The lines of a block without its last end."""
    text = block.decode("utf-8", "replace")
    texts = text.split("\n")
    return [one[:-1] if one[-1:] == "\r" else one for one in texts] if "\r" in text else texts


def position_after(path: Path, start: int) -> int | None:
    """The byte after the next end of a line, None if there is none yet."""
    with path.open("rb") as file:
        file.seek(start)
        position = start
        while block := file.read(BLOCK_BYTES):
            cut = block.find(b"\n")
            if cut >= 0:
                return position + cut + 1
            position += len(block)
    return None


def without_gone(marks: dict[int, Mark], files: list[Found]) -> dict[int, Mark]:
    """The marks of the files that are there, under their names of now."""
    names = {one.inode: one.path.name for one in files}
    return {inode: replace(mark, name=names[inode]) for inode, mark in marks.items() if inode in names}


def opened(files: list[Found]) -> Iterator[tuple[Found, BinaryIO]]:
    """Each file that is still there, open while it is the current one."""
    for one in files:
        try:
            file = one.path.open("rb")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise FileError(f"{one.path} cannot be read: {error.strerror}") from None
        with file:
            yield one, file
