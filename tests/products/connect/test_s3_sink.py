"""The sink `s3`: objects of moto's server, repeated batches, kills before the commit, stores that refuse."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import boto3
import fastavro
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import Row, StringType, StructType, VariantType

from moldau.connect.configuration import ConfigError
from moldau.connect.contract.columns import sink_schema
from moldau.connect.contract.ddl import parse_ddl
from moldau.connect.plugins.validating import validate
from moldau.connect.running.contexts import set_context
from moldau.connectors.s3.connector import S3
from moldau.connectors.s3.layout import LayoutError
from moldau.connectors.s3.store import StoreError
from moldau.connectors.s3.writer import BatchError, S3Writer, Staged
from moldau.testing.connect import ConnectorTask
from tests.support.connect_cluster import connect_cluster
from tests.support.object_store import moto_server

NAME = "moldau.connectors.s3.connector:S3"
KEYS = {"access.key.id": "someone", "secret.access.key": "s3cret"}
VALUE = parse_ddl("id BIGINT, town STRING, at TIMESTAMP")
MAKE = Row("id", "town", "at")
RECORDS = sink_schema(value=VALUE)
NOON = dt.datetime(2026, 1, 31, 12, 30, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with moto_server() as found:
        yield found


class Lake:
    """A bucket of its own."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name = address, name
        more = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
        self.client = boto3.client("s3", endpoint_url=address, **more)
        self.client.create_bucket(Bucket=name)

    def config(self, **more: str) -> dict[str, str]:
        config = {"bucket": self.name, "endpoint": self.address, **KEYS}
        return config | {name.replace("_", "."): value for name, value in more.items()}

    def objects(self) -> dict[str, bytes]:
        listed = self.client.list_objects_v2(Bucket=self.name).get("Contents", [])
        return {one["Key"]: self.client.get_object(Bucket=self.name, Key=one["Key"])["Body"].read() for one in listed}


@pytest.fixture
def lake(address: str) -> Lake:
    return Lake(address, f"b-{uuid4().hex[:12]}")


def writer_of(config: dict[str, str], schema: StructType = RECORDS) -> S3Writer:
    return S3(config).streamWriter(schema, False)


def staged(writer: S3Writer, rows: Sequence[Any], batch: int = 7, part: int = 0) -> Staged:
    set_context("lake-0-id", batch, part)
    return writer.write(iter(rows))


def records(*values: Any, topic: str = "t", partition: int = 0, first: int = 10) -> list[tuple[Any, ...]]:
    return [(None, value, topic, partition, offset, NOON, []) for offset, value in enumerate(values, first)]


def decoded(key: str, content: bytes) -> list[dict[str, Any]]:
    if key.endswith(".parquet"):
        return pq.read_table(io.BytesIO(content)).to_pylist()
    if key.endswith(".avro"):
        return list(fastavro.reader(io.BytesIO(content)))
    text = gzip.decompress(content) if key.endswith(".gz") else content
    return [json.loads(line) for line in text.splitlines()]


FORMATS = [("parquet", "zstd"), ("parquet", ""), ("avro", ""), ("avro", "none"), ("json", ""), ("json", "gzip")]


@pytest.mark.parametrize(("form", "compression"), FORMATS)
def test_a_repeated_batch_leaves_the_same_objects(lake: Lake, form: str, compression: str) -> None:
    rows = records(*(MAKE(number, "Brno", NOON) for number in range(7)))
    config = lake.config(format=form, compression=compression, prefix="raw/x", rotate_max_rows="3")
    writer = writer_of(config)
    writer.commit([staged(writer, rows)], 7)
    first = lake.objects()
    assert [key.rpartition("+")[0] for key in first] == [f"raw/x/t/t+0+00000000{offset}" for offset in (10, 13, 16)]
    moment = NOON if form != "json" else "2026-01-31T12:30:00Z"
    found = [row for key, content in first.items() for row in decoded(key, content)]
    assert found == [{"id": number, "town": "Brno", "at": moment} for number in range(7)]
    again = writer_of(config)
    again.commit([staged(again, rows)], 7)
    assert lake.objects() == first
    again.commit([staged(again, records(MAKE(7, None, None), first=17), batch=8)], 8)
    assert len(lake.objects()) == 4


