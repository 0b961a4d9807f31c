"""The source of the connector `http`, with a server that pages in several ways and misbehaves."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from moldau.connect.configuration import ConfigError
from moldau.connect.plugins.validating import validate
from moldau.connectors.http.connector import Http
from moldau.connectors.http.pages import next_link, parse_pointer
from moldau.connectors.http.requests import HttpError
from moldau.testing.connect import ConnectorTask, read_all
from tests.support.connect_cluster import connect_cluster
from tests.support.http_records import CUT, NO_JSON, RESET, STALL, TWO_SERVERS, RecordServer

NAME = "moldau.connectors.http.connector:Http"
COLUMNS = "id BIGINT, name STRING"
SINCE = {"cursor.param": "after", "cursor.pointer": "/id", "cursor.of": "record"}
TOKEN = {"cursor.param": "after", "cursor.pointer": "/next", "records.pointer": "/data"}
LINKS = {"next.page": "header"}
LIST = {"records.pointer": "/data/all"}
FIRST = {"cursor": None, "records": 0}
WAYS = {"since": SINCE, "token": TOKEN, "links": LINKS, "list": LIST}


@pytest.fixture
def server() -> Iterator[RecordServer]:
    with RecordServer().running() as server:
        yield server


def reader_of(server: RecordServer, way: str, **more: str):
    options = {"url": f"{server.url}/{way}", "columns": COLUMNS, "poll.interval.ms": "1", **WAYS[way]}
    source = Http(options | {name.replace("_", "."): value for name, value in more.items()})
    return source.simpleStreamReader(source.schema())


def read_on(new_reader, place, limit=None):
    """The ids up to the first read that finds nothing, and the place. A new reader has no pause to keep."""
    ids = []
    while True:
        rows, end = new_reader().read(place, limit)
        found = [row[0] for row in rows]
        if not found and end == place:
            return ids, end
        ids, place = ids + found, end


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limit", [None, ReadMaxRows(2)])
def test_each_record_once_also_when_pages_grow(server: RecordServer, way: str, limit: ReadMaxRows | None) -> None:
    place, seen = FIRST, []
    for added in (0, 1, 1, 3, 7, 0, 2):
        server.add(added)
        ids, place = read_on(lambda: reader_of(server, way), json.loads(json.dumps(place)), limit)
        seen += ids
    assert seen == list(range(14))


@pytest.mark.parametrize("way", WAYS)
def test_spark_reads_again_what_was_between_two_places(server: RecordServer, way: str) -> None:
    server.add(7)
    reader = reader_of(server, way)
    places = [reader.initialOffset()]
    for _ in range(3):
        places.append(reader.read(places[-1], ReadMaxRows(3))[1])
    server.add(4)
    again = [row[0] for row in reader.readBetweenOffsets(places[0], places[-1])]
    assert again == list(range(7))
    assert list(reader.readBetweenOffsets(places[2], places[2])) == []
    server.records.clear()
    with pytest.raises(HttpError, match=r"cannot be read again|were read before"):
        list(reader.readBetweenOffsets(places[0], places[-1]))


def test_nothing_new_is_not_asked_for_in_a_busy_loop(server: RecordServer) -> None:
    server.add(2)
    reader = reader_of(server, "since", poll_interval_ms="3600000")
    place = reader.read(reader.initialOffset())[1]
    for _ in range(100):
        rows, place = reader.read(place)
        assert list(rows) == []
    assert server.asked == ["/since", "/since?after=1"]


def test_a_cursor_from_the_configuration(server: RecordServer) -> None:
    server.add(5)
    first = reader_of(server, "since", cursor_initial="2").initialOffset()
    assert read_on(lambda: reader_of(server, "since"), first)[0] == [3, 4]


@pytest.mark.parametrize("fault", [STALL, RESET, CUT, 408, 429, 500, 503])
def test_faults_that_pass(server: RecordServer, fault: int | str) -> None:
    server.add(4)
    server.faults = [fault, fault]
    timeout = "200" if fault == STALL else "20000"
    more = {"request_timeout_ms": timeout, "authorization": "Bearer abc"}
    assert read_on(lambda: reader_of(server, "since", **more), FIRST)[0] == [0, 1, 2, 3]
    assert set(server.authorizations) == {"Bearer abc"}


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (STALL, "did not answer in time"),
        (CUT, "before its answer ended"),
        (429, "answered 429 Too Many Requests, with Retry-After: 0: busy"),
        (404, "answered 404 Not Found"),
        (302, r"answered 302 Found to http://[^?]*: redirects are not followed"),
        (NO_JSON, "not JSON: <html>maintenance</html>"),
    ],
)
def test_faults_that_last(server: RecordServer, fault: int | str, problem: str) -> None:
    server.faults = [fault] * 10
    reader = reader_of(server, "since", request_timeout_ms="300", retry_timeout_ms="250", secret_headers="X-Key: k3y")
    with pytest.raises(HttpError, match=problem) as raised:
        reader.read(reader.initialOffset())
    assert "k3y" not in str(raised.value) + repr(raised.value.__cause__)


def test_a_longer_pause_than_the_patience_is_not_made(server: RecordServer) -> None:
    server.faults, server.retry_after = [429, 429], "3600"
    with pytest.raises(HttpError, match=r"Retry-After: 3600"):
        reader_of(server, "since").read(FIRST)
    assert len(server.asked) == 1


def test_a_link_to_another_server_is_not_followed(server: RecordServer) -> None:
    server.add(9)
    server.faults = [TWO_SERVERS]
    with pytest.raises(HttpError, match=r"the next page is at another server, http://127.0.0.1:1/links"):
        reader_of(server, "links", authorization="Bearer abc").read(FIRST)


def test_records_that_do_not_fit(server: RecordServer) -> None:
    server.records = [{"id": 1}, {"id": "x"}]
    with pytest.raises(HttpError, match='record 2 of the page of the cursor None: id: "x" is not bigint'):
        reader_of(server, "list").read(FIRST)
    server.records = [{"id": 1}]
    with pytest.raises(HttpError, match=r"has 1 records, and 5 of it were read before"):
        reader_of(server, "list").read({"cursor": None, "records": 5})
    with pytest.raises(HttpError, match=r"with dict, not a list, at records.pointer"):
        reader_of(server, "list", records_pointer="/data").read(FIRST)


def test_bad_settings() -> None:
    config = {"name": "a", "connector.class": NAME, "url": "ftp://a", "cursor.param": "a", "headers": "No colon"}
    config |= {"cursr.pointer": "/a", "records.pointer": "a", "secret.headers": "Authorization Bearer s3cret"}
    errors = {one["value"]["name"]: one["value"]["errors"] for one in validate(config)["configs"]}
    assert "begins with https:// or http://" in errors["url"][0]
    assert "did you mean 'cursor.pointer'" in errors["cursr.pointer"][0]
    assert "begins with /" in errors["records.pointer"][0]
    assert "line 1 is not 'Name: value'" in errors["headers"][0]
    assert "s3cret" not in str(errors["secret.headers"])
    source = Http({"url": "http://a", "cursor.param": "a"})
    with pytest.raises(ConfigError, match=r"cursor.pointer"):
        source.schema()
    source = Http({"url": "http://a"})
    with pytest.raises(ConfigError, match='"topic"'):
        source.simpleStreamReader(source.schema())
    with pytest.raises(ConfigError, match=r"the type INTT is not read here"):
        Http({"url": "http://a", "columns": "a INTT"}).schema()


def test_pointers_and_links() -> None:
    assert parse_pointer("/a~1b/~0/0") == ("a/b", "~", "0")
    assert next_link('<a>; rel=prev, <b?x=1,2>; title="a, b"; rel="last next"') == "b?x=1,2"
    assert next_link('<a>; rel="nextish"') == ""


def test_a_light_task_reads_on_after_a_kill(server: RecordServer) -> None:
    server.add(10)
    config = {
        "name": "polled",
        "connector.class": NAME,
        "url": f"{server.url}/token",
        "topic": "polled",
        "poll.interval.ms": "50",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "key.converter": "string",
        **TOKEN,
    }
    with connect_cluster() as cluster:
        cluster.topic("polled", partitions=1)
        with ConnectorTask(cluster, config) as task:
            task.wait_for(lambda: task.progress.get("records") == 10)
            assert task.progress["offset"] == {"cursor": "9", "records": 1}
            task.kill()
        server.add(5)
        server.faults = [RESET, 503, CUT]
        records = read_all(cluster, config, "polled")
    assert [json.loads(record.value or b"") for record in records] == server.records
