"""TLS on top of any Dialer, for clients that block their thread.

TLS runs between two buffers in memory, not in a socket of the module `ssl`. So it works on every Dialer, and one system
call reads up to READ_BYTES of ciphertext; an SSL socket makes two calls for each 16 KiB.
"""

from __future__ import annotations

import ssl
from typing import Final

from moldau.errors import KafkaError, kafka_error
from moldau.ports import Dialer, Stream
from moldau.transport.tls_transport import handshake_sentence
from moldau.types import Buffer
from moldau.wire.protocol.framing import stranger

READ_BYTES: Final = 256 << 10
"""Maximum ciphertext of one read."""
PIECE_BYTES: Final = 256 << 10
"""Bytes of plain text encrypted at once."""
_FIRST_BYTES: Final = 4
EXPIRED, NOT_YET_VALID, WRONG_HOST = (10,), (9,), (62, 63, 64)
UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
"""OpenSSL's verification codes (X509_V_ERR_*) for an unknown authority."""


class TlsRefusedError(KafkaError):
    """One side rejects the other in TLS. Not retriable, as Kafka's SslAuthenticationException: a retry fails in the
    same way."""

    code = 13
    name = "NETWORK_EXCEPTION"


class TlsDialer:
    """`dialer`, with TLS on each connection that it opens. May be used in any thread, as `dialer`."""

    __slots__ = ("_context", "_dialer")

    def __init__(self, dialer: Dialer, context: ssl.SSLContext) -> None:
        self._dialer = dialer
        self._context = context

    def dial(self, host: str, port: int, timeout_ms: int) -> TlsStream:
        """Connects and completes the handshake within `timeout_ms`. Raises as Dialer.dial, and TlsRefusedError."""
        deadline_ms = self.monotonic_ms() + timeout_ms
        below = self._dialer.dial(host, port, timeout_ms)
        stream = TlsStream(below, self._context, host, port, self._dialer)
        try:
            stream.shake_hands(deadline_ms)
        except TimeoutError as error:
            stream.close()
            told = f"cannot reach {host}:{port}: no end of the TLS handshake within {timeout_ms} ms"
            raise kafka_error("NETWORK_EXCEPTION", told) from error
        except OSError as error:
            stream.close()
            told = f"cannot reach {host}:{port}: {error}"
            raise kafka_error("NETWORK_EXCEPTION", told) from error
        except BaseException:
            stream.close()
            raise
        return stream

    def monotonic_ms(self) -> int:
        """As Dialer.monotonic_ms."""
        return self._dialer.monotonic_ms()

    def pause(self, length_ms: int) -> None:
        """As Dialer.pause."""
        self._dialer.pause(length_ms)

    def random_bytes(self, count: int) -> bytes:
        """As Dialer.random_bytes."""
        return self._dialer.random_bytes(count)


