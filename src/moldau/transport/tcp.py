"""The Dialer port over TCP, for clients that block their thread."""

from __future__ import annotations

import os
import socket
import time
from typing import Final

from moldau.client.protocol.retries import UnknownHostError
from moldau.errors import KafkaError, kafka_error
from moldau.types import Buffer


class TcpStream:
    """A connected socket."""

    __slots__ = ("_socket",)

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, data: Buffer, timeout_ms: int) -> None:
        self._socket.settimeout(timeout_ms / 1_000)
        self._socket.sendall(data)

    def receive(self, max_bytes: int, timeout_ms: int) -> bytes:
        self._socket.settimeout(timeout_ms / 1_000)
        return self._socket.recv(max_bytes)

    def receive_into(self, target: memoryview, timeout_ms: int) -> int:
        self._socket.settimeout(timeout_ms / 1_000)
        return self._socket.recv_into(target)

    def fileno(self) -> int:
        return self._socket.fileno()

    def has_ended(self) -> bool:
        self._socket.settimeout(0)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        self._socket.close()


class TcpDialer:
    """Plain TCP, with the thread's clock and the kernel's randomness."""

    __slots__ = ()

    def dial(self, host: str, port: int, timeout_ms: int) -> TcpStream:
        """Raises UnknownHostError, or NETWORK_EXCEPTION for any other failure."""
        try:
            connected = socket.create_connection((host, port), timeout=timeout_ms / 1_000)
        except (OSError, UnicodeError) as error:
            raise _unreachable(host, port, timeout_ms, error) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return TcpStream(connected)

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def pause(self, length_ms: int) -> None:
        time.sleep(length_ms / 1_000)

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)


TCP: Final = TcpDialer()


def _unreachable(host: str, port: int, timeout_ms: int, error: OSError | UnicodeError) -> KafkaError:
    if isinstance(error, UnicodeError) or (isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN):
        # UnicodeError: an invalid name, such as `a..b`
        return UnknownHostError(f"cannot reach {host}:{port}: there is no host {host!r}")
    if isinstance(error, socket.gaierror):
        reason = f"the name service did not answer for the host {host!r}"
    elif isinstance(error, ConnectionRefusedError):
        reason = "connection refused, nothing listens there"
    elif isinstance(error, TimeoutError):
        reason = f"no answer within {timeout_ms} ms"
    else:
        reason = error.strerror or str(error)
    return kafka_error("NETWORK_EXCEPTION", f"cannot reach {host}:{port}: {reason}")