def test_folders_by_fields_and_times(lake: Lake) -> None:
    towns = ["Brno", "a/b=c", None, ""]
    rows = records(*(MAKE(1, town, NOON if town else None) for town in towns))
    by_field = lake.config(partition_fields="town", partition_time="hour", time_field="at", format="json")
    writer = writer_of(by_field)
    writer.commit([staged(writer, rows)], 7)
    nothing = "__HIVE_DEFAULT_PARTITION__"
    hour = "year=2026/month=01/day=31/hour=12"
    nowhere = "/".join(f"{name}={nothing}" for name in ("year", "month", "day", "hour"))
    folders = {key.removeprefix("t/").rpartition("/")[0]: len(decoded(key, one)) for key, one in lake.objects().items()}
    assert folders == {f"town=Brno/{hour}": 1, f"town=a%2Fb%3Dc/{hour}": 1, f"town={nothing}/{nowhere}": 2}
    writer = writer_of(lake.config(partition_time="month"))
    assert staged(writer, rows).objects[0][0].startswith("t/year=2026/month=01/t+0+")


def test_values_without_a_schema_and_whole_records(lake: Lake) -> None:
    free = sink_schema(value=VariantType())
    writer = writer_of(lake.config(format="json", partition_fields="a.b"), free)
    made = staged(writer, records({"a": {"b": 1}}, {"a": None}, None, {"a": {"b": 1}, "c": [2]}))
    assert [(key.split("/")[1], content.count(b"\n")) for key, content in made.objects] == [
        ("a.b=1", 2),
        ("a.b=__HIVE_DEFAULT_PARTITION__", 1),
    ]
    texts = writer_of(lake.config(format="json"), sink_schema(value=StringType()))
    assert staged(texts, records('{"a": 1}', "2")).objects[0][1] == b'{"a": 1}\n2\n'
    plain = writer_of(lake.config(), sink_schema(value=StringType()))
    assert decoded(*staged(plain, records("x")).objects[0]) == [{"value": "x"}]
    whole = writer_of(lake.config(with_record="true"))
    (row, tombstone) = decoded(*staged(whole, records(MAKE(1, "Brno", NOON), None)).objects[0])
    assert (row["value"]["town"], row["offset"], row["topic"], row["timestamp"]) == ("Brno", 10, "t", NOON)
    assert (tombstone["value"], tombstone["offset"]) == (None, 11)
    for form in ("parquet", "avro"):
        with pytest.raises(ConfigError, match="the values need a converter with schemas"):
            writer_of(lake.config(format=form), free)


def test_topics_that_transforms_join_keep_all_their_records(lake: Lake) -> None:
    rows = [row for number in range(4) for row in records(MAKE(number, "", NOON), first=number) * 2]
    writer = writer_of(lake.config(rotate_max_rows="1"))
    made = staged(writer, rows)
    assert len({key for key, _ in made.objects}) == 8
    assert all(key.endswith(".parquet") for key, _ in made.objects)


def test_rows_of_spark_are_named_by_the_batch_and_the_task(lake: Lake) -> None:
    writer = writer_of(lake.config(partition_fields="town", rotate_max_rows="1", format="json"), VALUE)
    rows = [MAKE(1, "Brno", NOON), MAKE(2, "Brno", NOON), MAKE(3, "Zlin", NOON)]
    messages = [staged(writer, rows, part=part) for part in (0, 1)]
    writer.commit([*messages, None], 7)
    found = sorted(key.rpartition("+")[0] for key in lake.objects())
    assert found == sorted(
        f"town={town}/{part}+0000{number}"
        for part in (0, 1)
        for town, number in [("Brno", 0), ("Brno", 1), ("Zlin", 0)]
    )
    with pytest.raises(ConfigError, match=r"time\.field must name"):
        writer_of(lake.config(partition_time="day"), VALUE)


def test_rows_that_have_no_place_or_form(lake: Lake) -> None:
    with pytest.raises(LayoutError, match="the value has no field twon"):
        staged(writer_of(lake.config(partition_fields="twon")), records(MAKE(1, "", NOON)))
    with pytest.raises(LayoutError, match="town is 'soon', which is no time"):
        staged(writer_of(lake.config(partition_time="day", time_field="town")), records(MAKE(1, "soon", NOON)))
    with pytest.raises(BatchError, match=r"t/t\+0\+0000000010.* cannot be encoded"):
        staged(writer_of(lake.config()), records(MAKE("no number", "", NOON)))
    many = records(*(MAKE(number, "", NOON) for number in range(1001)))
    with pytest.raises(BatchError, match="more than 1000 folders"):
        staged(writer_of(lake.config(partition_fields="id")), many)
    assert lake.objects() == {}


