"""The sinks to files: forms, commits that are repeated, kills of half-written output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceStreamWriter
from pyspark.sql.types import IntegerType, Row, StringType, StructField, StructType

from moldau.connect.configuration import ConfigError
from moldau.connect.contract.columns import sink_schema
from moldau.connect.handling.stages import RetriableError
from moldau.connect.running.contexts import set_context
from moldau.connectors.files.appending import publish
from moldau.connectors.files.connectors import Files, FileStreamSink
from moldau.connectors.files.lines import FileError

PAIR = StructType([StructField("a", IntegerType()), StructField("b", StringType())])
RECORD = Row("key", "value", "topic", "partition", "offset", "timestamp", "headers")
PAIRED = Row("a", "b")

APPEND = """
import sys
from pathlib import Path
from moldau.connectors.files.appending import publish
publish(Path(sys.argv[1]), Path(sys.argv[2]), "q", int(sys.argv[3]), b"")
"""


def rows(*values: object) -> Iterator[Row]:
    return (RECORD(None, value, "t", 0, offset, None, []) for offset, value in enumerate(values))


def text_writer(path: Path, kind: type = FileStreamSink) -> DataSourceStreamWriter:
    key = "file" if kind is FileStreamSink else "path"
    return kind(CaseInsensitiveDict({key: str(path)})).streamWriter(sink_schema(value=StringType()), False)


def write(writer: DataSourceStreamWriter, batch: int, *values: object, query: str = "q", slot: int = 0) -> object:
    """Stages a batch, without a commit."""
    set_context(query, batch, slot)
    return writer.write(rows(*values))


def hidden(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir() if "staged" in one.name)


def test_batches_are_appended_as_kafka_does(tmp_path: Path) -> None:
    file = tmp_path / "new" / "out.txt"
    writer = text_writer(file)
    for batch, values in enumerate((("a", "Éva"), (None, "two\nlines"), (b"\xff",))):
        writer.commit([write(writer, batch, *values)], batch)
    assert file.read_bytes() == "a\nÉva\nnull\ntwo\nlines\n".encode() + b"\xff\n"
    assert hidden(file.parent) == []


def test_a_repeated_commit_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    writer = text_writer(file)
    first = write(writer, 0, "a")
    writer.commit([first], 0)
    writer.commit([first], 0)
    again = text_writer(file)  # a new process writes the batch again
    again.commit([write(again, 0, "a")], 0)
    assert file.read_text() == "a\n"
    other = text_writer(file)
    other.commit([write(other, 0, "b", query="other")], 0)
    assert file.read_text() == "a\nb\n"


def test_an_abort_leaves_nothing(tmp_path: Path) -> None:
    writer = text_writer(tmp_path / "out.txt")
    writer.abort([write(writer, 0, "a")], 0)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_attempt_staged_is_removed(tmp_path: Path) -> None:
    writer = text_writer(tmp_path / "out.txt")
    write(writer, 4, "a")
    write(writer, 4, "a", slot=1)
    kept = hidden(tmp_path)
    assert len(kept) == 2
    writer.commit([write(writer, 5, "b")], 5)
    assert hidden(tmp_path) == [one for one in kept if "-1-4-" in one]


@pytest.mark.parametrize("other_first", [False, True])
def test_a_kill_in_the_middle_of_an_append_leaves_no_half_batch(tmp_path: Path, other_first: bool) -> None:
    file, staged, fifo = tmp_path / "out.txt", tmp_path / "staged", tmp_path / "fifo"
    staged.write_text("first\n")
    publish(file, staged, "q", 0, b"")
    os.mkfifo(fifo)
    process = subprocess.Popen([sys.executable, "-c", APPEND, str(file), str(fifo), "1"])
    try:
        with fifo.open("wb") as feeding:  # the append waits for the end of what it copies
            feeding.write(b"x" * (3 << 20))
            feeding.flush()
            assert file.stat().st_size > len("first\n")
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
    finally:
        process.kill()
        process.wait(30)
    staged.write_text("second\n")
    if other_first:
        other = tmp_path / "other"
        other.write_text("other\n")
        publish(file, other, "another", 7, b"")
    publish(file, staged, "q", 1, b"")
    assert file.read_text() == ("first\nother\nsecond\n" if other_first else "first\nsecond\n")


def test_a_file_that_was_moved_away_is_not_cut(tmp_path: Path) -> None:
    file, staged = tmp_path / "out.txt", tmp_path / "staged"
    staged.write_text("first\n")
    publish(file, staged, "q", 0, b"")
    journal = tmp_path / ".out.txt.moldau"
    found = json.loads(journal.read_text())
    journal.write_text(json.dumps({**found, "open": {"inode": file.stat().st_ino, "size": 0}}))
    file.rename(tmp_path / "old.txt")
    file.write_text("theirs\n")
    staged.write_text("second\n")
    publish(file, staged, "q", 1, b"")
    assert file.read_text() == "theirs\nsecond\n"


def test_a_broken_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / ".out.txt.moldau").write_text("{")
    (tmp_path / "staged").write_text("x\n")
    with pytest.raises(FileError, match=r"\.out\.txt\.moldau cannot be read"):
        publish(tmp_path / "out.txt", tmp_path / "staged", "q", 0, b"")


def test_a_folder_gets_a_file_for_each_batch(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    writer = text_writer(tmp_path / "out", Files)
    for batch in (0, 1):
        message = write(writer, batch, f"{batch}a", f"{batch}b")
        assert len(list((tmp_path / "out").glob("part-*"))) == batch  # nothing is seen before the commit
        writer.commit([message], batch)
        writer.commit([message], batch)
    again = write(writer, 1, "1a", "1b")
    writer.commit([again, None], 1)
    files = sorted((tmp_path / "out").iterdir())
    assert [one.read_text() for one in files] == ["0a\n0b\n", "1a\n1b\n"]
    assert [one.name[-20:] for one in files] == ["00000-0000000000.txt", "00000-0000000001.txt"]


def test_a_lost_staged_file_is_an_error(tmp_path: Path) -> None:
    writer = text_writer(tmp_path, Files)
    message = write(writer, 0, "a")
    for one in tmp_path.iterdir():
        one.unlink()
    with pytest.raises(FileError, match="is gone"):
        writer.commit([message], 0)


def test_an_empty_batch_writes_nothing(tmp_path: Path) -> None:
    writer = text_writer(tmp_path, Files)
    writer.commit([write(writer, 0)], 0)
    assert list(tmp_path.glob("part-*")) == []


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("json", '{"a":1,"b":"x,y"}\n{"a":null,"b":null}\nnull\n'),
        ("csv", 'a,b\n1,"x,y"\n,\n\n'),
        ("lines", '{"a":1,"b":"x,y"}\n{"a":null,"b":null}\nnull\n'),
    ],
)
@pytest.mark.parametrize("target", ["out", "folder/"])
def test_structs_are_written_in_each_form(tmp_path: Path, form: str, text: str, target: str) -> None:
    options = {"path": f"{tmp_path}/{target}", "format": form}
    writer = Files(CaseInsensitiveDict(options)).streamWriter(sink_schema(value=PAIR), False)
    values = PAIRED(1, "x,y"), PAIRED(None, None), None
    writer.commit([write(writer, 0, *values)], 0)
    written = next((tmp_path / target).glob("part-*")) if target.endswith("/") else tmp_path / target
    assert written.read_text() == text


def test_csv_needs_columns(tmp_path: Path) -> None:
    options = CaseInsensitiveDict({"path": str(tmp_path), "format": "csv"})
    with pytest.raises(ConfigError, match="needs values with columns"):
        Files(options).streamWriter(sink_schema(value=StringType()), False)


def test_a_header_of_csv_is_written_once(tmp_path: Path) -> None:
    options = CaseInsensitiveDict({"path": str(tmp_path / "out.csv"), "format": "csv", "csv.delimiter": ";"})
    writer = Files(options).streamWriter(sink_schema(value=PAIR), False)
    for batch in (0, 1):
        writer.commit([write(writer, batch, PAIRED(batch, "x"))], batch)
    assert (tmp_path / "out.csv").read_text() == "a;b\n0;x\n1;x\n"


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    writer = FileStreamSink(CaseInsensitiveDict({"file": str(tmp_path / "out")}))
    made = writer.streamWriter(sink_schema(value=StringType()), False)
    with pytest.raises(RetriableError, match="cannot be written: Is a directory"):
        made.commit([write(made, 0, "a")], 0)


@pytest.mark.slow
def test_a_frozen_process_that_holds_the_file_does_not_hold_up_for_ever(tmp_path: Path) -> None:
    fifo, staged = tmp_path / "fifo", tmp_path / "staged"
    os.mkfifo(fifo)
    staged.write_text("x\n")
    process = subprocess.Popen([sys.executable, "-c", APPEND, str(tmp_path / "out.txt"), str(fifo), "1"])
    try:
        with fifo.open("wb"):  # the process has the lock, and waits for more
            with pytest.raises(RetriableError, match="is locked"):
                publish(tmp_path / "out.txt", staged, "q", 0, b"")
            process.kill()
            process.wait(30)
        publish(tmp_path / "out.txt", staged, "q", 0, b"")
    finally:
        process.kill()
        process.wait(30)
    assert (tmp_path / "out.txt").read_text() == "x\n"
