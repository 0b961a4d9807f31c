"""A pipeline that reads files as they arrive: each once; undecodable values are kept, or end it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moldau.columnar.reader import read_topic
from moldau.errors import MoldauError
from moldau.products.pipelines.checkpoints.checkpoint import BatchSpan
from moldau.products.pipelines.checkpoints.file_log import files_read
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.sources.files import FilesError, LocalFileSource
from moldau.testing.pipelines import pipeline_tests


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    directory = tmp_path / "in coming"
    directory.mkdir()
    return directory


@pytest.fixture
def letters(bootstrap_servers):
    """The value, the reason and the file of each dead letter of a pipeline."""

    def read(pipeline: str) -> list[tuple[bytes, str, str]]:
        found = []
        for batch in read_topic(bootstrap_servers, f"{pipeline}.dead-letters", include_headers=True):
            for row in batch.select(["value", "headers"]).to_pylist():
                headers = {header["key"]: header["value"].decode() for header in row["headers"]}
                assert headers["moldau.pipeline"] == pipeline
                found.append((row["value"], headers["moldau.reason"], headers["moldau.file"].rpartition("/")[2]))
        return sorted(found)

    return read


def lines(path: Path, *texts: str) -> None:
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8")


def ids(directory: Path) -> list[int]:
    return sorted(pq.read_table(directory).column("id").to_pylist())


@pytest.mark.slow
def test_lines_of_json_are_read_once_and_what_does_not_parse_is_kept(run_spec, new_name, incoming, tmp_path, letters):
    spec = f"""
source: {{files: "{incoming}", format: json, schema: "id int, at timestamp", event_time: at, watermark: 1 minute}}
sql: select id, _file from source
sink: {{path: out}}
"""
    name = new_name("files")[:60]
    lines(incoming / "a.json", '{"id": 1}', "no JSON", "", '{"id": 2}')
    (state,) = run_spec(spec, name)
    assert (state.state, state.dead_letters) == ("finished", 1)
    lines(incoming / "b 1.json", '{"id": "three"}', '{"id": 4}')
    lines(incoming / "c.json", '{"id": 5}')
    (state,) = run_spec(spec, name)
    assert (state.dead_letters, ids(tmp_path / "out")) == (1, [1, 2, 4, 5])
    assert letters(name) == [
        (b"no JSON", "the value is no JSON", "a.json"),
        (b'{"id": "three"}', "the JSON does not fit the schema: id int, at timestamp", "b%201.json"),
    ]  # fmt: skip
    run_spec(spec, name)
    assert len(letters(name)) == 2
    (tmp_path / "state" / "dead-letters.json").unlink()  # as after a kill before dead letters were kept: at least once
    (state,) = run_spec(spec, name)
    assert (state.dead_letters, len(letters(name))) == (2, 4)
    files = set(pq.read_table(tmp_path / "out").column("_file").to_pylist())
    assert {file.rpartition("/")[2] for file in files} == {"a.json", "b%201.json", "c.json"}


@pytest.mark.slow
def test_what_does_not_parse_in_files_of_a_pattern_with_braces_is_kept(run_spec, new_name, incoming, letters):
    """Spark supports braces, and Python's `glob` does not."""
    name = new_name("files")[:60]
    for file in ("a.json", "b.json", "c.txt"):
        lines(incoming / file, f"no JSON in {file}")
    run_spec(SPEC.format(f'{{files: "{incoming}/{{a,b}}.json", format: json, schema: id int}}'), name)
    assert [value for value, _, _ in letters(name)] == [b"no JSON in a.json", b"no JSON in b.json"]


@pytest.mark.slow
def test_lines_of_csv_have_a_header_that_is_no_row(run_spec, new_name, incoming, tmp_path, letters):
    spec = f"""
source: {{files: "{incoming}/*.csv", format: csv, schema: "id int, name string", separator: ";", header: id;name}}
sql: select id, name from source
sink: {{path: out}}
"""
    name = new_name("files")[:60]
    lines(incoming / "a.csv", "id;name", '1;"a; b"', "two;b", "3;c;d")
    lines(incoming / "a.txt", "9;z")
    run_spec(spec, name)
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"id": 1, "name": "a; b"}]
    assert [value for value, _, _ in letters(name)] == [b"3;c;d", b"two;b"]


