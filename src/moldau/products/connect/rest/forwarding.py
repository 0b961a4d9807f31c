"""Requests that another worker must answer: this worker sends them there, with the login of the person who asks.

A request is forwarded once (`forward=false`, as Kafka's workers do): the worker that gets it and cannot answer either
says 409.
"""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request

import msgspec

from moldau.products.connect.core import refusals

TIMEOUT_S = 90.0
"""As Kafka's workers wait for a request."""
MAX_ANSWER = 16 << 20
PARAMETER = "forward"


class Forwarded(msgspec.Struct, frozen=True):
    """The answer of the other worker."""

    status: int
    body: bytes


def forward(
    method: str,
    address: str,
    path: str,
    query: str,
    body: bytes,
    authorization: str | None,
    *,
    timeout_s: float = TIMEOUT_S,
) -> Forwarded:
    """`path`: encoded, with its slash. `query`: without `forward`. Waits for the other worker. Raises Refusal."""
    more = urllib.parse.urlencode({PARAMETER: "false"})
    url = f"{address.rstrip('/')}{path}?{query}&{more}" if query else f"{address.rstrip('/')}{path}?{more}"
    headers = {"content-type": "application/json", **({"authorization": authorization} if authorization else {})}
    request = urllib.request.Request(url, body or None, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return Forwarded(answer.status, answer.read(MAX_ANSWER))
    except urllib.error.HTTPError as error:
        with error:
            return Forwarded(error.code, error.read(MAX_ANSWER))
    except (OSError, ValueError) as error:
        raise refusals.Refusal(500, f"IO Error trying to forward REST request to {address}: {error}") from error
