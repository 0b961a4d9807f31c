"""Remembers brokers that do not answer, so that only one request waits for each.

The kernel of a paused broker still accepts connections, and then no answer comes. A console that asks all brokers again
and again would wait for that broker in each request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from moldau.errors import KafkaError
from moldau.ports import Dialer, Stream
from moldau.types import Buffer

Received = TypeVar("Received", bytes, int)
Address = tuple[str, int]
"""Host and port."""

PATIENCE_MS = 10_000
"""For so long nobody asks a broker again that said nothing."""


class SilentBrokerError(KafkaError):
    """The broker was asked a moment ago, and said nothing. Not retriable: nobody asks it before PATIENCE_MS is over."""

    code = 7
    name = "REQUEST_TIMED_OUT"


class ListeningDialer:
    """`dialer`, with a memory for all its users, in any thread. A new connection is asked for its versions first, which
    every broker answers at once: where that does not come, the broker is silent. A later question may take long for
    another reason, such as a controller that is away: after that its other connections end, and a new one shows
    whether it answers."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._silent: dict[Address, int] = {}
        """By address: until when the broker is not asked."""
        self._suspects: dict[Address, None] = {}

    def silent(self) -> list[str]:
        """`host:port` of those that do not answer."""
        now_ms = self.monotonic_ms()
        return sorted(f"{host}:{port}" for (host, port), until_ms in list(self._silent.items()) if now_ms < until_ms)

    def dial(self, host: str, port: int, timeout_ms: int) -> Stream:
        """As Dialer.dial. Raises SilentBrokerError at once for a broker that said nothing."""
        address = host, port
        if self.monotonic_ms() < self._silent.get(address, 0):
            raise SilentBrokerError(f"{host}:{port} does not answer")
        try:
            return _HeardStream(self, self._dialer.dial(host, port, timeout_ms), address)
        except KafkaError as error:
            if isinstance(error.__cause__, TimeoutError):
                self.said_nothing(address)
            raise

    def monotonic_ms(self) -> int:
        """As Dialer.monotonic_ms."""
        return self._dialer.monotonic_ms()

    def pause(self, length_ms: int) -> None:
        """As Dialer.pause."""
        self._dialer.pause(length_ms)

    def random_bytes(self, count: int) -> bytes:
        """As Dialer.random_bytes."""
        return self._dialer.random_bytes(count)

    # -- what streams report

    def answered(self, address: Address) -> None:
        """The first answer of a connection."""
        self._silent.pop(address, None)
        self._suspects.pop(address, None)

    def said_nothing(self, address: Address) -> None:
        """The broker gave no answer, not even to a new connection."""
        self._silent[address] = self.monotonic_ms() + PATIENCE_MS

    def suspect(self, address: Address) -> None:
        """A question of a connection that had answered before took too long."""
        self._suspects[address] = None

    def is_suspect(self, address: Address) -> bool:
        """Whether only a new connection can tell if this broker answers."""
        return address in self._suspects


class _HeardStream:
    __slots__ = ("_address", "_dialer", "_has_answered", "_stream")

    def __init__(self, dialer: ListeningDialer, stream: Stream, address: Address) -> None:
        self._dialer = dialer
        self._stream = stream
        self._address = address
        self._has_answered = False

    def send(self, data: Buffer, timeout_ms: int) -> None:
        if self._has_answered and self._dialer.is_suspect(self._address):
            raise ConnectionResetError("it did not answer another question in time")
        self._stream.send(data, timeout_ms)

    def receive(self, max_bytes: int, timeout_ms: int) -> bytes:
        return self._hear(lambda: self._stream.receive(max_bytes, timeout_ms))

    def receive_into(self, target: memoryview, timeout_ms: int) -> int:
        return self._hear(lambda: self._stream.receive_into(target, timeout_ms))

    def has_ended(self) -> bool:
        return self._stream.has_ended()

    def close(self) -> None:
        self._stream.close()

    def _hear(self, receive: Callable[[], Received]) -> Received:
        try:
            received = receive()
        except TimeoutError:
            if self._has_answered:
                self._dialer.suspect(self._address)
            else:
                self._dialer.said_nothing(self._address)
            raise
        if not self._has_answered:
            self._has_answered = True
            self._dialer.answered(self._address)
        return received