class TlsStream:
    """See Stream. Each call may also raise TlsRefusedError: with TLS 1.3 a broker may reject our certificate after the
    handshake."""

    __slots__ = ("_below", "_buffer", "_dialer", "_host", "_incoming", "_is_first", "_outgoing", "_port", "_tls")

    def __init__(self, below: Stream, context: ssl.SSLContext, host: str, port: int, dialer: Dialer) -> None:
        self._below = below
        self._dialer = dialer
        self._host, self._port = host, port
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._buffer = bytearray(READ_BYTES)
        self._is_first = True
        """No bytes have arrived yet; the first ones distinguish TLS from plain text."""
        try:
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        except ValueError as error:  # also UnicodeError
            below.close()
            raise TlsRefusedError(
                f"TLS with {host}:{port} failed: {host!r} cannot be the name in a certificate"
            ) from error

    def shake_hands(self, deadline_ms: int) -> None:
        """Must be called first. Raises TlsRefusedError, and OSError if the connection is lost or time is up."""
        while True:
            try:
                self._tls.do_handshake()
                self._send_out(deadline_ms)
                return
            except ssl.SSLWantReadError:
                self._send_out(deadline_ms)
                if not self._take_in(deadline_ms):
                    raise ConnectionResetError(
                        "the connection ended during the TLS handshake; the listener may be one without TLS"
                    ) from None
            except ssl.SSLError as error:
                self._tell(deadline_ms)
                raise self._refused(error) from error

    def certificate(self) -> bytes | None:
        """The other side's certificate from the handshake, in DER."""
        return self._tls.getpeercert(binary_form=True)

    def send(self, data: Buffer, timeout_ms: int) -> None:
        deadline_ms = self._dialer.monotonic_ms() + timeout_ms
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            try:
                self._tls.write(view[start : start + PIECE_BYTES])
            except ssl.SSLError as error:
                raise self._refused(error) from error
            try:
                self._send_out(deadline_ms)
            except TimeoutError:
                raise
            except OSError:
                self._look_for_refusal()
                raise

    def receive(self, max_bytes: int, timeout_ms: int) -> bytes:
        received = bytearray(max_bytes)
        count = self.receive_into(memoryview(received), timeout_ms)
        return bytes(memoryview(received)[:count])

    def receive_into(self, target: memoryview, timeout_ms: int) -> int:
        deadline_ms = self._dialer.monotonic_ms() + timeout_ms
        while True:
            filled = self._decrypted(target)
            if self._outgoing.pending:
                self._send_out(deadline_ms)  # the answer to a key update
            if filled is not None:
                return filled
            if not self._take_in(deadline_ms):
                return 0  # no TLS close alert: frames have lengths, so a cut-off is always noticed

    def fileno(self) -> int:
        return self._below.fileno()

    def has_ended(self) -> bool:
        return bool(self._incoming.pending or self._tls.pending()) or self._below.has_ended()

    def close(self) -> None:
        """Closes without a TLS close alert, which would have to wait."""
        self._below.close()

    def _decrypted(self, target: memoryview) -> int | None:
        """The number of decrypted bytes written, at most `target`'s size; None: more ciphertext must arrive first."""
        filled, size = 0, len(target)
        try:
            while filled < size and (not filled or self._incoming.pending or self._tls.pending()):
                count = int(self._tls.read(size - filled, target[filled:]))
                if not count:
                    return filled
                filled += count
        except ssl.SSLWantReadError:
            return filled or None
        except ssl.SSLZeroReturnError:
            return filled
        except ssl.SSLError as error:
            raise self._refused(error) from error
        return filled

    def _take_in(self, deadline_ms: int) -> int:
        """Waits for ciphertext. Returns the number of bytes received, 0 if the other side closed the connection."""
        count = self._below.receive_into(memoryview(self._buffer), self._left_ms(deadline_ms))
        with memoryview(self._buffer)[:count] as received:
            if self._is_first and count:
                self._is_first = False
                who = stranger(received[:_FIRST_BYTES])
                if who is not None and "TLS" not in who:
                    raise TlsRefusedError(f"TLS with {self._host}:{self._port} failed: {who}")
            self._incoming.write(received)
        return count

    def _send_out(self, deadline_ms: int) -> None:
        if self._outgoing.pending:
            self._below.send(self._outgoing.read(), self._left_ms(deadline_ms))

    def _look_for_refusal(self) -> None:
        """After a lost connection: the other side may have sent the reason before. Raises TlsRefusedError."""
        try:
            self._take_in(self._dialer.monotonic_ms() + 1)
            self._decrypted(memoryview(bytearray(1)))
        except OSError:
            pass  # the caller reports the loss itself

    def _tell(self, deadline_ms: int) -> None:
        """Sends the alert, if possible."""
        try:
            self._send_out(deadline_ms)
        except OSError:
            pass  # the user gets the reason anyway

    def _left_ms(self, deadline_ms: int) -> int:
        left_ms = deadline_ms - self._dialer.monotonic_ms()
        if left_ms <= 0:
            raise TimeoutError("timed out")
        return left_ms

    def _refused(self, error: ssl.SSLError) -> TlsRefusedError:
        return TlsRefusedError(f"TLS with {self._host}:{self._port} failed: {self._sentence(error)}")

    def _sentence(self, error: ssl.SSLError) -> str:
        if not isinstance(error, ssl.SSLCertVerificationError):
            return handshake_sentence(error)
        code = error.verify_code
        if code in EXPIRED:
            return "its certificate has expired"
        if code in NOT_YET_VALID:
            return "its certificate is not valid yet; compare the clocks of both machines"
        if code in WRONG_HOST:
            return (
                f"its certificate is not one of {self._host}. Connect by a name that the certificate has, or set "
                "ssl.endpoint.identification.algorithm to nothing"
            )
        if code in UNKNOWN_AUTHORITY:
            return (
                f"its certificate is of an authority that is not trusted here ({error.verify_message}); name the "
                "certificate of that authority by ssl.truststore.location, with ssl.truststore.type=PEM"
            )
        return handshake_sentence(error)
