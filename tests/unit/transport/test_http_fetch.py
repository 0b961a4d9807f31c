"""A request to a server that may be broken: bounded, whatever it answers."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator

import pytest

from moldau.transport.http_fetch import FetchError, HttpRequest, fetch
from tests.support.certificates import authority
from tests.support.held_port import held_port, port_of
from tests.support.issuer import Fault, Issuer

MAX_BYTES = 1 << 20
SHORT_S = 0.5


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer.running() as running:
        yield running


def fetched(request: HttpRequest, max_bytes: int = MAX_BYTES, tls: ssl.SSLContext | None = None) -> bytes:
    return asyncio.run(fetch(request, max_bytes, tls))


def refusal(url: str, timeout_s: float = SHORT_S, tls: ssl.SSLContext | None = None) -> FetchError:
    with pytest.raises(FetchError) as refused:
        asyncio.run(fetch(HttpRequest(url), MAX_BYTES, tls, timeout_s))
    return refused.value


def test_a_document_is_fetched(issuer: Issuer) -> None:
    assert issuer.keys[0].kid.encode() in fetched(HttpRequest(issuer.jwks_url))


def test_a_form_is_posted(issuer: Issuer) -> None:
    headers = (("Content-Type", "application/x-www-form-urlencoded"),)
    form = b"grant_type=client_credentials&client_id=service&client_secret=service-secret"
    assert b"access_token" in fetched(HttpRequest(issuer.token_url, headers, form))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("hang", "no answer within 0.5 s"),
        ("drip", "no answer within 0.5 s"),
        ("redirect", "status 302: redirects are not followed"),
        ("unauthorized", "status 401"),
        ("failed", "status 500"),
        ("closed", "is no HTTP"),
    ],
)
def test_a_broken_server_is_one_error(issuer: Issuer, fault: Fault, words: str) -> None:
    issuer.faults["/jwks"] = fault
    assert words in str(refusal(issuer.jwks_url))
    assert issuer.requests == ["/jwks"]


def test_a_long_answer_is_left_where_the_bound_is(issuer: Issuer) -> None:
    issuer.faults["/jwks"] = "huge"
    assert "more than 1048576 bytes" in str(refusal(issuer.jwks_url, 10))


def test_a_status_of_the_caller_is_lasting(issuer: Issuer) -> None:
    assert refusal(f"{issuer.url}/nowhere").is_lasting
    issuer.faults["/jwks"] = "failed"
    assert not refusal(issuer.jwks_url).is_lasting


def test_an_error_names_no_word_of_the_server_and_no_secret(issuer: Issuer) -> None:
    issuer.faults["/token"] = "unauthorized"
    request = HttpRequest(issuer.token_url, (("Authorization", "Basic secret"),), b"secret")
    assert "secret" not in repr(request)
    with pytest.raises(FetchError) as refused:
        fetched(request)
    assert "access_denied" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_who_is_not_reached_is_an_error() -> None:
    with held_port() as held:
        assert "no connection" in str(refusal(f"http://127.0.0.1:{port_of(held)}/jwks"))
    assert "no connection" in str(refusal("http://no-such-host.invalid/jwks", 5))


def test_a_server_that_speaks_no_http_is_an_error() -> None:
    async def tell() -> None:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\x00" * 100)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(FetchError, match="no HTTP"):
                await fetch(HttpRequest(f"http://127.0.0.1:{port}/"), MAX_BYTES)

    asyncio.run(tell())


def test_a_server_is_trusted_by_its_authority_only() -> None:
    with Issuer.running(tls=True) as issuer:
        assert "certificate" in str(refusal(issuer.jwks_url, 5)).lower()
        context = ssl.create_default_context(cadata=authority().pem)
        assert fetched(HttpRequest(issuer.jwks_url), tls=context)


def test_the_port_of_a_url_may_be_left_out() -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 80)) == 0:
            pytest.skip("something listens on port 80")
    assert "no connection" in str(refusal("http://127.0.0.1/"))
