"""Full TLS handshakes per second, one connection after the other, compared with a bare loop of Python's `ssl`.

The client is a few threads of this process; OpenSSL works outside of Python's lock. Sessions are not resumed.
"""

from __future__ import annotations

import multiprocessing
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.peers import Peer

THREADS = 4
BACKLOG = 128


def measure(peer: Peer, handshakes: int) -> dict[str, float]:
    """Handshakes per second, broker CPU for each, and the ratio of that rate to the bare loop's."""
    context = ssl.create_default_context(cafile=str(peer.authority))
    shake(context, peer.port, handshakes // 10)
    cpu = peer.cpu_seconds()
    rate = shake(context, peer.port, handshakes)
    cpu = peer.cpu_seconds() - cpu
    bare = rate_of_bare_loop(context, peer.folder / "broker.pem", handshakes)
    return {"rate": rate, "cpu_us": cpu / handshakes * 1e6, "of_bare_loop": rate / bare}


def shake(context: ssl.SSLContext, port: int, handshakes: int) -> float:
    """Handshakes per second."""

    def some(count: int) -> None:
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", port)) as plain:
                context.wrap_socket(plain, server_hostname="127.0.0.1").close()

    begin = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(some, [handshakes // THREADS] * THREADS))
    return handshakes / (time.perf_counter() - begin)


def rate_of_bare_loop(context: ssl.SSLContext, key: Path, handshakes: int) -> float:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(key, theirs), daemon=True)
    process.start()
    try:
        port = ours.recv()
        shake(context, port, handshakes // 10)
        return shake(context, port, handshakes)
    finally:
        process.kill()
        process.join()


def serve(key: Path, found: Connection) -> None:
    """One thread that accepts a connection, completes its handshake and waits for its end, until the process is
    killed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key)
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as server:
        found.send(server.getsockname()[1])
        while True:
            plain, _ = server.accept()
            try:
                with context.wrap_socket(plain, server_side=True) as client:
                    client.recv(1)
            except OSError:
                plain.close()
