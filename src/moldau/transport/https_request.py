"""One HTTPS request to an issuer of tokens: bounded time, bounded answer, no redirect.

It blocks its thread, so users of an event loop run it in a worker thread. Plain HTTP is allowed to the loopback only.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import h11

from moldau.errors import KafkaError, MoldauError
from moldau.ports import Dialer, Stream
from moldau.transport.tcp import TCP
from moldau.transport.tls_stream import UNKNOWN_AUTHORITY, WRONG_HOST, TlsDialer, TlsRefusedError
from moldau.wire.protocol.security_protocols import is_loopback

MAX_ANSWER_BYTES: Final = 64 << 10
"""Maximum size of an answer's body."""
MAX_HEAD_BYTES: Final = 16 << 10
TIMEOUT_MS: Final = 10_000
"""From the address lookup to the last byte of the answer."""
CA_LOCATION: Final = "https.ca.location"
_READ_BYTES: Final = 16 << 10
_PORTS: Final = {"https": 443, "http": 80}
_TARGET = re.compile(r"[\x21-\x7e]*")


class HttpFailedError(MoldauError):
    """No usable answer; the text is a sentence without its subject. `is_transient`: a retry may succeed."""

    def __init__(self, reason: str, *, is_transient: bool) -> None:
        super().__init__(reason)
        self.is_transient = is_transient


class HttpAddress(NamedTuple):
    """The address of an endpoint. `target`: path and query."""

    scheme: str
    host: str
    port: int
    target: str

    def __str__(self) -> str:
        """The URL without its query, which may hold secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target.partition('?')[0]}"


class Answer(NamedTuple):
    """`body`: at most MAX_ANSWER_BYTES, or the requested bound. `headers`: names in lower case."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()

    def header(self, name: str) -> str:
        """The values, with commas between them; empty without one. `name`: in lower case."""
        return ", ".join(value for one, value in self.headers if one == name)


