"""Requests that another worker must answer: this worker sends them there, with the login of the person who asks.

A request is forwarded once (`forward=false`, as Kafka's workers do): the worker that gets it and cannot answer either
says 409.
"""

from __future__ import annotations

import ssl
import urllib.parse
from pathlib import Path

import msgspec

from moldau.products.connect.core import refusals
from moldau.products.connect.settings import CA_LOCATION, WorkerSettingsError
from moldau.transport.https_request import HttpFailedError, HttpsClient, https_context, parse_address
from moldau.transport.tcp import TCP

TIMEOUT_S = 90.0
"""As Kafka's workers wait for a request."""
MAX_ANSWER = 16 << 20
PARAMETER = "forward"


class Forwarded(msgspec.Struct, frozen=True):
    """The answer of the other worker."""

    status: int
    body: bytes


class Peers:
    """The other workers of the group. Thread-safe."""

    def __init__(self, ca_location: str) -> None:
        """`ca_location`: a PEM file with the authorities of their certificates; empty: the system's. Raises
        WorkerSettingsError."""
        self._client = HttpsClient(_context(ca_location), ca_setting=CA_LOCATION)

    def forward(
        self,
        method: str,
        url: str,
        query: str,
        body: bytes,
        authorization: str | None,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> Forwarded:
        """`url`: with its path encoded. `query`: without `forward`. Waits for the other worker. Raises Refusal."""
        more = urllib.parse.urlencode({PARAMETER: "false"})
        headers = {"Content-Type": "application/json", **({"Authorization": authorization} if authorization else {})}
        deadline_ms = TCP.monotonic_ms() + round(timeout_s * 1000)
        try:
            address = parse_address(f"{url}?{query}&{more}" if query else f"{url}?{more}")
            answer = self._client.request(method, address, headers, body, max_bytes=MAX_ANSWER, deadline_ms=deadline_ms)
        except (HttpFailedError, ValueError) as error:
            raise refusals.Refusal(500, f"IO Error trying to forward REST request to {url}: it {error}") from error
        return Forwarded(answer.status, answer.body)


def _context(ca_location: str) -> ssl.SSLContext:
    try:
        return https_context(Path(ca_location).read_text("ascii") if ca_location else None)
    except OSError as error:
        raise WorkerSettingsError(f"{CA_LOCATION}: {ca_location}: {error.strerror}") from error
    except ValueError as error:
        raise WorkerSettingsError(f"{CA_LOCATION}: {ca_location} has no certificate in PEM") from error
