"""A silent broker is waited for once, in all requests together."""

from __future__ import annotations

import pytest

from moldau.client.blocking.silence import PATIENCE_MS, ListeningDialer, SilentBrokerError
from moldau.errors import KafkaError, kafka_error
from moldau.types import Buffer


class Brokers:
    """A Dialer. `answers`: the result of each read of a connection; without one it times out."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.dialed = 0
        self.answers: list[bytes] = []
        self.is_accepting = True

    def dial(self, host: str, port: int, timeout_ms: int) -> Brokers:
        self.dialed += 1
        if not self.is_accepting:
            raise kafka_error("NETWORK_EXCEPTION", "no answer") from TimeoutError()
        return self

    def monotonic_ms(self) -> int:
        return self.now_ms

    def pause(self, length_ms: int) -> None:
        self.now_ms += length_ms

    def send(self, data: Buffer, timeout_ms: int) -> None:
        """It is in the kernel's buffer."""

    def receive(self, max_bytes: int, timeout_ms: int) -> bytes:
        if not self.answers:
            self.now_ms += timeout_ms
            raise TimeoutError
        return self.answers.pop(0)

    def receive_into(self, target: memoryview, timeout_ms: int) -> int:
        return len(self.receive(len(target), timeout_ms))

    def has_ended(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("is_accepting", [True, False])
def test_a_broker_silent_on_a_new_connection_is_not_asked_again_for_a_while(is_accepting: bool) -> None:
    brokers = Brokers()
    brokers.is_accepting = is_accepting
    dialer = ListeningDialer(brokers)
    with pytest.raises((TimeoutError, KafkaError)):
        dialer.dial("host", 1, 100).receive(1, 100)
    assert dialer.silent() == ["host:1"]
    with pytest.raises(SilentBrokerError, match="host:1 does not answer") as caught:
        dialer.dial("host", 1, 100)
    assert (brokers.dialed, caught.value.is_retriable) == (1, False)
    brokers.is_accepting, brokers.answers = True, [b"versions"]
    dialer.dial("host", 2, 100)  # another broker
    dialer.pause(PATIENCE_MS)
    assert dialer.silent() == []
    assert dialer.dial("host", 1, 100).receive(9, 100) == b"versions"
    assert dialer.silent() == []


def test_a_slow_answer_makes_a_broker_suspect_until_a_new_connection_works() -> None:
    brokers = Brokers()
    dialer = ListeningDialer(brokers)
    brokers.answers = [b"versions", b"versions"]
    first, second = dialer.dial("host", 1, 100), dialer.dial("host", 1, 100)
    first.receive(9, 100)
    second.receive(9, 100)
    with pytest.raises(TimeoutError):
        first.receive(9, 100)
    assert dialer.silent() == []  # it may wait for another client
    with pytest.raises(ConnectionResetError):
        second.send(b"question", 100)
    brokers.answers = [b"versions"]
    dialer.dial("host", 1, 100).receive(9, 100)
    second.send(b"question", 100)
