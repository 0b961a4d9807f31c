"""The console and a SQL service that answers oddly, or not at all: one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from moldau.client.protocol.secrets import AccessError
from moldau.products.console.called_service import CalledServiceError
from moldau.products.console.sql_server import SqlServer
from tests.support.odd_server import odd_server

LISTS = (
    b'[{"@type":"streams","streams":[{"type":"STREAM","name":"a","topic":"t","keyFormat":"KAFKA","valueFormat":"JSON"}]},'
    b'{"@type":"tables","tables":[]},{"@type":"queries","queries":[]}]'
)


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    with odd_server(answers) as address:
        yield f"http://{address}"


def response(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


WAITING = response(b'{"@type":"generic_error","error_code":50302,"message":"send it elsewhere"}', "503 Unavailable")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (response(b"<html>"), "did not answer as one"),
        (response(b"{}"), "did not answer as one"),
        (response(b'[{"@type":"streams","streams":[{}]}]'), "did not answer as one of Moldau"),
        (response(b'[{"@type":"queries","queries":[{"id":"a","sinks":[]}]}]'), "did not answer as one of Moldau"),
        (response(b"no", "500 Error"), "answered 500"),
        (response(b'{"error_code":"x","message":1}', "400 Bad"), "answered 400"),
        (response(b'{"error_code":40001,"message":"wrong"}', "400 Bad"), "wrong"),
        (WAITING, "send it elsewhere"),
        (b"no HTTP\r\n", "does not answer"),
        (b"", "does not answer"),
    ],
)
def test_an_odd_answer_is_one_sentence(answer: bytes, problem: str) -> None:
    with answering(answer) as url, pytest.raises(CalledServiceError, match=problem):
        SqlServer((url,)).lists()


def test_the_instance_that_runs_the_statements_answers() -> None:
    with answering(WAITING) as second, answering(response(LISTS)) as third:
        lists = SqlServer(("http://127.0.0.1:1", second, third)).lists()
    assert [one.name for one in lists.relations] == ["a"]


def test_rows_that_end_in_the_middle_are_told() -> None:
    not_here = response(b'{"error_code":40002,"message":"to /query"}', "400 Bad")
    rows = b'HTTP/1.1 200 OK\r\n\r\nevent: header\ndata: {"schema":"`a` INTEGER"}\n\n:\n\nevent: row\ndata: {"col'
    with answering(not_here, rows) as url:
        found = SqlServer((url,)).events("SELECT 1;")
        assert [next(found)[0] for _ in range(2)] == ["header", "waiting"]
        with pytest.raises(CalledServiceError, match="did not answer as one"):
            next(found)


def test_a_login_goes_only_to_its_own_service_and_not_over_a_network_in_clear() -> None:
    login = {"sql.url": "https://sql.example.org,localhost:8088", "sql.basic.auth.user.info": "${env:SQL_LOGIN}"}
    own = SqlServer.at(login["sql.url"], login, None)
    assert own.urls == ("https://sql.example.org", "http://localhost:8088")
    assert own.security.user_info is not None
    assert SqlServer.at("http://127.0.0.1:1", login, None).security.user_info is None
    with pytest.raises(AccessError, match="https"):
        SqlServer.at("http://sql.example.org", {**login, "sql.url": "http://sql.example.org"}, None)
    with pytest.raises(AccessError, match="takes no user and password"):
        SqlServer.at("http://a:b@localhost:1", {}, None)
