"""TLS on top of another transport: ciphertext below, the plain bytes of a BufferedProtocol above.

The loop's own TLS has three faults. Both loops keep 256 KiB of buffers for each connection; here all connections of a
network share one. They hide the handshake from the protocol: unfinished handshakes are not counted, and the reason of a
failure is lost. And they handle all handshakes that arrive together in one turn of the loop, up to a millisecond each
(docs/decisions/0082).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, cast

from moldau.wire.protocol.framing import stranger

BUFFER_BYTES = 256 << 10
"""Maximum ciphertext of one read; the connections of a loop share the buffer."""
MAX_HANDSHAKE_BYTES = 256 << 10
"""Maximum of received, unhandled bytes while a handshake waits for its turn; above it the connection is not read."""
PIECE_BYTES = 128 << 10
"""Bytes of plain text encrypted at once: a megabyte in one piece would leave the CPU caches between two steps."""
HANDSHAKES_PER_TURN = 4
"""Handshake steps in one turn of the loop; with an RSA 2048 key each takes a millisecond."""
ALERT_LINGER_S = 5.0
"""Time for a client to close its side after the alert of a failed handshake."""
_HANDSHAKE_RECORD = 22
_ALERT_RECORD = 21
_ENDED = "the connection ended during the TLS handshake"
_PLAIN_TEXT_ALERT: Final = bytes((21, 3, 3, 0, 2, 2, 80))
"""A fatal internal_error, Apache Kafka's answer to plain text: librdkafka and our clients recognise an alert."""


_NOBODY: Final = asyncio.BufferedProtocol()
"""The protocol above a lost connection."""


class HandshakeError(OSError):
    """The TLS handshake failed; the text is a sentence for the log, with foreign parts escaped."""


class SecuredProtocol(Protocol):
    """The protocol above a server's TLS."""

    def secured(self, certificate: bytes | None) -> None:
        """The handshake is complete. Called after `connection_made`, before the first byte. `certificate`: the
        client's, DER, verified; None without one. If the handshake fails, `connection_lost` is called with a
        HandshakeError instead."""
        ...