class _Refusing(ThreadingHTTPServer):
    """Answers each request with a status and an error of Amazon's form; without one, it stands still."""

    daemon_threads = True

    def __init__(self, status: int, code: str) -> None:
        super().__init__(("127.0.0.1", 0), _RefusingHandler)
        self.status, self.code, self.requests, self.ends = status, code, 0, Event()


class _RefusingHandler(BaseHTTPRequestHandler):
    server: _Refusing

    def do_PUT(self) -> None:
        self.server.requests += 1
        while (line := self.rfile.readline()) not in (b"0\r\n", b""):  # the body has chunks
            self.rfile.read(int(line, 16) + 2)
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        if not self.server.status:
            self.server.ends.wait(60)
            return
        body = f"<Error><Code>{self.server.code}</Code><Message>not here</Message></Error>".encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Silent: nothing goes to the terminal."""


@contextmanager
def refusing(status: int, code: str = "") -> Iterator[tuple[_Refusing, str]]:
    server = _Refusing(status, code)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.ends.set()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "code", "problem", "requests"),
    [
        (403, "AccessDenied", "ACCESS_DENIED", 1),
        (507, "XMinioStorageFull", "XMinioStorageFull|507|not here", 1),
        (503, "SlowDown", "SLOW_DOWN", 2),
        (0, "", "Operation too slow", 1),
    ],
)
def test_stores_that_refuse(status: int, code: str, problem: str, requests: int) -> None:
    with refusing(status, code) as (server, address):
        config = {"bucket": "full", "endpoint": address, **KEYS, "request.timeout.ms": "1000"}
        writer = writer_of(config | {"retry.max.attempts": str(requests)})
        made = staged(writer, records(MAKE(1, "", NOON)))
        with pytest.raises(StoreError, match=problem) as raised:
            writer.commit([made], 7)
        assert str(raised.value).startswith("s3://full/t/t+0+0000000010+")
        assert "s3cret" not in str(raised.value) + repr(writer)
        assert server.requests == requests


def test_stores_that_do_not_exist(address: str) -> None:
    config = {"bucket": "no-such-bucket", "endpoint": address, **KEYS, "retry.max.attempts": "1"}
    writer = writer_of(config)
    made = staged(writer, records(MAKE(1, "", NOON)))
    with pytest.raises(StoreError, match="NO_SUCH_BUCKET"):
        writer.commit([made], 7)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        closed = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(StoreError, match=r"Could not connect|Connection refused"):
        writer_of(config | {"endpoint": closed}).commit([made], 7)


def test_bad_settings() -> None:
    config = {"name": "a", "connector.class": NAME, "topics": "t", "bucket": "a/b", "endpoint": "127.0.0.1:9000"}
    config |= {"formt": "json", "rotate.max.rows": "0", "partition.time": "week"}
    errors = {one["value"]["name"]: one["value"]["errors"] for one in validate(config)["configs"]}
    assert "Not the name of a bucket" in errors["bucket"][0]
    assert "Expected https:// or http://" in errors["endpoint"][0]
    assert "did you mean 'format'" in errors["formt"][0]
    assert "at least 1" in errors["rotate.max.rows"][0]
    assert "none, month, day, hour" in errors["partition.time"][0]
    with pytest.raises(ConfigError, match="The format json takes none, gzip"):
        writer_of({"bucket": "abc", "format": "json", "compression": "zstd"})
    with pytest.raises(ConfigError, match=r"secret\.access\.key"):
        writer_of({"bucket": "abc", "access.key.id": "a"})


def test_a_kill_before_the_commit_leaves_nothing_and_the_next_task_writes_all_once(lake: Lake) -> None:
    with connect_cluster() as cluster, refusing(0) as (still, still_address):
        topic = cluster.topic("orders", partitions=2)
        cluster.produce(topic, *(json.dumps({"n": number, "kind": number % 3}) for number in range(300)))
        config = lake.config(format="json", partition_fields="kind") | {
            "name": "to-lake",
            "connector.class": NAME,
            "topics": topic,
            "batch.max.rows": "100",
            "key.converter": "string",
            "value.converter": "json",
            "value.converter.schemas.enable": "false",
        }
        with ConnectorTask(cluster, config | {"endpoint": still_address}) as task:
            while not still.requests:  # its first batch is staged, and the store has none of it
                assert task.state != "FAILED", task.trace
                still.ends.wait(0.05)
            task.kill()
        assert lake.objects() == {}
        with ConnectorTask(cluster, config) as task:
            task.wait_until_idle()
            assert task.progress["lag"] == 0
    rows = [row["n"] for key, content in lake.objects().items() for row in decoded(key, content)]
    assert sorted(rows) == list(range(300))
