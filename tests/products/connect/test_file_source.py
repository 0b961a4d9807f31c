"""The source of files: growth, rotation, cuts, bad lines, formats."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadMaxRows

from moldau.connect.configuration import ConfigError
from moldau.connectors.files import lines as lines_module
from moldau.connectors.files.connectors import Files, FileStreamSource
from moldau.connectors.files.lines import FileError

Place = dict[str, Any]


class Reading:
    """A source that is read on and on, its place through JSON as a topic keeps it."""

    def __init__(self, kind: type, **options: object) -> None:
        given = {name.replace("_", "."): str(value) for name, value in options.items()}
        self.source = kind(CaseInsensitiveDict({"topic": "t", **given}))
        self.reader = self.source.simpleStreamReader(self.source.schema())
        self.place: Place = self.reader.initialOffset()
        self.batches: list[tuple[Place, Place, list[Any]]] = []

    def next(self, most: int = 1000) -> list[Any]:
        rows, end = self.reader.read(self.place, ReadMaxRows(most))
        found = list(rows)
        end = json.loads(json.dumps(end))
        self.batches.append((self.place, end, found))
        self.place = end
        return found

    def values(self, most: int = 1000) -> list[Any]:
        return [row[3] for row in self.next(most)]

    def restarted(self) -> None:
        self.reader = self.source.simpleStreamReader(self.source.schema())


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize(("kind", "key"), [(Files, "path"), (FileStreamSource, "file")])
def test_a_growing_file_is_read_line_by_line(tmp_path: Path, kind: type, key: str) -> None:
    file = tmp_path / "a.log"
    reading = Reading(kind, **{key: file})
    assert reading.values() == []  # it does not exist yet
    append(file, "one\ntwo\r\n\nthr")
    assert reading.values() == ["one", "two", ""]
    assert reading.values() == []
    append(file, "ee\nÉva\n")
    reading.restarted()
    assert reading.values() == ["three", "Éva"]
    assert reading.next() == []


def test_a_row_is_a_whole_record(tmp_path: Path) -> None:
    append(tmp_path / "a", "x\n")
    assert Reading(Files, path=tmp_path / "a").next() == [("t", None, None, "x", None, None)]


def test_a_batch_has_the_lines_that_are_asked_for(tmp_path: Path) -> None:
    append(tmp_path / "a", "".join(f"{number}\n" for number in range(10)))
    reading = Reading(Files, path=tmp_path / "a")
    assert [reading.values(4) for _ in range(4)] == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"], []]
    own = Reading(Files, path=tmp_path / "a", batch_size=3)
    assert own.values(100) == ["0", "1", "2"]


def test_every_batch_can_be_read_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        append(tmp_path / name, "".join(f"{name}{number}\n" for number in range(25)))
    reading = Reading(Files, path=tmp_path)
    while reading.next(10):
        pass
    (tmp_path / "a").rename(tmp_path / "c")
    reading.restarted()
    for start, end, rows in reading.batches:
        assert list(reading.reader.readBetweenOffsets(start, end)) == rows
    assert sum(len(rows) for _, _, rows in reading.batches) == 50


def test_a_rotated_file_is_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    append(file, "1\n2\n")
    reading = Reading(Files, path=file)
    assert reading.values() == ["1", "2"]
    append(file, "3\n")
    file.rename(tmp_path / "a.log.1")
    append(file, "4\n")
    reading.restarted()
    assert sorted(reading.values() + reading.values()) == ["3", "4"]
    assert reading.values() == []
    assert {one["name"] for one in reading.place["files"].values()} == {"a.log", "a.log.1"}
    (tmp_path / "a.log.1").unlink()
    append(file, "5\n")
    assert reading.values() == ["5"]
    assert [one["name"] for one in reading.place["files"].values()] == ["a.log"]


def test_a_file_that_was_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    append(file, "old one\nold two\n")
    reading = Reading(Files, path=file)
    reading.next()
    file.write_text("new\n")
    assert reading.values() == ["new"]
    file.write_text("newer, and longer than before\n")
    assert reading.values() == ["newer, and longer than before"]


def test_a_directory_is_read_by_its_pattern(tmp_path: Path) -> None:
    for name in ("a.log", "b.txt", ".c.log"):
        append(tmp_path / name, f"{name}\n")
    (tmp_path / "d.log").mkdir()
    assert Reading(Files, path=tmp_path, pattern="*.log").values() == ["a.log"]


def test_tasks_share_the_files_of_a_directory(tmp_path: Path) -> None:
    for number in range(20):
        append(tmp_path / str(number), f"{number}\n")
    configs = Files.split({"path": str(tmp_path)}, 3)
    found = [Reading(Files, **config).values() for config in configs]
    assert sorted(int(one) for part in found for one in part) == list(range(20))
    assert Files.split({"path": str(tmp_path / "1")}, 3) == [{"path": str(tmp_path / "1")}]


def test_too_many_files_are_rejected(tmp_path: Path) -> None:
    for number in range(lines_module.MAX_FILES + 1):
        (tmp_path / str(number)).touch()
    with pytest.raises(FileError, match="more tasks"):
        Reading(Files, path=tmp_path).next()


def test_kafkas_offset_moves_the_reader(tmp_path: Path) -> None:
    append(tmp_path / "a", "one\ntwo\nthree\n")
    reading = Reading(FileStreamSource, file=tmp_path / "a")
    reading.next()
    assert reading.place["position"] == 14
    reading.place = {**reading.place, "position": 4}
    reading.restarted()
    assert reading.values() == ["two", "three"]
    reading.place = {"position": 8}
    reading.restarted()
    assert reading.values() == ["three"]


def test_a_line_without_an_end_waits(tmp_path: Path) -> None:
    append(tmp_path / "a", "x" * 3_000_000)
    reading = Reading(Files, path=tmp_path / "a", max_line_bytes=4_000_000)
    assert reading.values() == []
    append(tmp_path / "a", "\n")
    assert [len(one) for one in reading.values()] == [3_000_000]


def test_a_line_that_is_too_long_stops_or_is_left_out(tmp_path: Path) -> None:
    append(tmp_path / "a", "one\n" + "x" * 3_000_000 + "\ntwo\n")
    with pytest.raises(FileError, match=r"max\.line\.bytes"):
        Reading(Files, path=tmp_path / "a", max_line_bytes=1000).next()
    reading = Reading(Files, path=tmp_path / "a", max_line_bytes=1000, bad_lines="skip")
    assert [*reading.values(), *reading.values(), *reading.values()] == ["one", "two"]


def test_bytes_that_are_no_utf_8_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\xffb\n\xc3\nc\n")
    assert Reading(Files, path=tmp_path / "a").values() == ["a\ufffdb", "\ufffd", "c"]


COLUMNS = "id BIGINT NOT NULL, name STRING, price DECIMAL(10, 2), ok BOOLEAN, day DATE, at TIMESTAMP, x DOUBLE"
ROW = (
    1,
    "Éva, Q.",
    Decimal("1.50"),
    True,
    dt.date(2026, 1, 2),
    dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    0.5,
)


def test_json_becomes_columns(tmp_path: Path) -> None:
    values = ["Éva, Q.", 1.5, True, "2026-01-02", "2026-01-02T03:04:05Z", 0.5]
    value = dict(zip(("name", "price", "ok", "day", "at", "x"), values, strict=True))
    append(tmp_path / "a", json.dumps({"id": 1, **value, "other": []}) + '\n{"id":2,"name":null}\n')
    reading = Reading(Files, path=tmp_path / "a", format="json", columns=COLUMNS, key_columns="id")
    assert reading.next() == [ROW, (2, None, None, None, None, None, None)]
    assert reading.source.key_columns == ("id",)


def test_nested_json_becomes_columns(tmp_path: Path) -> None:
    append(tmp_path / "a", '{"a":[1,null],"m":{"k":2.5},"s":{"b":"x"}}\n')
    columns = "a ARRAY<INT>, m MAP<STRING, DOUBLE>, s STRUCT<b: STRING, c: INT>"
    reading = Reading(Files, path=tmp_path / "a", format="json", columns=columns)
    assert reading.next() == [([1, None], {"k": 2.5}, ("x", None))]


def test_json_without_columns_is_checked_and_kept(tmp_path: Path) -> None:
    append(tmp_path / "a", '{"a": 1}\n[2]\n')
    assert Reading(Files, path=tmp_path / "a", format="json").values() == ['{"a": 1}', "[2]"]


def test_csv_becomes_columns_by_the_header_of_each_file(tmp_path: Path) -> None:
    append(tmp_path / "a", "name;id;price;ok;day;at;x;more\n")
    append(tmp_path / "a", '"Éva, Q.";1;1.5;TRUE;2026-01-02;2026-01-02T03:04:05Z;0.5;y\n;2;;;;;;\n')
    reading = Reading(Files, path=tmp_path / "a", format="csv", columns=COLUMNS, csv_delimiter=";")
    assert reading.next(2) == [ROW]
    reading.restarted()
    assert reading.next(2) == [(2, None, None, None, None, None, None)]


def test_csv_without_a_header_has_the_order_of_the_columns(tmp_path: Path) -> None:
    append(tmp_path / "a", '1,"x ""y"""\n')
    reading = Reading(Files, path=tmp_path / "a", format="csv", columns="a INT, b STRING", csv_header="false")
    assert reading.next() == [(1, 'x "y"')]


