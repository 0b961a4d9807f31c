"""Records of CSV that span several lines: a quoted field may contain the end of a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from moldau.connectors.files.lines import BLOCK_BYTES, MAX_BATCH_BYTES, FileError, Lines, Seekable

_LINE: Final = re.compile(rb"[^\n]*\n")
_CLOSE: Final = re.compile(rb'(?:[^"]++|"")*+"')
"""The rest of a quoted field, with its closing quote."""


@dataclass(frozen=True, slots=True)
class CsvRecords:
    delimiter: str

    def read(self, path: Path, file: Seekable, start: int, most: int, longest: int) -> Lines:
        """At most `most` complete records from a byte on, and about MAX_BATCH_BYTES of them. A record whose last line
        is not there yet is left. Raises FileError for a record of more than `longest` bytes."""
        file.seek(start)
        records: list[bytes] = []
        end, rest = start, b""
        begun = place = 0  # in `rest`: where the record begins, and the line
        is_open = False
        while len(records) < most and end - start < MAX_BATCH_BYTES:
            cut = rest.find(b"\n", place) + 1
            if not cut:
                block = file.read(BLOCK_BYTES)
                if len(rest) - begun > longest:
                    raise FileError(f"{path}: the record at byte {end} has more than {longest} bytes (max.line.bytes)")
                if not block:
                    break
                rest, begun, place = rest[begun:] + block, 0, place - begun
                continue
            is_open = self._stays_open(rest[place:cut], is_open)
            place = cut
            if not is_open:
                records.append(rest[begun:cut])
                end += cut - begun
                begun = cut
        return Lines(path, records, len(records), start, end, are_records=True)

    def split(self, block: bytes) -> list[bytes]:
        """The records of a block that ends with one."""
        records: list[bytes] = []
        begun, is_open = 0, False
        for line in _LINE.finditer(block):
            is_open = self._stays_open(line.group(), is_open)
            if not is_open:
                records.append(block[begun : line.end()])
                begun = line.end()
        return records

    def _stays_open(self, line: bytes, is_open: bool) -> bool:
        """Whether a quoted field goes on after this line."""
        if b'"' not in line:
            return is_open
        place = 0
        opening = _opening(self.delimiter)
        while True:
            if is_open:
                closed = _CLOSE.match(line, place)
                if closed is None:
                    return True
                place = closed.end()
            opened = opening.search(line, place)
            if opened is None:
                return False
            place, is_open = opened.end(), True


@cache
def _opening(delimiter: str) -> re.Pattern[bytes]:
    """The opening quote of a field, after a delimiter or at the beginning of the line."""
    return re.compile(rb"(?:^|" + re.escape(delimiter.encode()) + rb')"')
