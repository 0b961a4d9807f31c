"""The sink of the connector `http`, with a server that rejects records and misbehaves."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal

import pytest
from pyspark.sql.types import Row, StringType, StructType

from moldau.connect.contract.columns import sink_schema
from moldau.connect.contract.ddl import parse_ddl
from moldau.connect.running.contexts import set_context
from moldau.connectors.http.connector import Http
from moldau.connectors.http.requests import HttpError
from moldau.testing.connect import ConnectorTask
from tests.support.connect_cluster import connect_cluster
from tests.support.http_records import RESET, STALL, RecordServer

NAME = "moldau.connectors.http.connector:Http"
TEXTS = sink_schema(value=StringType())
KEY = "Idempotency-Key"


@pytest.fixture
def server() -> Iterator[RecordServer]:
    with RecordServer().running() as server:
        yield server


def send(server: RecordServer, rows: Sequence[object], schema: StructType = TEXTS, *, batch: int = 7, **more: str):
    options = {"url": f"{server.url}/in", **{name.replace("_", "."): value for name, value in more.items()}}
    set_context("lines-0-id", batch, 2)
    return Http(options).streamWriter(schema, False).write(iter(rows))


def texts(*values: str | bytes | None) -> list[tuple[object, ...]]:
    return [(None, value, "t", 0, offset, None, []) for offset, value in enumerate(values, 10)]


def bodies(server: RecordServer) -> list[bytes]:
    return [body for _, body in server.taken]


@pytest.mark.parametrize(
    ("body_format", "expected", "kind"),
    [
        ("lines", [b'{"a":1}\n2\n', b"null\n"], "application/x-ndjson"),
        ("array", [b'[{"a":1},2]', b"[null]"], "application/json"),
        ("single", [b'{"a":1}', b"2", b"null"], "application/json"),
    ],
)
def test_bodies(server: RecordServer, body_format: str, expected: list[bytes], kind: str) -> None:
    sent = send(server, texts('{"a":1}', "2", None), body_format=body_format, batch_max_size="2")
    assert bodies(server) == expected
    assert {headers["Content-Type"] for headers, _ in server.taken} == {kind}
    assert (sent.requests, sent.records) == (len(expected), 3)


def test_rows_of_types_as_json(server: RecordServer) -> None:
    schema = parse_ddl(
        "s STRUCT<a: INT>, m MAP<STRING, ARRAY<BINARY>>, d DECIMAL(20, 2), t TIMESTAMP, day DATE, f DOUBLE"
    )
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=dt.UTC)
    row = Row(s=Row(a=1), m={"k": [b"\x00\xff"]}, d=Decimal("1.50"), t=moment, day=dt.date(2026, 1, 2), f=None)
    send(server, [row], schema)
    (body,) = bodies(server)
    assert json.loads(body) == {
        "s": {"a": 1},
        "m": {"k": ["AP8="]},
        "d": "1.50",
        "t": "2026-01-02T03:04:05.006000Z",
        "day": "2026-01-02",
        "f": None,
    }


def test_a_repeated_batch_has_the_same_names_and_other_records_have_others(server: RecordServer) -> None:
    rows = texts(*(str(number) for number in range(5)))
    for batch in (7, 7, 8):
        send(server, rows, batch=batch, batch_max_size="2")
    names = [headers[KEY] for headers, _ in server.taken]
    assert names[:3] == names[3:6]
    assert names[0].startswith("lines-0-id-7-2-0-")
    assert len(set(names)) == 6
    send(server, rows, batch=7, batch_max_size="3")
    assert server.taken[-2][0][KEY] not in names


def test_large_records_are_requests_of_their_own(server: RecordServer) -> None:
    send(server, texts('"aaaa"', '"bbbb"', '"' + "c" * 50 + '"', '"d"'), body_max_bytes="16")
    assert [len(body.splitlines()) for body in bodies(server)] == [2, 1, 1]


@pytest.mark.parametrize("fault", [STALL, RESET, 408, 425, 429, 500])
def test_faults_that_pass(server: RecordServer, fault: int | str) -> None:
    server.faults = [fault, fault]
    send(server, texts("1"), request_timeout_ms="200" if fault == STALL else "20000")
    assert bodies(server) == [b"1\n"]


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (STALL, "did not answer in time"),
        (503, "answered 503 Service Unavailable"),
        (401, "answered 401 Unauthorized"),
        (307, "redirects are not followed"),
    ],
)
def test_faults_that_last_are_nobodys_record(server: RecordServer, fault: int | str, problem: str) -> None:
    server.faults = [fault] * 10
    with pytest.raises(HttpError, match=problem) as raised:
        send(server, texts("1", "2"), request_timeout_ms="200", retry_timeout_ms="0")
    assert "offset" not in str(raised.value)
    assert server.taken == []
    assert len(server.faults) == 9


def test_a_rejected_record_is_named_and_the_others_are_sent(server: RecordServer) -> None:
    server.refuses = "bad"
    sent = send(server, texts("1", '"bad"', "3", "4"))
    ((place, reason),) = sent.rejected
    assert place == 1
    assert re.search(r"t-0 at offset 11 was rejected: .* 422 .*: this one is bad", reason)
    assert (sent.records, bodies(server)) == (3, [b"1\n", b"3\n", b"4\n"])
    names = [headers[KEY] for headers, _ in server.taken]
    assert len(set(names)) == 3


def test_texts_that_are_not_json(server: RecordServer) -> None:
    sent = send(server, texts("1", "no", '{"a":\n1}'))
    assert sent.rejected == [(1, "The record t-0 at offset 11 has no form in JSON: the text is not JSON: b'no'")]
    send(server, texts(b"any \xff"), sink_schema(), body_format="single", headers="Content-Type: text/plain")
    assert bodies(server) == [b'1\n{"a":1}\n', b"any \xff"]
    assert server.taken[-1][0]["Content-Type"] == "text/plain"


def test_a_light_task_sends_all_records_after_a_kill(server: RecordServer) -> None:
    config = {
        "name": "posted",
        "connector.class": NAME,
        "url": f"{server.url}/in",
        "topics": "posted",
        "batch.max.size": "10",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "key.converter": "string",
    }
    with connect_cluster() as cluster:
        cluster.create_topic("posted", partitions=2)
        cluster.produce("posted", *(json.dumps({"n": number}) for number in range(100)))
        server.faults = [500] * 10_000
        with ConnectorTask(cluster, config) as task:
            assert server.has_failed.wait(30), task.log
            task.kill()
        server.faults = [503, RESET]
        server.refuses = '"n":99}'
        letters = cluster.topic("dead", partitions=1)
        dead = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
        with ConnectorTask(cluster, config | dead) as task:
            task.wait_until_idle()
            assert task.progress["lag"] == 0
        assert [json.loads(record.value or b"") for record in cluster.records(letters)] == [{"n": 99}]
    sent = Counter(json.loads(line)["n"] for body in bodies(server) for line in body.splitlines())
    assert sent == dict.fromkeys(range(99), 1)
    assert all(headers[KEY].startswith("posted-0-") for headers, _ in server.taken)
