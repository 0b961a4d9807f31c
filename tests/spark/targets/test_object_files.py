"""Files of an object store as a source: each is found once and read once, and an unavailable store is waited for."""

from __future__ import annotations

import bz2
import datetime
import gzip
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from moldau.cli.main import main
from moldau.errors import MoldauError
from moldau.products.pipelines.checkpoints.checkpoint import BatchSpan
from moldau.products.pipelines.checkpoints.found_files import FoundFile, FoundFiles, found_between
from moldau.products.pipelines.sources.object_files import (
    BLOCK_BYTES,
    LONGEST_LINE_BYTES,
    ObjectFilesFeed,
    listed,
    parquet_columns,
)
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.spark.source.feeds import read_whole
from tests.spark.feeds import Reader
from tests.support.object_store import ScriptedStore, environment_of, moto_server

PATIENCE_MS = 60_000
LIFE_S = 400
"""The time limit of a driver that hangs, far above what one needs."""


def feed_of(address: str, logs: Path | None = None, *, max_files: int = 1_000, tasks: int = 2, **more):
    return ObjectFilesFeed(address, logs=logs, max_files=max_files, tasks=tasks, patience_ms=PATIENCE_MS, **more)


def parquet_feed_of(address: str) -> ObjectFilesFeed:
    return feed_of(address, columns=parquet_columns(listed(address, PATIENCE_MS)))


def values(rows: list[dict]) -> list[str]:
    return sorted(row["value"] for row in rows)


def read_lines(address: str) -> list[str]:
    return values([row for batch in read_whole(feed_of(address)) for row in batch.to_pylist()])


def test_a_file_is_read_once_and_a_driver_that_begins_anew_goes_on_behind_it(bucket, tmp_path):
    address = f"{bucket.address}/in coming"
    first = Reader(feed_of(address, tmp_path))
    assert first.batch() == []
    bucket.put("in coming/a 1%20.txt", b"a\nb")
    bucket.put("in coming/_hidden.txt", b"hidden\n")
    bucket.put("in coming/.hidden.txt", b"hidden\n")
    bucket.put("in coming/below/c.txt", b"below\n")
    bucket.put("in coming too/d.txt", b"elsewhere\n")
    second = Reader(feed_of(address, tmp_path))
    assert second.batch() == [{"value": text, "_file": f"{address}/a 1%20.txt"} for text in "ab"]
    bucket.put("in coming/z.txt", b"z\n")
    third = Reader(feed_of(address, tmp_path))
    third.place = second.place
    assert values(third.batch()) == ["z"]
    assert values(third.between(second.place, third.place)) == ["z"]
    assert values(third.between({"files": 0}, third.place)) == ["a", "b", "z"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("logs/*.csv", ["a"]),
        ("logs/*/*.csv", ["x", "y"]),
        ("logs/day-[12]/?.csv", ["x", "y"]),
        ("logs/{a.c,day-1/x.c}sv", ["a", "x"]),
        ("logs/day-1", ["x"]),
        ("absent", []),
    ],
)  # fmt: skip
def test_a_pattern_names_files(bucket, pattern, found):
    for key, text in {"a.csv": b"a", "a.txt": b"t", "day-1/x.csv": b"x", "day-2/y.csv": b"y", "_d/z.csv": b"z"}.items():
        bucket.put(f"logs/{key}", text)
    assert read_lines(f"{bucket.address}/{pattern}") == found


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.txt", "\ufeffä\r\nb\rc\n\nd".encode(), ["ä", "b", "c", "", "d"]),
        ("a.txt.gz", gzip.compress(b"a\n") + gzip.compress(b"b\n"), ["a", "b"]),
        ("a.txt.bz2", bz2.compress(b"a\nb"), ["a", "b"]),
        ("a.txt", b"", []),
    ],
    ids=["line ends", "gzip", "bzip2", "empty"],
)
def test_a_line_is_a_record(bucket, name, content, lines):
    bucket.put(f"in/{name}", content)
    assert read_lines(f"{bucket.address}/in") == sorted(lines)


