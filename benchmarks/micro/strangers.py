"""The latency of a logged-in client while unauthenticated connections flood the broker.

    python -m benchmarks.micro.strangers [--seconds 20] [--directory DIR]

One `moldau up` with a SASL_SSL and a SASL_PLAINTEXT listener. A canary on SASL_SSL, in its own process, writes a record
(acks=all) and reads it, 100 times a second. The time of both together is measured four times:

    alone       nothing else runs
    handshakes  10,000 TLS handshakes a minute, each of a new connection that then ends
    frames      50 connections send SCRAM messages of 512 KiB, each from a new address: no failure delays the next
    half        1,000 connections stop in the middle of their TLS handshake, and begin again when they are closed
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import queue
import resource
import selectors
import shutil
import socket
import ssl
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from benchmarks.loaders.one_record import produce_frame, receive_answer
from benchmarks.peers import Moldau, PeerError, free_port
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.protocol.sasl_tokens import Credentials
from tests.support.node import fetch, produce, result_of
from tests.support.wire import Closed, RawConnection, log_in, request_bytes

CANARY_RATE = 100
HANDSHAKES_PER_S = 10_000 / 60
HANDSHAKE_THREADS = 2
FRAME_CONNECTIONS = 50
FRAME_BYTES = 524_288
HALF_CONNECTIONS = 1_000
TOPIC = "canary"
ALICE = Credentials("PLAIN", "alice", "of-alice")
SETTLE_S = 1.0
_SPAWN = multiprocessing.get_context("spawn")
Figures = dict[str, float]
Work = Callable[[int, str, Event, Any], None]
"""Port, CA file, when to end, a counter of the work done."""


class SecuredMoldau(Moldau):
    """`port`: of SASL_SSL; `plain_port`: of SASL_PLAINTEXT."""

    plain_port = 0

    def command(self) -> list[str]:
        self.plain_port = free_port()
        settings = {
            "listeners": f"SASL_SSL://127.0.0.1:{self.port},SASL_PLAINTEXT://127.0.0.1:{self.plain_port}",
            "security.inter.broker.protocol": "SASL_SSL",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                f'{PLAIN_MODULE} required user_{ALICE.username}="{ALICE.password}";'
            ),
            **self.tls_settings(),
        }
        words = [f"--set={name}={value}" for name, value in settings.items()]
        data = str(self.folder / "data")
        return [sys.executable, "-m", "moldau.cli.main", "up", "--data-dir", data, "--no-console", *words]


# -- the canary


def connected(port: int, authority: str) -> RawConnection:
    """A client that has logged in over TLS."""
    connection = RawConnection(f"127.0.0.1:{port}")
    context = ssl.create_default_context(cafile=authority)
    connection.socket = context.wrap_socket(connection.socket, server_hostname="127.0.0.1")
    log_in(connection, ALICE)
    return connection


def sing(port: int, authority: str, seconds: float, taken: Any) -> None:
    """Puts one list of the seconds of each record into the queue."""
    times: list[float] = []
    with connected(port, authority) as connection:
        written = produce_frame(TOPIC, 100)
        offset, due_s = next_offset(connection), time.perf_counter()
        end_s = due_s + seconds
        while due_s < end_s:
            time.sleep(max(0.0, due_s - time.perf_counter()))
            # If the record before took too long, this one was due before it begins.
            begin_s, due_s = min(due_s, time.perf_counter()), due_s + 1 / CANARY_RATE
            receive_answer(connection.socket, written)
            answer = connection.ask(fetch(offset, topic=TOPIC), 11)
            if not answer.responses[0].partitions[0].records:
                raise RuntimeError(f"the record at offset {offset} is not there")
            offset += 1
            times.append(time.perf_counter() - begin_s)
    taken.put(times)


def next_offset(connection: RawConnection) -> int:
    """The offset after a record that is written now."""
    answer = connection.ask(produce(b"x", topic=TOPIC), 9)
    return int(result_of(answer).base_offset) + 1


def canary(peer: SecuredMoldau, seconds: float) -> Figures:
    """p50 and p99 in ms."""
    taken = _SPAWN.Queue()
    process = _SPAWN.Process(target=sing, args=(peer.port, str(peer.authority), seconds, taken))
    process.start()
    try:
        times = taken.get(timeout=seconds + 60)
    except queue.Empty:
        raise PeerError("the canary was not served for a minute") from None
    finally:
        process.terminate()
        process.join()
    ordered = sorted(times)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return {"p50_ms": statistics.median(ordered) * 1e3, "p99_ms": p99 * 1e3}


# -- the strangers


def shake_hands(port: int, authority: str, stop: Event, done: Any) -> None:
    """10,000 complete handshakes a minute."""
    context = ssl.create_default_context(cafile=authority)

    def some() -> None:
        due_s = time.perf_counter()
        while not stop.is_set():
            with socket.create_connection(("127.0.0.1", port)) as plain:
                context.wrap_socket(plain, server_hostname="127.0.0.1").close()
            with done.get_lock():
                done.value += 1
            due_s += HANDSHAKE_THREADS / HANDSHAKES_PER_S
            stop.wait(max(0.0, due_s - time.perf_counter()))

    in_threads(HANDSHAKE_THREADS, some)


def send_frames(port: int, authority: str, stop: Event, done: Any) -> None:
    """Each connection sends one, and waits until the broker closes it."""
    handshake = frame(request_bytes(SaslHandshakeRequest("SCRAM-SHA-512"), 1))
    begun = b"n,,n="
    around = len(request_bytes(SaslAuthenticateRequest(bytes(FRAME_BYTES - 100)), 2)) - (FRAME_BYTES - 100)
    token = begun.ljust(FRAME_BYTES - around, b"u")
    sent = handshake + frame(request_bytes(SaslAuthenticateRequest(token), 2))

    def some(number: int) -> None:
        attempt = 0
        while not stop.is_set():
            address = f"127.{number + 1}.{attempt // 250 % 250}.{attempt % 250 + 1}"
            attempt += 1
            stranger = RawConnection(f"127.0.0.1:{port}", source_address=address)
            with stranger as connection, contextlib.suppress(Closed):
                connection.send(sent)
                while True:
                    connection.receive_frame()
            with done.get_lock():
                done.value += 1

    in_threads(FRAME_CONNECTIONS, some, numbered=True)


def stop_half_way(port: int, authority: str, stop: Event, done: Any) -> None:
    """Each connection sends the first half of its first message."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * HALF_CONNECTIONS)), hard))
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out := ssl.MemoryBIO(), server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = out.read()
    half = hello[: len(hello) // 2]
    with selectors.DefaultSelector() as selector:

        def begin() -> None:
            plain = socket.create_connection(("127.0.0.1", port))
            plain.sendall(half)
            plain.setblocking(False)
            selector.register(plain, selectors.EVENT_READ)

        for _ in range(HALF_CONNECTIONS):
            begin()
        while not stop.is_set():
            for key, _ in selector.select(0.1):
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
                done.value += 1
                begin()


def in_threads(count: int, work: Callable[..., None], *, numbered: bool = False) -> None:
    threads = [threading.Thread(target=work, args=(number,) if numbered else ()) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def beside(work: Work, port: int, authority: Path, rate: Figures) -> Iterator[None]:
    """Runs it in a process; afterwards `rate` has its count per second."""
    stop, done = _SPAWN.Event(), _SPAWN.Value("q", 0)
    process = _SPAWN.Process(target=work, args=(port, str(authority), stop, done))
    process.start()
    try:
        while not done.value and work is not stop_half_way and process.is_alive():
            time.sleep(0.01)
        time.sleep(SETTLE_S)
        begin_s, before = time.perf_counter(), done.value
        yield
        rate["per_s"] = (done.value - before) / (time.perf_counter() - begin_s)
        if not process.is_alive():
            raise PeerError("the process of the strangers has ended early")
    finally:
        stop.set()
        process.join(10)
        process.kill()
        process.join()


def measure(folder: Path, seconds: float) -> Figures:
    """The canary's p50 and p99 in ms and the broker's memory, alone and next to each kind; the rate of each kind."""
    peer = SecuredMoldau("moldau", folder)
    peer.start()
    try:
        with connected(peer.port, str(peer.authority)) as connection:
            created = connection.ask(CreateTopicsRequest(topics=(CreatableTopic(TOPIC, 1, 1),), timeout_ms=30_000), 7)
            if created.topics[0].error_code:
                raise PeerError(f"no topic: error {created.topics[0].error_code}")
        canary(peer, 1)
        figures = {f"alone_{name}": value for name, value in canary(peer, seconds).items()}
        figures["alone_pss_mib"] = peer.pss_mib()
        kinds: dict[str, tuple[Work, int]] = {
            "handshakes": (shake_hands, peer.port),
            "frames": (send_frames, peer.plain_port),
            "half": (stop_half_way, peer.port),
        }
        for kind, (work, port) in kinds.items():
            rate: Figures = {}
            with beside(work, port, peer.authority, rate):
                figures |= {f"{kind}_{name}": value for name, value in canary(peer, seconds).items()}
                figures[f"{kind}_pss_mib"] = peer.pss_mib()
            figures[f"{kind}_per_s"] = rate["per_s"]
        return figures
    finally:
        peer.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="how long the canary sings in each phase")
    parser.add_argument("--directory", help="where to write (default: the system's temporary directory)")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="moldau-strangers-", dir=arguments.directory))
    try:
        figures = measure(folder, arguments.seconds)
        print(json.dumps({"load_average": os.getloadavg()} | {n: round(v, 2) for n, v in figures.items()}, indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