class HandshakeTurns:
    """Limits the handshakes of one loop to HANDSHAKES_PER_TURN steps in each turn, in order of arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = HANDSHAKES_PER_TURN
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, step: Callable[[], None]) -> None:
        """Calls `step` now or in a later turn."""
        if self._left == HANDSHAKES_PER_TURN:
            self._loop.call_soon(self._begin_turn)
        if self._left and not self._waiting:
            self._left -= 1
            step()
        else:
            self._waiting.append(step)

    def _begin_turn(self) -> None:
        self._left = HANDSHAKES_PER_TURN
        while self._waiting and self._left:
            if self._left == HANDSHAKES_PER_TURN:
                self._loop.call_soon(self._begin_turn)
            self._left -= 1
            self._waiting.popleft()()


class TlsTransport(asyncio.BufferedProtocol, asyncio.Transport):
    """One connection: the protocol of the transport below, and the transport of the protocol above.

    On a server the protocol above is a SecuredProtocol and gets `connection_made` when the connection is accepted. On a
    client it gets it after the handshake, see `handshake_done`.
    """

    __slots__ = (
        "_app",
        "_buffer",
        "_error",
        "_handshake",
        "_incoming",
        "_is_closing",
        "_is_first",
        "_is_paused",
        "_is_secured",
        "_is_waiting",
        "_outgoing",
        "_tls",
        "_transport",
        "_turns",
    )

    def __init__(
        self,
        app: asyncio.BaseProtocol,
        context: ssl.SSLContext,
        buffer: bytearray,
        *,
        turns: HandshakeTurns | None = None,
        host: str | None = None,
    ) -> None:
        """A server connection with `turns`, else a client connection to `host`. The connections of a loop share
        `buffer`. Raises ValueError (or its subclass UnicodeError) if `host` is not a valid name."""
        super().__init__()
        self._app = cast(asyncio.BufferedProtocol, app)
        self._buffer = buffer
        self._turns = turns
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=turns is not None,
            server_hostname=host if turns is None else None,
        )
        self._handshake: asyncio.Future[None] | None = None
        """Set when a client's handshake ends."""
        self._transport: asyncio.Transport
        self._error: Exception | None = None
        self._is_first = turns is not None
        """No bytes have arrived yet; the first one distinguishes TLS from plain text."""
        self._is_secured = self._is_closing = self._is_paused = False
        self._is_waiting = False
        """A step of the handshake waits for its turn."""

    async def handshake_done(self) -> None:
        """For a client, after `connection_made`: waits for the end of the handshake. Raises HandshakeError, or the
        OSError with which the connection was lost."""
        if self._is_secured:
            return
        if self._is_closing:
            raise self._error or HandshakeError(_ENDED)
        self._handshake = asyncio.get_running_loop().create_future()
        await self._handshake

    # -- calls of the transport below

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._turns is not None:
            self._app.connection_made(self)
        else:
            self._shake_hands()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_closing:
            return
        with memoryview(self._buffer) as view:
            if self._is_first:
                self._is_first = False
                if view[0] != _HANDSHAKE_RECORD:
                    self._fail_for_plain_text(bytes(view[: min(4, nbytes)]))
                    return
            self._incoming.write(view[:nbytes])
        if self._is_paused:
            self._transport.pause_reading()  # uvloop ignores the first call, see ServerConnection
        else:
            self._go_on()

    def eof_received(self) -> bool:
        if self._is_secured and not self._is_closing:
            self._app.eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        error = self._error or exc
        if not self._is_secured and error is None:
            error = self._error = HandshakeError(_ENDED)
        # they refer to each other, and a cycle may stay for ever in the process of a node (shell/node/collector.py)
        app, self._app = self._app, _NOBODY
        if self._is_secured or self._turns is not None:
            self._error = None  # its traceback refers to this transport
            app.connection_lost(error)
        elif self._handshake is not None and not self._handshake.done():
            self._handshake.set_exception(error or HandshakeError(_ENDED))

    def pause_writing(self) -> None:
        if self._is_secured:
            self._app.pause_writing()

    def resume_writing(self) -> None:
        if self._is_secured:
            self._app.resume_writing()

    # -- the handshake, and data after it

    def _go_on(self) -> None:
        """Processes the received bytes, unless the protocol above has paused reading."""
        if self._is_closing or self._is_paused:
            return
        if self._is_secured:
            self._deliver()
        elif self._turns is None:
            self._shake_hands()
        elif not self._is_waiting:
            self._is_waiting = True
            self._turns.take(self._shake_hands)
        elif self._incoming.pending > MAX_HANDSHAKE_BYTES:
            self._transport.pause_reading()

    def _shake_hands(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            if self._is_closing:
                return
            if not self._is_paused:
                self._transport.resume_reading()
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_out()
            return
        except ssl.SSLError as error:
            self._send_out()  # the alert
            self._fail(HandshakeError(handshake_sentence(error)))
            return
        self._is_secured = True
        self._send_out()
        if self._turns is not None:
            cast(SecuredProtocol, self._app).secured(self._tls.getpeercert(binary_form=True))
        else:
            self._app.connection_made(self)
            if self._handshake is not None and not self._handshake.done():
                self._handshake.set_result(None)
        if self._incoming.pending:
            self._go_on()

    def _deliver(self) -> None:
        """Passes decrypted bytes to the protocol above, one buffer at a time."""
        tls, incoming, app = self._tls, self._incoming, self._app
        is_more = True
        while is_more and not self._is_closing and not self._is_paused:
            buffer = memoryview(app.get_buffer(-1))
            filled, size = 0, len(buffer)
            is_more = True
            has_ended = False
            try:
                while filled < size:
                    count = tls.read(size - filled, buffer[filled:])
                    if not count:
                        has_ended = True
                        break
                    filled += count  # type: ignore[operator]
                    if not incoming.pending and not tls.pending():
                        is_more = False
                        break
            except ssl.SSLWantReadError:
                is_more = False
            except ssl.SSLZeroReturnError:
                has_ended = True
            except ssl.SSLError as error:
                buffer.release()
                self._send_out()
                self._fail(error)
                return
            buffer.release()
            if filled:
                app.buffer_updated(filled)
            if has_ended:
                if not self._is_closing:
                    app.eof_received()
                    self.close()
                return
        if self._outgoing.pending:
            self._send_out()  # the answer to a key update

    def _send_out(self) -> None:
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._is_closing = True
        if self._turns is None or self._is_secured or not self._transport.can_write_eof():
            self._transport.close()
            return
        # A TLS 1.3 client sends its first request before it learns of the failure. Closing with that request unread
        # would reset the connection and lose the alert. So read and drop input until the client closes, or for a
        # moment.
        self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(ALERT_LINGER_S, self._transport.abort)

    def _fail_for_plain_text(self, first_bytes: bytes) -> None:
        self._transport.write(_PLAIN_TEXT_ALERT)
        if first_bytes[0] == _ALERT_RECORD and first_bytes[1:2] == b"\x03":
            self._fail(HandshakeError("this is a TLS alert, and no handshake came before it"))
            return
        who = stranger(first_bytes) or "this is plain text, perhaps of a Kafka client with security.protocol=PLAINTEXT"
        self._fail(HandshakeError(who.replace(", not Kafka's protocol", " in plain text") + "; the port speaks TLS"))

    # -- calls of the protocol above

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._tls if name == "ssl_object" else self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        """Sends all written data and the end of the stream; does not wait for the other side's answer."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._is_secured:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # the other side has not sent its close alert yet
            self._send_out()
        self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once and drops unsent data."""
        self._is_closing = True
        self._transport.abort()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypts and sends. Data written after `close` is dropped, as by every transport."""
        size = len(data)
        if self._is_closing or not size:
            return
        tls, outgoing = self._tls, self._outgoing
        try:
            if size <= PIECE_BYTES:
                tls.write(data)
                self._transport.write(outgoing.read())
                return
            encrypted: list[bytes] = []
            with memoryview(data) as view:
                for start in range(0, size, PIECE_BYTES):
                    with view[start : start + PIECE_BYTES] as piece:
                        tls.write(piece)
                    encrypted.append(outgoing.read())
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._transport.writelines(encrypted)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Joins the pieces into one `write`; otherwise each would have a TLS record."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Limits of ciphertext, as `get_write_buffer_size`."""
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    def pause_reading(self) -> None:
        """Before the handshake ends, this pauses the handshake too."""
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_paused or self._is_closing:
            return
        self._is_paused = False
        self._transport.resume_reading()
        if self._incoming.pending or self._tls.pending():
            asyncio.get_running_loop().call_soon(self._go_on)


def handshake_sentence(error: ssl.SSLError) -> str:
    """Explains a failed handshake with its usual causes."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other side is not accepted: {error.verify_message.rstrip('.')}"
    name = (error.reason or "").lower()
    known = {
        "tlsv1_alert_unknown_ca": "the other side does not know who signed our certificate",
        "sslv3_alert_bad_certificate": "the other side rejects our certificate",
        "sslv3_alert_certificate_unknown": "the other side rejects our certificate",
        "sslv3_alert_certificate_expired": "the other side finds our certificate expired",
        "tlsv13_alert_certificate_required": "the other side asks for a certificate, and we gave none",
        "peer_did_not_return_a_certificate": "the other side gave no certificate, and one is required",
        "unsupported_protocol": "the other side knows no version of TLS that is enabled here",
        "tlsv1_alert_protocol_version": "the other side enables no version of TLS that is known here",
        "no_shared_cipher": "no cipher suite is enabled on both sides",
        "sslv3_alert_handshake_failure": "the other side accepts none of the cipher suites, or asks for a certificate",
        "wrong_version_number": "the other side does not speak TLS",
    }
    return known.get(name, name.replace("_", " ") or "the TLS handshake failed")