def test_lines_are_whole_where_a_large_file_is_read_in_pieces(bucket):
    lines = [f"{number:0126}" for number in range(BLOCK_BYTES // 100)] + ["x" * 2 * BLOCK_BYTES]
    bucket.put("in/a.txt", "\r\n".join(lines).encode())
    rows = pa.Table.from_batches(read_whole(feed_of(f"{bucket.address}/in")))
    assert rows.column("value").equals(pa.chunked_array([lines]))


def test_a_line_without_an_end_is_refused_with_the_name_of_its_file(bucket):
    """A small compressed file may hold a long line."""
    bucket.put("in/a.json.gz", gzip.compress(b"x" * (LONGEST_LINE_BYTES + BLOCK_BYTES)))
    with pytest.raises(MoldauError, match=r"in/a\.json\.gz cannot be read: one of its lines is longer than 64 MiB"):
        read_lines(f"{bucket.address}/in")


def test_a_batch_takes_the_configured_number_of_files_and_one_listing_serves_several(bucket, tmp_path):
    for number in range(5):
        bucket.put(f"in/{number}", b"%d" % number)
    reader = Reader(feed_of(f"{bucket.address}/in", tmp_path, max_files=2))
    batches = [values(reader.batch())]
    bucket.put("in/5", b"5")
    batches += [values(reader.batch()) for _ in range(2)]
    assert batches == [["0", "1"], ["2", "3"], ["4"]]
    other = Reader(feed_of(f"{bucket.address}/in", tmp_path))  # another bound, as in a changed pipeline file
    other.place = reader.place
    assert values(other.batch()) == ["5"]


def test_a_task_gets_about_as_many_bytes_as_another(bucket):
    for number, size in enumerate([1, 9, 2, 8]):
        bucket.put(f"in/{number}", b"x" * size)
    parts = feed_of(f"{bucket.address}/in").whole()
    assert [sum(file.size for file in part) for part in parts] == [11, 9]


def test_files_that_a_killed_driver_has_noted_come_next(bucket, tmp_path):
    address = f"{bucket.address}/in"
    bucket.put("in/a", b"a")
    first = Reader(feed_of(address, tmp_path))
    first.batch()
    bucket.put("in/b", b"b")
    killed = feed_of(address, tmp_path)
    assert killed.end(first.place)["files"] == 2  # but Spark has not recorded the place
    (log,) = tmp_path.iterdir()
    whole = log.read_bytes()
    for cut in (0, 5, len(whole.splitlines(keepends=True)[1])):
        log.write_bytes(whole[: len(whole) - cut])
        bucket.put(f"in/c{cut}", b"c")
        again = Reader(feed_of(address, tmp_path))
        again.place = first.place
        assert "b" in values(again.batch() + again.batch())
    assert "in/a" not in {row["_file"] for row in again.between(first.place, again.place)}


def test_a_log_that_lacks_what_was_read_is_told(bucket, tmp_path):
    bucket.put("in/a", b"a")
    reader = Reader(feed_of(f"{bucket.address}/in", tmp_path))
    reader.batch()
    (log,) = tmp_path.iterdir()
    for damage, words in ((log.unlink, "is cut or gone"), (lambda: log.write_text("?\n"), "not the log of a source")):
        damage()
        with pytest.raises(MoldauError, match=words):
            feed_of(f"{bucket.address}/in", tmp_path).end(reader.place)


def test_two_readers_of_one_source_do_not_disturb_each_other(bucket, tmp_path):
    """Spark makes two from a stream that is joined with itself."""
    bucket.put("in/a", b"a")
    readers = [Reader(feed_of(f"{bucket.address}/in", tmp_path)) for _ in range(2)]
    assert [values(reader.batch()) for reader in readers] == [["a"], ["a"]]
    assert readers[0].place != readers[1].place


def test_a_file_that_is_gone_has_no_rows_and_one_that_was_read_is_not_read_again(bucket, tmp_path):
    for name in "abc":
        bucket.put(f"in/{name}", name.encode())
    reader = Reader(feed_of(f"{bucket.address}/in", tmp_path))
    end = reader.feed.end(reader.place)
    bucket.delete("in/a")
    assert values(reader.between(reader.place, end)) == ["b", "c"]
    bucket.put("in/c", b"newest")
    again = Reader(feed_of(f"{bucket.address}/in", tmp_path))
    again.place = end
    assert again.batch() == []


def test_a_file_replaced_before_it_was_read_is_rejected_until_it_has_a_new_name(bucket, tmp_path):
    """A batch that is repeated after a crash has the same rows."""
    for name in "ab":
        bucket.put(f"in/{name}", name.encode())
    reader = Reader(feed_of(f"{bucket.address}/in", tmp_path))
    end = reader.feed.end(reader.place)
    bucket.put("in/b", b"newer")
    told = rf"the file {bucket.address}/in/b was replaced after it was found: move it to a name that is new"
    for _ in range(2):
        with pytest.raises(MoldauError, match=told):
            reader.between(reader.place, end)
    bucket.delete("in/b")
    bucket.put("in/c", b"newer")
    assert values(reader.between(reader.place, end)) == ["a"]
    again = Reader(feed_of(f"{bucket.address}/in", tmp_path))
    again.place = end
    assert values(again.batch()) == ["newer"]


@pytest.fixture
def scripted(monkeypatch):
    """A scripted store with these objects, and the address of its bucket. It runs until the test ends."""
    with ExitStack() as stack:

        def run_store(objects: dict[str, bytes], *fails) -> tuple[ScriptedStore, str]:
            store = ScriptedStore(objects, *fails)
            for name, value in environment_of(stack.enter_context(store.running())).items():
                monkeypatch.setenv(name, value)
            return store, f"s3://{store.bucket}"

        yield run_store


def test_a_file_of_the_same_size_that_was_written_later_is_another_one(scripted):
    store, address = scripted({"in/a": b"old"})
    feed = feed_of(f"{address}/in")
    parts = feed.whole()
    store.replace("in/a", b"new", seconds_later=1)
    with pytest.raises(MoldauError, match="in/a was replaced after it was found"):
        list(feed.read(parts[0]))


@pytest.mark.slow
@pytest.mark.parametrize("end", ["read on", "begun again"])
def test_a_file_that_is_replaced_between_two_pieces_is_refused(scripted, end):
    """By another file of its size, within the second in which it was found. The store may also be unavailable then."""
    asked: Counter[str] = Counter()

    def replaces(method: str, key: str) -> bool:
        is_piece = method == "GET" and key != ""
        asked["pieces"] += is_piece
        if is_piece and asked["pieces"] == 2:
            store.replace(key, b"new\n" * (BLOCK_BYTES // 2))
            return end == "begun again"
        return False

    store, address = scripted({"in/a": b"old\n" * (BLOCK_BYTES // 2)}, replaces)
    with pytest.raises(MoldauError, match="in/a was replaced while it was read"):
        list(read_whole(feed_of(f"{address}/in")))


def test_a_log_from_before_times_were_noted_is_read_on(bucket, tmp_path):
    bucket.put("in/a", b"a")
    (tmp_path / "log").write_text(f'["{bucket.address}/in/a",1]\n["{bucket.address}/in/gone",1]\n')
    reader = Reader(feed_of(f"{bucket.address}/in", tmp_path))
    assert values(reader.between({"files": 0}, {"log": "log", "files": 2})) == ["a"]
    bucket.put("in/a", b"newer")
    with pytest.raises(MoldauError, match="was replaced after it was found"):
        reader.between({"files": 0}, {"log": "log", "files": 2})


def test_dead_letters_are_not_looked_for_in_a_file_that_was_replaced_since(bucket, tmp_path, caplog):
    for name in "ab":
        bucket.put(f"in/{name}", name.encode())
    feed = feed_of(f"{bucket.address}/in")
    found = listed(f"{bucket.address}/in", PATIENCE_MS)
    bucket.put("in/a", b"newer")
    assert values([row for batch in feed.read_again(found) for row in batch.to_pylist()]) == ["b"]
    assert "in/a was replaced after it was read: its records are not read again" in caplog.text


def test_the_files_of_some_batches_are_found_in_the_logs(tmp_path):
    """A query may have several sources, and a batch may come before the first file of one."""
    logs, offsets = tmp_path / "logs", tmp_path / "offsets"
    offsets.mkdir()
    for log in "ab":
        FoundFiles(logs / log).add(FoundFile(f"s3://lake/{log}{number}", 1) for number in range(4))
    places = (
        ('{"log":"a","files":1}', "-"),
        ('{"log":"a","files":3}', '{"log":"b","files":2}'),
        ('{"version":4}', "-"),
    )
    for number, lines in enumerate(places):
        (offsets / str(number)).write_text("\n".join(["v1", "{}", *lines]), "utf-8")

    def names(first: int, last: int) -> list[str]:
        found = found_between(BatchSpan(tmp_path, first, last, {}, {}), logs)
        return [file.address.removeprefix("s3://lake/") for file in found]

    assert names(0, 0) == ["a0"]
    assert names(1, 1) == ["a1", "a2", "b0", "b1"]
    assert names(0, 1) == ["a0", "a1", "a2", "b0", "b1"]
    assert names(2, 2) == []


def test_parquet_files_have_the_columns_of_the_newest_one(bucket):
    bucket.put_table("in/z.parquet", pa.table({"id": pa.array([1], pa.int32())}))
    bucket.put_table("in/y.parquet", pa.table({"name": ["n"], "id": pa.array([2], pa.int64())}))
    # the store's times are those of its clock, in seconds
    columns = parquet_columns(sorted(listed(f"{bucket.address}/in", 0), key=lambda file: "z" not in file.address))
    assert columns.names == ["name", "id", "_file"]
    rows = pa.Table.from_batches(read_whole(feed_of(f"{bucket.address}/in", columns=columns))).to_pylist()
    assert sorted((row["id"], row["name"], row["_file"][-9:]) for row in rows) == [
        (1, None, "z.parquet"), (2, "n", "y.parquet"),
    ]  # fmt: skip


def test_parquet_columns_have_types_that_spark_knows(bucket):
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC)
    table = pa.table(
        {
            "nanos": pa.array([moment], pa.timestamp("ns", "UTC")),
            "clock": pa.array([datetime.time(1, 2)], pa.time32("s")),
            "day": pa.array([datetime.date(2026, 1, 2)], pa.date64()),
            "hash": pa.array([b"abcd"], pa.binary(4)),
            "word": pa.array(["a"]).dictionary_encode(),
            "large": pa.array(["b"], pa.large_string()),
            "small": pa.array([200], pa.uint8()),
            "huge": pa.array([2**64 - 1], pa.uint64()),
            "nested": pa.array([{"list": [1]}], pa.struct([("list", pa.large_list(pa.uint16()))])),
        }
    )
    bucket.put_table("in/a.parquet", table)
    feed = parquet_feed_of(f"{bucket.address}/in")
    (row,) = pa.Table.from_batches(read_whole(feed)).to_pylist()
    assert {column.name: str(column.type) for column in feed.columns} == {
        "nanos": "timestamp[us, tz=UTC]", "clock": "time64[ns]", "day": "date32[day]", "hash": "binary",
        "word": "string", "large": "string", "small": "int16",
        "huge": "decimal128(20, 0)", "nested": "struct<list: list<element: int32>>", "_file": "string",
    }  # fmt: skip
    assert (row["nanos"], row["word"], row["huge"], row["nested"]) == (moment, "a", 2**64 - 1, {"list": [1]})


def test_times_of_the_old_kind_are_instants(bucket):
    """As Spark reads its own INT96 values."""
    table = pa.table({"at": pa.array([0], pa.timestamp("us"))})
    bucket.put_table("in/a.parquet", table, use_deprecated_int96_timestamps=True, store_schema=False)
    (row,) = pa.Table.from_batches(read_whole(parquet_feed_of(f"{bucket.address}/in"))).to_pylist()
    assert row["at"] == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def test_parquet_files_that_tell_no_columns_are_refused(bucket):
    with pytest.raises(MoldauError, match="there is no Parquet file yet"):
        parquet_feed_of(f"{bucket.address}/in")
    bucket.put_table("in/a.parquet", pa.table({"_file": ["a"]}))
    with pytest.raises(MoldauError, match="has a column _file, which is the source's own"):
        parquet_feed_of(f"{bucket.address}/in")
    bucket.put("in/a.parquet", b"no Parquet")
    with pytest.raises(MoldauError, match=r"in/a\.parquet cannot be read: Parquet magic bytes not found"):
        parquet_feed_of(f"{bucket.address}/in")


def source_of(files: str):
    spec = f'name: n\nbootstrap_servers: a:1\nsource: {{files: "{files}", format: text}}\nsql: select 1 from source\n'
    return parse_spec(spec + "sink: {path: out}", file_name="p", directory=Path("/pages")).sources()["source"]


def test_a_bucket_that_is_not_there_is_refused(bucket):
    source_of(f"{bucket.address}/nothing is here yet/*.json").check()
    source_of(bucket.address).check()
    for address in ("s3://no-such-bucket", "s3://no-such-bucket/in/*.json"):
        with pytest.raises(MoldauError, match=r"cannot be read: there is no bucket s3://no-such-bucket$"):
            source_of(address).check()


def test_an_address_of_a_file_is_refused(bucket):
    bucket.put("in/a.json", b"a")
    with pytest.raises(MoldauError, match=r"in/a\.json is a file: name its directory, or a pattern"):
        source_of(f"{bucket.address}/in/a.json").check()


def test_wrong_credentials_are_told(monkeypatch):
    with moto_server({"INITIAL_NO_AUTH_ACTION_COUNT": "0"}) as address:
        for name, value in environment_of(address).items():
            monkeypatch.setenv(name, value)
        address = f"s3://b-{uuid4().hex[:12]}/in"
        with pytest.raises(MoldauError, match=r"in cannot be read: .*ACCESS_DENIED .*is told by AWS_ACCESS_KEY_ID and"):
            source_of(address).check()
        with pytest.raises(MoldauError, match=r"in cannot be listed: .*INVALID_ACCESS_KEY_ID .*in our records \("):
            listed(address, PATIENCE_MS)


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_told(monkeypatch):
    with moto_server() as address:
        for name, value in environment_of(address).items():
            monkeypatch.setenv(name, value)
    with pytest.raises(MoldauError, match=r"in cannot be read: .*NETWORK_CONNECTION"):
        source_of(f"s3://b-{uuid4().hex[:12]}/in").check()


@pytest.mark.slow
def test_a_store_that_is_away_for_a_while_is_listed_later(monkeypatch, caplog):
    """Arrow by itself retries for six seconds, five times each."""
    asked: Counter[str] = Counter()

    def fails(method: str, key: str) -> bool:
        asked[method] += 1
        return asked[method] <= 35

    store = ScriptedStore({"in/a": b""}, fails)
    address = f"s3://{store.bucket}/in"
    with store.running() as server:
        for name, value in environment_of(server).items():
            monkeypatch.setenv(name, value)
        assert [file.address for file in listed(address, PATIENCE_MS)] == [f"{address}/a"]
    assert f"the list of {address} is tried again in" in caplog.text


def test_a_file_that_was_read_in_part_is_not_read_twice(monkeypatch):
    """The store becomes unavailable between two pieces of the file. For a small piece Arrow sends one request, whose
    response is longer."""
    lines = ["x" * 127] * (BLOCK_BYTES // 128) + ["end"]
    asked: Counter[str] = Counter()

    def fails(method: str, key: str) -> bool:
        is_piece = method == "GET" and key != ""
        asked["pieces"] += is_piece
        return is_piece and asked["pieces"] == 2

    store = ScriptedStore({"in/a": "\n".join(lines).encode()}, fails)
    with store.running() as address:
        for name, value in environment_of(address).items():
            monkeypatch.setenv(name, value)
        rows = pa.Table.from_batches(read_whole(feed_of(f"s3://{store.bucket}/in")))
    assert asked["pieces"] == 4
    assert rows.column("value").equals(pa.chunked_array([lines]))


def test_a_list_costs_a_request_for_each_thousand_files_and_one_look_finds_all(monkeypatch, tmp_path):
    store = ScriptedStore({f"in/{number:06}.json": b"" for number in range(5_000)})
    with store.running() as address:
        for name, value in environment_of(address).items():
            monkeypatch.setenv(name, value)
        feed = feed_of(f"s3://{store.bucket}/in", tmp_path, max_files=1_000)
        place = feed.beginning()
        for number in range(1, 6):
            place = feed.step(place, feed.end(place))
            assert place["files"] == 1_000 * number
    assert store.lists == 5


@pytest.mark.slow
def test_a_pipeline_reads_lines_once_and_keeps_what_does_not_parse(
    spark, bucket, bootstrap_servers, new_name, read_back, tmp_path, capsys
):
    spec, name = tmp_path / "spec.yaml", new_name("objects")[:60]
    source = f'{{files: "{bucket.address}/in/*/*.json", format: json, schema: id int}}'
    sink = f"sink: {{path: {bucket.address}/out}}"
    spec.write_text(
        f"name: {name}\nbootstrap_servers: {bootstrap_servers}\n"
        f"source: {source}\nsql: select id, _file from source\n{sink}"
    )
    for number, content in enumerate(([b'{"id": 1}', b"no JSON, no UTF-8: \xff"], [b"", b'{"id": 2}'])):
        bucket.put(f"in/day {number}/a.json", b"\n".join(content))
        assert main(["pipeline", "run", "--once", str(spec)]) == 0, capsys.readouterr()
    files, root = fs.FileSystem.from_uri(bucket.address)
    rows = pq.read_table(f"{root}/out", filesystem=files).to_pylist()
    assert sorted((row["id"], row["_file"]) for row in rows) == [
        (number + 1, f"{bucket.address}/in/day {number}/a.json") for number in range(2)
    ]
    assert read_back(f"{name}.dead-letters") == [(None, b"no JSON, no UTF-8: \xff")]
    capsys.readouterr()
    assert main(["pipeline", "preview", "--rows", "5", str(spec), "source"]) == 0
    assert "in/day 1/a.json" in capsys.readouterr().out
    assert len(list((tmp_path / "checkpoints" / name / "found-files").iterdir())) == 1  # a look records nothing


def test_a_pipeline_names_the_line_of_a_source_that_tells_no_columns(
    spark, bucket, bootstrap_servers, tmp_path, capsys
):
    spec = tmp_path / "spec.yaml"
    bucket.put("in/a.parquet", b"no Parquet")
    spec.write_text(
        f"name: p\nbootstrap_servers: {bootstrap_servers}\nsource: {{files: {bucket.address}/in, format: parquet}}\n"
        "sql: select * from source\nsink: {path: out}"
    )
    assert main(["pipeline", "plan", str(spec)]) == 1
    told = f"spec.yaml:3: `source`: {bucket.address}/in tells no columns: the file {bucket.address}/in/a.parquet cannot"
    assert told in " ".join("".join(capsys.readouterr()).split())
