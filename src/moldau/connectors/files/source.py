"""The reader of lines. It runs in one process, that of the task or of Spark's driver, because files are local."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from moldau.connectors.files.csv_records import CsvRecords
from moldau.connectors.files.formats import JSON, LineError, csv_cells, csv_parser, json_parser
from moldau.connectors.files.lines import (
    FileError,
    Folder,
    Found,
    Lines,
    Mark,
    marked,
    opened,
    position_after,
    read_lines,
    read_range,
    resumed,
    without_gone,
)

ROWS_OF_A_READ: Final = 10_000
"""Of a runner that gives no limit (Spark)."""

Place = dict[str, Any]
Rows = Callable[[Lines], Iterator[tuple[Any, ...]]]
Parser = Callable[[str], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Reading:
    """`batch`: rows of a read, None as the runner says. `has_position`: a single file in Kafka's form of an offset.
    `records`: of CSV that span lines; None: each line is one."""

    batch: int | None = None
    longest: int = 1 << 20
    skips: bool = False
    has_position: bool = False
    records: CsvRecords | None = None

    def read(self, path: Path, file: Any, start: int, most: int, longest: int) -> Lines:
        """Raises FileError."""
        read = read_lines if self.records is None else self.records.read
        return read(path, file, start, most, longest)

    def lines(self, path: Path, block: bytes, start: int, end: int) -> Lines:
        """`block`: the bytes between two places that `read` gave."""
        if self.records is not None:
            found = self.records.split(block)
            return Lines(path, found, len(found), start, end, are_records=True)
        return Lines(path, [block] if block else [], block.count(b"\n"), start, end)


class FileReader(SimpleDataSourceStreamReader):
    """The place is {"files": {INODE: {"name", "position", "head"}}}; with Kafka's names also {"position": n}, which
    counts if somebody alters it."""

    def __init__(self, folder: Folder, rows: Rows, reading: Reading) -> None:
        self._folder = folder
        self._rows = rows
        self._reading = reading
        self._seen: dict[int, tuple[int, int]] = {}

    def initialOffset(self) -> Place:  # noqa: N802 - Spark's name
        return {"position": 0, "files": {}} if self._reading.has_position else {"files": {}}

    def read(self, start: Place, limit: ReadMaxRows | None = None) -> tuple[Iterator[tuple[Any, ...]], Place]:
        found, end = self.read_lines(start, limit.max_rows if limit is not None else ROWS_OF_A_READ)
        # a list, because Spark copies the iterator
        return iter([row for lines in found for row in self._rows(lines)]), end

    def read_lines(self, start: Place, most: int) -> tuple[list[Lines], Place]:
        most = self._reading.batch or most
        marks = _marks(start)
        files = self._folder.files(marks)
        marks = self._altered(start, marks, files)
        changed = [one for one in files if self._seen.get(one.inode) != (one.size, one.changed_ns)]
        found: list[Lines] = []
        for one, file in opened(changed):
            position = resumed(file, one.size, marks.get(one.inode))
            lines = self._lines(one, file, position, most)
            if lines.end == position and (position or one.inode not in marks):
                self._seen[one.inode] = (one.size, one.changed_ns)  # all is read, but for a line without an end
                continue
            marks[one.inode] = marked(one, file, lines.end)
            found.append(lines)
            most -= lines.count
            if most <= 0:
                break
        if not found:
            return [], start
        return found, self._place(without_gone(marks, files), files)

    def readBetweenOffsets(self, start: Place, end: Place) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        """The rows of a batch again. Raises FileError if a file is gone."""
        before, after = _marks(start), _marks(end)
        files = {one.inode: one for one in self._folder.files(after)}
        before = self._altered(start, before, list(files.values()))
        for inode, mark in after.items():
            first = _first(before.get(inode), mark)
            if first == mark.position:
                continue
            if inode not in files:
                raise FileError(f"{mark.name} is gone, and bytes {first} to {mark.position} of it must be read again")
            for one, file in opened([files[inode]]):
                block = read_range(one.path, file, first, mark.position)
                yield from self._rows(self._reading.lines(one.path, block, first, mark.position))

    def _lines(self, found: Found, file: Any, position: int, most: int) -> Lines:
        try:
            return self._reading.read(found.path, file, position, most, self._reading.longest)
        except FileError:
            if not self._reading.skips:
                raise
        # the lines before the one that is too long, or what comes after it
        lines = self._reading.read(found.path, _Until(file, position, self._reading.longest), position, most, 1 << 62)
        if lines.count:
            return lines
        end = position_after(found.path, position)
        return Lines(found.path, [], 0, position, position if end is None else end)

    def _altered(self, place: Place, marks: dict[int, Mark], files: list[Found]) -> dict[int, Mark]:
        """The marks with the position that the place says for the file itself."""
        if not self._reading.has_position:
            return marks
        current = next((one for one in files if one.path.name == self._folder.path.name), None)
        if current is None:
            return marks
        position, mark = int(place.get("position", 0)), marks.get(current.inode)
        is_told = not marks or (mark is not None and position != mark.position)
        return {**marks, current.inode: Mark(current.path.name, position)} if is_told else marks

    def _place(self, marks: dict[int, Mark], files: list[Found]) -> Place:
        place: Place = {"files": {str(inode): mark.to_json() for inode, mark in marks.items()}}
        if not self._reading.has_position:
            return place
        current = next((one for one in files if one.path.name == self._folder.path.name), None)
        mark = marks.get(current.inode) if current is not None else None
        return {"position": 0 if mark is None else mark.position, **place}


class _Until:
    """The bytes of a file up to a length after a place."""

    def __init__(self, file: Any, start: int, length: int) -> None:
        self._file = file
        self._left = length

    def seek(self, position: int) -> None:
        self._file.seek(position)

    def read(self, size: int) -> bytes:
        block: bytes = self._file.read(min(size, self._left))
        self._left -= len(block)
        return block


def _marks(place: Place) -> dict[int, Mark]:
    return {int(inode): Mark.from_json(one) for inode, one in place.get("files", {}).items()}


def _first(before: Mark | None, after: Mark) -> int:
    """Where the lines of a batch begin: at 0 if the file was another one before."""
    if before is None or before.position > after.position:
        return 0
    is_same = before.head[0] < after.head[0] or before.head == after.head
    return before.position if is_same else 0


@dataclass(slots=True)
class RowsOfRecords:
    """Each line is the value of a whole record. `check` rejects a line."""

    topic: str
    check: Callable[[str], str] | None
    skips: bool

    def __call__(self, lines: Lines) -> Iterator[tuple[Any, ...]]:
        topic, check = self.topic, self.check
        if check is None:
            nothing = repeat(None)
            return zip(repeat(topic), nothing, nothing, lines.texts, nothing, nothing)
        return ((topic, None, None, one, None, None) for one in _parsed(lines, lines.texts, check, self.skips))


class RowsOfColumns:
    """Each line is a row with the columns of the schema. The header of a file of CSV may have another order.

    Parsers are made when they are needed: Spark pickles the reader.
    """

    def __init__(self, form: str, schema: StructType, delimiter: str, has_header: bool, skips: bool) -> None:
        self._form = form
        self._schema = schema
        self._delimiter = delimiter
        self._has_header = has_header
        self._skips = skips
        self._parsers: dict[tuple[str, ...], Parser] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parsers": {}}

    def __call__(self, lines: Lines) -> Iterator[tuple[Any, ...]]:
        texts = lines.texts
        if self._form == JSON or not self._has_header:
            return _parsed(lines, texts, self._parser(None), self._skips)
        header = texts[0] if lines.starts and texts else _first_line(lines)
        parse = self._header_parser(lines, header)
        return _parsed(lines, texts[1:] if lines.starts else texts, parse, self._skips)

    def _header_parser(self, lines: Lines, header: str) -> Parser:
        try:
            return self._parser(tuple(csv_cells(header.removeprefix("\ufeff"), self._delimiter)))
        except LineError as error:
            raise FileError(f"{lines.path}: {error}") from None

    def _parser(self, header: tuple[str, ...] | None) -> Parser:
        key = header or ()
        if key not in self._parsers:
            self._parsers.clear()
            made = json_parser(self._schema) if self._form == JSON else None
            self._parsers[key] = made or csv_parser(self._schema, self._delimiter, header)
        return self._parsers[key]


def _first_line(lines: Lines) -> str:
    with lines.path.open("rb") as file:
        found = read_lines(lines.path, file, 0, 1, 1 << 20).texts
    return found[0] if found else ""


def _parsed(lines: Lines, texts: list[str], parse: Callable[[str], Any], skips: bool) -> Iterator[Any]:
    for number, line in enumerate(texts, 1):
        try:
            yield parse(line)
        except LineError as error:
            if not skips:
                place = f"line {number} from byte {lines.first} on"
                raise FileError(f"{lines.path}, {place}: {error} (bad.lines=skip leaves it out)") from None