def test_a_quote_within_quotes_is_doubled_and_a_backslash_is_a_letter(run_spec, incoming, tmp_path):
    """RFC 4180."""
    spec = f'source: {{files: "{incoming}", format: csv, schema: "id int, a string, b string"}}'
    lines(incoming / "a.csv", '1,"he said ""hi"", and left",x', '2,"""","""a"", b"', r'3,"C:\dir\",\x', '4,"",""""""')
    run_spec(f"{spec}\nsql: select id, a, b from source\nsink: {{path: out}}")
    rows = sorted(pq.read_table(tmp_path / "out").to_pylist(), key=lambda row: row["id"])
    assert [(row["a"], row["b"]) for row in rows] == [
        ('he said "hi", and left', "x"), ('"', '"a", b'), ("C:\\dir\\", "\\x"), (None, '""'),
    ]  # fmt: skip


SPEC = "source: {}\nsql: select id from source\nsink: {{path: out}}"


@pytest.mark.slow
def test_the_first_line_that_does_not_parse_stops_as_declared(run_spec, incoming):
    lines(incoming / "a.json", '{"id": 1}', "no JSON")
    source = f'{{files: "{incoming}", format: json, schema: id int, bad_records: stop}}'
    with pytest.raises(MoldauError, match=r"file file:/.*/a\.json, the value is no JSON"):
        run_spec(SPEC.format(source))


@pytest.mark.slow
def test_the_first_record_of_a_topic_that_does_not_parse_stops_as_declared(run_spec, new_topic, produce):
    topic = new_topic()
    produce(topic, [(None, b'{"id": 1}'), (None, b'{"id": "x"}')])
    source = f"{{topic: {topic}, format: json, schema: id int, bad_records: stop}}"
    with pytest.raises(MoldauError, match=f"topic {topic}, partition 0, offset 1, the JSON does not fit the schema"):
        run_spec(SPEC.format(source))


@pytest.mark.slow
def test_a_name_that_spark_takes_for_a_pattern_ends_a_stream_that_runs(spark, incoming, tmp_path):
    lines(incoming / "a [1].txt", "a")
    lines(incoming / "b.txt", "b")
    rows = LocalFileSource(files=str(incoming), format="text").load(spark)
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "state")).start()
    with pytest.raises(Exception, match=r"rename the file file:/.*%5B1%5D\.txt: Spark takes its name for a pattern"):
        query.processAllAvailable()


@pytest.mark.parametrize(
    ("name", "pattern", "reason"),
    [
        *((f"a{letter}b.csv", "", "Spark takes its name for a pattern") for letter in r"[]{}?*" + "\\"),
        ("a*.csv", "/*.csv", "Spark takes its name for a pattern"),
        ("2026-01-01T00:00:00.csv", "/*.csv", "it takes none with a colon"),
        ("a:b", "/*.csv", "it takes none with a colon"),
    ],
)
def test_a_name_that_spark_does_not_take_is_refused_before_spark_starts(incoming, name: str, pattern: str, reason: str):
    (incoming / f"_{name}").touch()
    source = LocalFileSource(files=f"{incoming}{pattern}", format="text")
    if ":" not in name:
        source.check()  # hidden files are not read
    (incoming / name).touch()
    with pytest.raises(FilesError, match=reason) as refused:
        source.check()
    assert name in str(refused.value)


@pytest.mark.parametrize("name", ["a:b.csv", "a b.csv", "100%.csv", "größe #1.csv", 'it\'s "x".csv', "a,b;c=d&e+f.csv"])
def test_other_odd_names_are_not_refused(incoming, name: str):
    (incoming / name).touch()
    LocalFileSource(files=str(incoming), format="text").check()


