"""Requests with retries, bounded in time and size. Redirects are not followed: they could take credentials along.

A request is sent again, for `patience_ms`, if the server does not answer in time or closes the connection, is busy
(408, 425, 429) or fails (5xx). Pauses double; the header `Retry-After` makes them longer. A longer pause than what is
left of the patience ends the retries.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from moldau.errors import MoldauError
from moldau.transport.http_retries import may_pass, pause_s
from moldau.transport.https_request import Answer, HttpAddress, HttpFailedError, HttpsClient, https_context

MAX_PAGE_BYTES: Final = 64 << 20
"""Bytes of an answer with records."""
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 10.0
SHOWN_CHARACTERS: Final = 200
_PORTS: Final = {"https": 443, "http": 80}

logger = logging.getLogger("moldau.connectors")


class HttpError(MoldauError):
    """The server gave no usable answer."""


class RejectedError(HttpError):
    """The server answered with another status than 2xx."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class Server:
    """How requests are sent. `ca_location`: a PEM file, empty for the authorities of the system."""

    address: HttpAddress
    headers: Mapping[str, str] = field(repr=False)
    timeout_ms: int
    patience_ms: int
    ca_location: str = ""


class Requester:
    """Sends requests to one server. It belongs to one process."""

    def __init__(self, server: Server) -> None:
        self._server = server
        context = None
        if server.address.scheme == "https":
            pem = Path(server.ca_location).read_text("ascii") if server.ca_location else None
            context = https_context(pem)
        self._client = HttpsClient(context, timeout_ms=server.timeout_ms)

    def send(
        self, method: str, address: HttpAddress, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """The answer, with a status of 2xx. Raises RejectedError and HttpError."""
        deadline_s = time.monotonic() + self._server.patience_ms / 1_000
        pause = FIRST_PAUSE_S
        while True:
            asked_s = 0.0
            try:
                answer = self._client.request(
                    method, address, {**self._server.headers, **(headers or {})}, body, max_bytes=MAX_PAGE_BYTES
                )
                if 200 <= answer.status < 300:
                    return answer
                failure: HttpError = _rejected(method, address, answer)
                if not may_pass(answer.status):
                    raise failure
                asked_s = pause_s(answer.header("retry-after"))
            except HttpFailedError as error:
                failure = HttpError(f"{method} {address}: the server {error}")
                if not error.is_transient:
                    raise failure from error
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or asked_s > left_s:
                raise failure
            length_s = min(max(pause, asked_s), left_s)
            logger.warning("sent again in %.1f s: %s", length_s, failure)
            time.sleep(length_s)
            pause = min(2 * pause, LONGEST_PAUSE_S)


def parse_url(url: str) -> HttpAddress:
    """Raises ValueError with a sentence without its subject."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("is no URL") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("must be a URL that begins with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must be a URL without a user and a password; set authorization")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not (target.isascii() and parts.hostname.isascii()) or any(one <= " " or one == "\x7f" for one in target):
        raise ValueError("must be a URL of printable ASCII characters")
    return HttpAddress(parts.scheme, parts.hostname, _PORTS[parts.scheme] if port is None else port, target)


def shown(body: bytes) -> str:
    """The beginning of a body, on one line."""
    return " ".join(body[: 4 * SHOWN_CHARACTERS].decode("utf-8", "replace").split())[:SHOWN_CHARACTERS]


def _rejected(method: str, address: HttpAddress, answer: Answer) -> RejectedError:
    try:
        phrase = f"{answer.status} {HTTPStatus(answer.status).phrase}"
    except ValueError:
        phrase = str(answer.status)
    more = ""
    if 300 <= answer.status < 400:
        more = f" to {shown(answer.header('location').partition('?')[0].encode())}: redirects are not followed"
    elif answer.header("retry-after"):
        more = f", with Retry-After: {shown(answer.header('retry-after').encode())}"
    if answer.body:
        more = f"{more}: {shown(answer.body)}"
    return RejectedError(f"{method} {address}: the server answered {phrase}{more}", answer.status)
