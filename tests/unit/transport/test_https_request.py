"""A request to a server that may be broken: bounded, with any response."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from moldau.transport.https_request import HttpFailedError, HttpsClient, parse_address
from tests.support.certificates import authority
from tests.support.held_port import held_port, port_of
from tests.support.issuer import Fault, Issuer

MAX_BYTES = 1 << 20
SHORT_MS, LONG_MS = 500, 10_000


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer.running() as running:
        yield running


def get(url: str, tls: ssl.SSLContext | None = None, timeout_ms: int = LONG_MS) -> bytes:
    https = HttpsClient(tls, timeout_ms=timeout_ms, ca_setting="keys.ca")
    return https.get(parse_address(url), max_bytes=MAX_BYTES).body


def refusal(url: str, timeout_ms: int = LONG_MS, tls: ssl.SSLContext | None = None) -> HttpFailedError:
    with pytest.raises(HttpFailedError) as refused:
        get(url, tls, timeout_ms)
    return refused.value


def test_a_document_is_fetched(issuer: Issuer) -> None:
    assert issuer.keys[0].kid.encode() in get(issuer.jwks_url)


@pytest.mark.parametrize(
    ("fault", "words", "is_transient"),
    [
        ("hang", "did not answer in time", True),
        ("drip", "did not answer in time", True),
        ("redirect", r"redirects \(HTTP 302\), and redirects are not followed", False),
        ("unauthorized", "answered HTTP 401", False),
        ("failed", "answered HTTP 500", True),
        ("closed", "closed the connection before its answer ended", True),
    ],
)
def test_a_broken_server_is_one_error(issuer: Issuer, fault: Fault, words: str, is_transient: bool) -> None:
    issuer.faults["/jwks"] = fault
    error = refusal(issuer.jwks_url, SHORT_MS if "in time" in words else LONG_MS)
    assert error.is_transient is is_transient
    with pytest.raises(HttpFailedError, match=words):
        raise error
    assert issuer.requests == ["/jwks"]


def test_a_long_answer_is_left_where_the_bound_is(issuer: Issuer) -> None:
    issuer.faults["/jwks"] = "huge"
    assert "answered more than 1048576 bytes" in str(refusal(issuer.jwks_url))


def test_who_is_not_reached_is_an_error() -> None:
    with held_port() as held:
        error = refusal(f"http://127.0.0.1:{port_of(held)}/jwks")
    assert "cannot be asked" in str(error)
    assert error.is_transient


def test_a_server_is_trusted_by_its_authority_only() -> None:
    with Issuer.running(tls=True) as issuer:
        assert "name that authority by keys.ca" in str(refusal(issuer.jwks_url))
        context = ssl.create_default_context(cadata=authority().pem)
        assert get(issuer.jwks_url, context)