def test_fields_of_csv_span_lines_also_over_a_restart(tmp_path: Path) -> None:
    path, columns = tmp_path / "a", "id INT, text STRING"
    reading = Reading(Files, path=path, format="csv", columns=columns, csv_multiline="true")
    append(path, 'id,text\r\n1,"first\n""second"",\r\n\nlast"\r\n2,5" disk\n3,"open\nstill')
    first = (1, 'first\n"second",\r\n\nlast')
    assert reading.next(2) == [first]  # the header is one of the two
    reading.restarted()
    assert reading.next() == [(2, '5" disk')]
    reading.restarted()
    assert reading.next() == []
    append(path, ' open"\n4,"x"\n')
    assert reading.next() == [(3, "open\nstill open"), (4, "x")]
    for start, end, rows in reading.batches:
        assert list(reading.reader.readBetweenOffsets(start, end)) == rows
    append(path, '5,"' + "y" * 2_000_000)
    with pytest.raises(FileError, match=r"the record at byte [0-9]+ has more than 1048576 bytes"):
        reading.next()


@pytest.mark.parametrize(
    ("form", "text", "reason"),
    [
        ("json", "{", "no JSON"),
        ("json", "[1]", "no JSON object"),
        ("json", '{"b":"x"}', "NOT NULL"),
        ("json", '{"a":1.5}', "column a"),
        ("json", '{"a":true}', "column a"),
        ("json", '{"a":3000000000}', "column a"),
        ("csv", "x,y", "column a"),
        ("csv", "1", "1 fields, expected 2"),
        ("csv", '1,"x', "no CSV"),
        ("csv", "3000000000,x", "column a"),
    ],
)
def test_a_bad_line_stops_or_is_left_out(tmp_path: Path, form: str, text: str, reason: str) -> None:
    good = '{"a":1,"b":"x"}' if form == "json" else "1,x"
    append(tmp_path / "a", f"{good}\n{text}\n{good}\n")
    options = {"path": tmp_path / "a", "format": form, "columns": "a INT NOT NULL, b STRING", "csv_header": "false"}
    with pytest.raises(FileError, match=rf"line 2 from byte 0 on: .*{reason}"):
        Reading(Files, **options).next()
    assert Reading(Files, **options, bad_lines="skip").next() == [(1, "x"), (1, "x")]


def test_a_header_without_a_column_is_rejected(tmp_path: Path) -> None:
    append(tmp_path / "a", "a,c\n1,2\n")
    with pytest.raises(FileError, match="no column b"):
        Reading(Files, path=tmp_path / "a", format="csv", columns="a INT, b STRING").next()


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"path": ""}, "path"),
        ({"path": "/x", "format": "xml"}, "format"),
        ({"path": "/x", "format": "csv"}, "columns"),
        ({"path": "/x", "format": "lines", "columns": "a INT"}, "columns"),
        ({"path": "/x", "format": "json", "columns": "a NOTHING"}, "columns"),
        ({"path": "/x", "format": "csv", "columns": "a ARRAY<INT>"}, "columns"),
        ({"path": "/x", "format": "json", "columns": "a INT", "key_columns": "b"}, "key.columns"),
        ({"path": "/x", "topic": ""}, "topic"),
        ({"path": "/x", "csv_delimiter": ";;"}, "csv.delimiter"),
        ({"path": "/x", "max_line_bytes": "0"}, "max.line.bytes"),
        ({}, "path"),
    ],
)
def test_a_wrong_setting_is_named(options: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as found:
        Reading(Files, **options)
    assert list(found.value.errors) == [key]