def parse_address(url: str) -> HttpAddress:
    """Raises ValueError, a sentence without its subject, for anything but an HTTPS URL. The loopback may use HTTP."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("is no URL") from None
    host = parts.hostname or ""
    if parts.scheme not in _PORTS or not host:
        raise ValueError("must be a URL that begins with https://")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("must be a URL without a user, a password and a fragment")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if _TARGET.fullmatch(target) is None or _TARGET.fullmatch(host) is None:
        raise ValueError("must be a URL of printable ASCII characters")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError("must begin with https://: over http:// everybody on the way reads the secret and the token")
    return HttpAddress(parts.scheme, host, _PORTS[parts.scheme] if port is None else port, target)


def https_context(ca_pem: str | None) -> ssl.SSLContext:
    """A context that trusts these authorities (PEM); None: the system's. Raises ValueError for PEM without a
    certificate."""
    try:
        return ssl.create_default_context(cadata=ca_pem)
    except ssl.SSLError:
        raise ValueError("has no certificate in PEM") from None


class HttpsClient:
    """Sends requests with one TLS context. May be used in any thread."""

    def __init__(
        self,
        context: ssl.SSLContext | None,
        dialer: Dialer = TCP,
        *,
        timeout_ms: int = TIMEOUT_MS,
        connect_ms: int = 0,
        read_ms: int = 0,
        ca_setting: str = CA_LOCATION,
    ) -> None:
        """`context`: None if requests only go to the loopback over HTTP. `connect_ms`: the bound for connection and TLS
        handshake. `read_ms`: the bound for each wait for a part of the answer. 0 for either: only `timeout_ms` applies.
        `ca_setting`: the setting of the context's authorities, for the error that one is missing."""
        self._context = context
        self._dialer = dialer
        self._timeout_ms = timeout_ms
        self._connect_ms, self._read_ms = connect_ms, read_ms
        self._ca_setting = ca_setting

    def get(self, address: HttpAddress, *, max_bytes: int = MAX_ANSWER_BYTES) -> Answer:
        """The answer, of status 200. Raises HttpFailedError."""
        answer = self.request("GET", address, {"Accept": "application/json"}, b"", max_bytes=max_bytes)
        if answer.status != 200:
            raise refused(answer.status)
        return answer

    def request(
        self,
        method: str,
        address: HttpAddress,
        headers: Mapping[str, str],
        body: bytes,
        *,
        max_bytes: int = MAX_ANSWER_BYTES,
        deadline_ms: int | None = None,
    ) -> Answer:
        """Sends one request on a new connection; returns the answer with any status. `deadline_ms`: on the steady
        clock, instead of the client's time-out. Raises HttpFailedError."""
        if deadline_ms is None:
            deadline_ms = self._dialer.monotonic_ms() + self._timeout_ms
        stream = self._dialled(address, deadline_ms)
        try:
            return self._exchange(stream, address, (method, headers, body), deadline_ms, max_bytes)
        except TimeoutError:
            raise self._late() from None
        except KafkaError as error:  # rejected in TLS 1.3, after the handshake
            raise self._unreached(error) from error
        except OSError as error:
            raise HttpFailedError(f"ended the connection: {error.strerror or error}", is_transient=True) from error
        finally:
            stream.close()

    def _dialled(self, address: HttpAddress, deadline_ms: int) -> Stream:
        dialer: Dialer = self._dialer
        if address.scheme == "https":
            dialer = TlsDialer(dialer, self._context or https_context(None))
        try:
            return dialer.dial(address.host, address.port, self._left_ms(deadline_ms, self._connect_ms))
        except KafkaError as error:
            raise self._unreached(error) from error

    def _exchange(
        self,
        stream: Stream,
        address: HttpAddress,
        asked: tuple[str, Mapping[str, str], bytes],
        deadline_ms: int,
        max_bytes: int,
    ) -> Answer:
        method, headers, body = asked
        http = h11.Connection(our_role=h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        host = f"[{address.host}]" if ":" in address.host else address.host
        own = {"Host": f"{host}:{address.port}", "User-Agent": "moldau", "Connection": "close", **headers}
        if body:
            own["Content-Length"] = str(len(body))
        sent = http.send(h11.Request(method=method, target=address.target, headers=list(own.items()))) or b""
        sent += http.send(h11.Data(data=body)) or b"" if body else b""
        sent += http.send(h11.EndOfMessage()) or b""
        stream.send(sent, self._left_ms(deadline_ms))
        try:
            return self._received(http, stream, deadline_ms, max_bytes)
        except h11.RemoteProtocolError as error:
            if http.trailing_data[1]:
                raise HttpFailedError("closed the connection before its answer ended", is_transient=True) from error
            raise HttpFailedError("answered with what is no HTTP", is_transient=False) from error

    def _received(self, http: h11.Connection, stream: Stream, deadline_ms: int, max_bytes: int) -> Answer:
        status, body, taken = 0, bytearray(), 0
        headers: tuple[tuple[str, str], ...] = ()
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                # heads of 1xx are outside the body, but also cost time and memory
                if taken > max_bytes + 4 * MAX_HEAD_BYTES:
                    raise _too_long(max_bytes)
                data = stream.receive(_READ_BYTES, self._left_ms(deadline_ms, self._read_ms))
                taken += len(data)
                http.receive_data(data)
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers)
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > max_bytes:
                    raise _too_long(max_bytes)
            elif isinstance(event, h11.EndOfMessage):
                return Answer(status, bytes(body), headers)
            elif isinstance(event, h11.ConnectionClosed):
                raise HttpFailedError("closed the connection before its answer ended", is_transient=True)

    def _left_ms(self, deadline_ms: int, most_ms: int = 0) -> int:
        left_ms = deadline_ms - self._dialer.monotonic_ms()
        if left_ms <= 0:
            raise self._late()
        return min(left_ms, most_ms) if most_ms else left_ms

    def _late(self) -> HttpFailedError:
        return HttpFailedError("did not answer in time", is_transient=True)

    def _unreached(self, error: KafkaError) -> HttpFailedError:
        if isinstance(error, TlsRefusedError):
            cause = error.__cause__
            if isinstance(cause, ssl.SSLCertVerificationError) and cause.verify_code in UNKNOWN_AUTHORITY:
                unknown = "has a certificate of an authority that is not trusted here"
                told = f"{unknown}; name that authority by {self._ca_setting}"
                return HttpFailedError(told, is_transient=False)
            if isinstance(cause, ssl.SSLCertVerificationError) and cause.verify_code in WRONG_HOST:
                return HttpFailedError("has a certificate of another host", is_transient=False)
            return HttpFailedError(f"cannot be asked: {error}", is_transient=False)
        return HttpFailedError(f"cannot be asked: {error}", is_transient=True)


def refused(status: int, detail: str = "") -> HttpFailedError:
    """The error for an answer with a status other than 200."""
    if 300 <= status < 400:
        return HttpFailedError(f"redirects (HTTP {status}), and redirects are not followed", is_transient=False)
    is_transient = status in (408, 425, 429) or status >= 500
    return HttpFailedError(f"answered HTTP {status}{f' ({detail})' if detail else ''}", is_transient=is_transient)


def _too_long(max_bytes: int) -> HttpFailedError:
    return HttpFailedError(f"answered more than {max_bytes} bytes", is_transient=False)
