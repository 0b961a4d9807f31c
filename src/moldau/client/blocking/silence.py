"""Remembers brokers that do not answer, so that at most one request waits for each.

The kernel of a paused broker still accepts connections, but no response comes. Without this module, a console that
polls all brokers would wait for that broker in each request.
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
"""The time during which a silent broker is not contacted again."""


class SilentBrokerError(KafkaError):
    """The broker was contacted recently and did not answer. Not retriable: it is not contacted again before PATIENCE_MS
    is over."""

    code = 7
    name = "REQUEST_TIMED_OUT"


class ListeningDialer:
    """Adds a memory of silent brokers to `dialer`, shared by all users in any thread. A new connection first requests
    the broker's versions, which every broker answers at once; without that response, the broker is silent. A later
    request may be slow for another reason, such as a missing controller. After such a timeout the other connections to
    the broker end, and a new one shows whether it answers."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._silent: dict[Address, int] = {}
        """The time until which each address is not contacted."""
        self._suspects: dict[Address, None] = {}

    def silent(self) -> list[str]:
        """`host:port` of the silent brokers."""
        now_ms = self.monotonic_ms()
        return sorted(f"{host}:{port}" for (host, port), until_ms in list(self._silent.items()) if now_ms < until_ms)

    def dial(self, host: str, port: int, timeout_ms: int) -> Stream:
        """As Dialer.dial. Raises SilentBrokerError at once for a silent broker."""
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
        """A connection got its first response."""
        self._silent.pop(address, None)
        self._suspects.pop(address, None)

    def said_nothing(self, address: Address) -> None:
        """The broker did not answer even a new connection."""
        self._silent[address] = self.monotonic_ms() + PATIENCE_MS

    def suspect(self, address: Address) -> None:
        """A request on a connection that had answered before timed out."""
        self._suspects[address] = None

    def is_suspect(self, address: Address) -> bool:
        """Whether only a new connection can show that this broker answers."""
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

    def fileno(self) -> int:
        return self._stream.fileno()

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
