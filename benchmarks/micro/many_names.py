"""Requests with very long arrays, for every API that has one: the wait of other clients meanwhile.

    python benchmarks/micro/many_names.py [--count 100000] [--only METADATA --only ...] [--steps]

Each array of each request is made long in turn, nested arrays too: once with unknown names, and once with the
partitions of an existing topic. The output has for each: seconds until the long response, its bytes, and the waits of a
canary on another connection in ms (median, 99th percentile, maximum). The canary asks for the brokers again and again,
with a short rest between. That needs a machine without other work. Each API first gets requests that name one thing:
the first one loads its code, once in the life of a broker.

With `--steps` the broker runs in this process, and each figure is the CPU time of the longest step of its loop, during
which no other client is served. That works on a busy machine too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.loaders.canned import request_frame
from benchmarks.loaders.long_requests import TOPIC, TOPIC_PARTITIONS, requests_of
from benchmarks.peers import Moldau
from moldau.testing import Cluster
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest

CANARY_REST_S = 0.001
ANSWER_TIMEOUT_S = 120
CANARY = request_frame(int(ApiKey.METADATA), 9, MetadataRequest(topics=()))
SHOWN_STEP_MS = 3.0
SAMPLES_EVERY_S = 0.001


def receive(client: socket.socket) -> int:
    """The size of one response; 0 if the connection is closed."""
    head = client.recv(4, socket.MSG_WAITALL)
    left = size = int.from_bytes(head, "big")
    while left > 0 and (some := client.recv(min(left, 1 << 20))):
        left -= len(some)
    return size


def answered(port: int, request: bytes) -> tuple[float, int]:
    """The seconds until the response has come, and its bytes."""
    with socket.create_connection(("127.0.0.1", port), ANSWER_TIMEOUT_S) as client:
        begin = time.perf_counter()
        client.sendall(request)
        size = receive(client)
        return time.perf_counter() - begin, size


def create_topic(port: int) -> None:
    topic = CreatableTopic(TOPIC, num_partitions=TOPIC_PARTITIONS, replication_factor=1)
    request = CreateTopicsRequest(topics=(topic,), timeout_ms=60_000)
    answered(port, request_frame(int(ApiKey.CREATE_TOPICS), 7, request))
    answered(port, request_frame(int(ApiKey.FIND_COORDINATOR), 0, API_VERSIONS[ApiKey.FIND_COORDINATOR].request("g")))


class Canary(threading.Thread):
    """Sends requests until it is stopped; `waits_ms` holds the waits for responses."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.waits_ms: list[float] = []
        self.is_stopped = threading.Event()
        self._client = socket.create_connection(("127.0.0.1", port))
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self) -> None:
        with self._client:
            while not self.is_stopped.is_set():
                begin = time.perf_counter()
                self._client.sendall(CANARY)
                receive(self._client)
                self.waits_ms.append((time.perf_counter() - begin) * 1_000)
                time.sleep(CANARY_REST_S)


def long_requests(port: int, keys: list[ApiKey], count: int) -> Iterator[tuple[str, bytes]]:
    """The requests to measure, with the name of the long array of each."""
    for key in keys:
        for _, short in requests_of(key, 1):
            answered(port, short)
        yield from requests_of(key, count)


def measure(port: int, request: bytes) -> dict[str, float]:
    canary = Canary(port)
    canary.start()
    seconds, size = answered(port, request)
    canary.is_stopped.set()
    canary.join()
    waits = sorted(canary.waits_ms)
    return {
        "seconds": seconds,
        "answer_bytes": size,
        "canary_p50_ms": statistics.median(waits),
        "canary_p99_ms": waits[min(len(waits) - 1, len(waits) * 99 // 100)],
        "canary_max_ms": waits[-1],
    }


class Steps:
    """The CPU time of each step of this process's event loops, and where the long steps are."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self.places: Counter[str] = Counter()
        """Where the steps longer than SHOWN_STEP_MS were, by samples."""
        self._running: int | None = None
        self._samples: list[str] = []
        self._run = asyncio.events.Handle._run
        threading.Thread(target=self._sample, daemon=True).start()

    def reset(self) -> None:
        self.longest_ms = 0.0
        self.places.clear()

    def watch(self) -> None:
        """Starts the measurement."""

        def run(handle: asyncio.Handle) -> None:
            self._samples.clear()
            self._running = threading.get_ident()
            begin = time.thread_time_ns()
            self._run(handle)
            took_ms = (time.thread_time_ns() - begin) / 1e6
            self._running = None
            self.longest_ms = max(self.longest_ms, took_ms)
            if took_ms > SHOWN_STEP_MS:
                self.places.update(self._samples)

        asyncio.events.Handle._run = run  # type: ignore[method-assign, assignment]

    def _sample(self) -> None:
        sys.setswitchinterval(SAMPLES_EVERY_S / 2)
        while True:
            time.sleep(SAMPLES_EVERY_S)
            frame = sys._current_frames().get(self._running or 0)
            if frame is not None:
                self._samples.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--only", action="append", help="the name of an API, as METADATA; may be given again")
    parser.add_argument("--steps", action="store_true", help="the longest step of the loop instead of a canary")
    arguments = parser.parse_args()
    keys = [key for key in API_VERSIONS if not arguments.only or key.name in arguments.only]
    with contextlib.ExitStack() as stack:
        if arguments.steps:
            gc.disable()  # as a broker in its own process does, which collects garbage between requests
            steps = Steps()
            port = int(stack.enter_context(Cluster()).bootstrap_servers.rpartition(":")[2])
            steps.watch()
            create_topic(port)
            for label, request in long_requests(port, keys, arguments.count):
                steps.reset()
                seconds, size = answered(port, request)
                places = ", ".join(f"{place} {count}" for place, count in steps.places.most_common(4))
                print(f"{label:60} {seconds:7.1f} s {size:10} bytes {steps.longest_ms:7.1f} ms {places}", flush=True)
            return
        broker = Moldau("moldau", Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moldau-many-names-"))))
        broker.start()
        stack.callback(broker.stop)
        create_topic(broker.port)
        for label, request in long_requests(broker.port, keys, arguments.count):
            found = measure(broker.port, request)
            print(f"{label:60}", *(f"{name} {value:10.1f}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