def test_each_line_of_files_with_odd_names_is_read_once(spark, incoming, tmp_path):
    names = [
        "2026-01-01T00:00:00.log",
        "a b.csv",
        "100%.csv",
        "a%20b.csv",
        "größe #1.csv",
        'it\'s "x".csv',
        ":",
        "a=b;c,d",
    ]
    for name in names:
        lines(incoming / name, name)
    found: list[str] = []
    query = (
        LocalFileSource(files=str(incoming), format="text")
        .load(spark)
        .writeStream.foreachBatch(lambda batch, _: found.extend(row["value"] for row in batch.collect()))
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(found) == sorted(names)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([b"0123456789abcdef"], pa.uuid()), "UUID"),
        (pa.array([1], pa.time32("ms")), "Time"),
        (pa.array([1.5], pa.float16()), "Float16"),
    ],
)
def test_a_parquet_column_of_a_type_that_spark_lacks_is_named(spark, incoming, column: pa.Array, kind: str):
    pq.write_table(pa.table({"id": [1], "odd.column": column}), incoming / "a.parquet")
    with pytest.raises(FlowError, match=rf"'odd.column' of .*a\.parquet has the type {kind}.*: write it with another"):
        LocalFileSource(files=str(incoming), format="parquet").load(spark)


def test_a_batch_takes_so_many_files_as_the_pipeline_says(run_spec, incoming, tmp_path):
    for name in "abc":
        (incoming / name).write_text(f"{name}\n")
    source = f'source: {{files: "{incoming}", format: text, max_files_per_batch: 2}}'
    run_spec(f"{source}\nsql: select value from source\nsink: {{path: out}}")
    rows = [pq.read_table(file).num_rows for file in sorted((tmp_path / "out").glob("*.parquet"))]
    assert rows == [2, 1]


def test_a_file_is_read_that_is_years_older_than_the_newest_one(run_spec, incoming, tmp_path):
    """As `mv`, `rsync --times` and an archive bring one."""
    spec = SPEC.format(f'{{files: "{incoming}", format: json, schema: id int}}')
    lines(incoming / "new.json", '{"id": 1}')
    run_spec(spec)
    old = incoming / "old.json"
    lines(old, '{"id": 2}')
    os.utime(old, (1, 1))
    run_spec(spec)
    assert ids(tmp_path / "out") == [1, 2]


def test_the_tests_of_a_pipeline_give_lines(spark, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("""
name: lines
bootstrap_servers: 127.0.0.1:1
source: {files: in, format: csv, schema: "id int, name string", header: "id,name"}
sql: select id, name, _file as file from source
sink: {path: out}
tests:
  a line is a record:
    given:
      source: ["id,name", "1,a", "two,b", {_value: "3,c", _file: "file:/c.csv"}]
    expect:
      lines: [{id: 1, name: a, file: null}, {id: 3, name: c, file: "file:/c.csv"}]
""")
    for case in pipeline_tests(str(spec)):
        case.check()


def test_parquet_files_tell_their_columns(run_spec, incoming, tmp_path):
    spec = f'source: {{files: "{incoming}", format: parquet}}\nsql: select * from source\nsink: {{path: out}}'
    with pytest.raises(MoldauError, match="tells no columns"):
        run_spec(spec)
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), incoming / "a.parquet")
    run_spec(spec)
    (row,) = pq.read_table(tmp_path / "out").to_pylist()
    assert (row["id"], row["name"], row["_file"].endswith("/a.parquet")) == (1, "a", True)


def test_a_directory_that_is_not_there_is_refused(run_spec, tmp_path):
    with pytest.raises(MoldauError, match="absent does not exist: make the directory"):
        run_spec('source: {files: "absent/*.txt", format: text}\nsql: select value from source\nsink: {path: out}')


def test_the_files_of_some_batches_are_found_in_the_log(tmp_path):
    """As Spark writes it: every tenth file of the log has the lines of all before."""
    log, offsets = tmp_path / "sources" / "0", tmp_path / "offsets"
    log.mkdir(parents=True)
    offsets.mkdir()
    entries = []
    for number in range(12):
        file = tmp_path / f"{number}.txt"
        file.touch()
        entries.append(json.dumps({"path": file.as_uri(), "timestamp": 0, "batchId": number}))
        shown = entries if number == 9 else entries[-1:]
        (log / (f"{number}.compact" if number == 9 else str(number))).write_text("\n".join(["v1", *shown]), "utf-8")
        (offsets / str(number)).write_text(f'v1\n{{}}\n{{"logOffset":{number}}}', "utf-8")
    (tmp_path / "11.txt").unlink()

    def names(first: int, last: int) -> list[str]:
        return [path.name for path in files_read(BatchSpan(tmp_path, first, last, {}, {}))]

    assert names(0, 1) == ["0.txt", "1.txt"]
    assert names(8, 11) == ["10.txt", "8.txt", "9.txt"]
