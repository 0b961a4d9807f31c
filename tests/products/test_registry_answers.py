"""The console and a registry that answers oddly: one sentence, or another request."""

from __future__ import annotations

import urllib.error
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from email.message import Message

import pytest

from moldau.products.pipelines.core.patience import patient_until
from moldau.products.pipelines.formats.registry import Registry, RegistryError
from moldau.transport.http_retries import asked_pause_s
from tests.support.odd_server import odd_server

SCHEMA = b'{"id": 7, "schema": "\\"string\\"", "version": 1}'


@pytest.fixture
def answering() -> Iterator[Callable[..., str]]:
    """The URL of a server that gives these answers; it ends with the test."""
    with ExitStack() as servers:
        yield lambda *answers: f"http://{servers.enter_context(odd_server(answers))}"


def response(body: bytes, length: int | None = None) -> bytes:
    """`length`: the one in the header."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body) if length is None else length, body)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"id": 7}', b'{"id": "7", "schema": "a"}', b"\xff"])
def test_an_answer_of_something_else_is_one_sentence(answering, body: bytes):
    registry = Registry(answering(response(body)))
    with pytest.raises(RegistryError, match=r"/subjects/a/versions/latest did not answer as a schema registry does: "):
        registry.newest("a")


def test_an_answer_that_is_cut_short_is_asked_for_again(answering):
    registry = Registry(answering(response(SCHEMA[:9], len(SCHEMA)), b"no HTTP\r\n", response(SCHEMA)))
    found = registry.newest("a")
    assert (found.id, found.text, found.references) == (7, '"string"', ())


def test_a_busy_registry_is_asked_again_when_it_says(answering, caplog: pytest.LogCaptureFixture):
    busy = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 40\r\nContent-Length: 0\r\n\r\n"
    registry = Registry(answering(busy))
    with patient_until(lambda: True), pytest.raises(RegistryError, match="answered 429"):
        registry.newest("a")
    assert "is tried again in 40.0 s" in caplog.text


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("7", 7, 7),
        (" 0 ", 0, 0),
        ("", 0, 0),
        ("soon", 0, 0),
        ("-3", 0, 0),
        ("Wed, 01 Jan 3000 00:00:00 GMT", 1, float("inf")),
        ("Thu, 01 Jan 1970 00:00:00 GMT", float("-inf"), 0),
    ],
)
def test_the_pause_that_an_answer_asks_for(said: str, least: float, most: float):
    headers = Message()
    headers["Retry-After"] = said
    answer = urllib.error.HTTPError("http://a", 503, "Unavailable", headers, None)
    error = RegistryError("unreachable")
    error.__cause__ = answer
    assert least <= asked_pause_s(answer) <= most
    assert least <= asked_pause_s(error) <= most
    assert asked_pause_s(OSError()) == 0
