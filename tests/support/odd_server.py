"""A server that answers with given bytes, whatever it is asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

WAIT_S = 60


@contextmanager
def odd_server(answers: Iterable[bytes]) -> Iterator[str]:
    """`HOST:PORT` of a server that sends one of the answers to each connection and then ends its own side.

    It reads until the client ends too: where it closed with bytes unread, the client would see a reset instead.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT_S)

        def serve() -> None:
            for answer in answers:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(WAIT_S)
                    try:
                        read = connection.recv(65_536)
                        connection.sendall(answer)
                        connection.shutdown(socket.SHUT_WR)
                        while read:
                            read = connection.recv(65_536)
                    except OSError:
                        continue  # the client went first

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(WAIT_S)
