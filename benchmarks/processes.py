"""`python -m benchmarks.processes [--rounds 3]`: compares one broker process with two on this machine.

Both are `moldau up --brokers N`. Two loaders, each in its own process, send one-record Produce requests to their own
topic of one replica, eight in flight on every connection. With two brokers each loader has its own broker. On a machine
of two cores brokers and loaders share the cores, so both shares are printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.loaders import one_record
from benchmarks.peers import Peer, PeerError
from benchmarks.run import Figures, say, short
from moldau.client.admin.topics import create_topic, list_topics
from moldau.client.protocol.access import ClusterAccess
from moldau.transport.access import open_admin

CONNECTIONS, IN_FLIGHT, REQUESTS, VALUE_BYTES = 25, 8, 150_000, 100
START_S = 60.0
TOPICS = ("left", "right")


class Loaded(Peer):
    """A broker, known by its port; its CPU time is counted elsewhere."""

    def cpu_seconds(self) -> float:
        return 0.0


class Brokers:
    """The processes of one `moldau up`. `addresses`: one for each broker."""

    def __init__(self, process: psutil.Process, addresses: list[str]) -> None:
        self.addresses = addresses
        self._processes = [process, *process.children(recursive=True)]

    def cpu_seconds(self) -> float:
        return sum(sum(each.cpu_times()[:2]) for each in self._processes)


@contextmanager
def brokers(count: int, folder: Path) -> Iterator[Brokers]:
    """Starts the brokers and stops them. Raises PeerError."""
    words = [
        "up",
        "--brokers",
        str(count),
        "--no-console",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        str(folder / "data"),
    ]
    folder.mkdir()
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "moldau.cli.main", *words], stdout=output, stderr=output)
    try:
        end_s = time.perf_counter() + START_S
        while True:
            lines = (folder / "output.txt").read_text("utf-8", errors="replace").splitlines()
            ready = [line for line in lines if line.startswith("ready ")]
            if ready:
                break
            if time.perf_counter() > end_s or process.poll() is not None:
                raise PeerError(f"{count} brokers did not start: {lines[-3:]}")
            time.sleep(0.05)
        yield Brokers(psutil.Process(process.pid), ready[0].split(" ", 1)[1].split(","))
    finally:
        process.terminate()
        process.wait(START_S)


def make_topics(served: Brokers) -> list[str]:
    """Creates one topic of one replica for each loader, on different brokers if there are two. Gives the leaders."""
    with open_admin(ClusterAccess(",".join(served.addresses), client_id="bench", request_timeout_ms=10_000)) as admin:
        rows = admin.cluster().brokers
        for topic, row in zip(TOPICS, (rows[0], rows[-1]), strict=True):
            create_topic(admin, topic, assignment=[(row.node_id,)])
        end_s = time.perf_counter() + START_S
        while set(list_topics(admin)) < set(TOPICS):
            if time.perf_counter() > end_s:
                raise PeerError("the topics are not known")
        return [f"{row.host}:{row.port}" for row in (rows[0], rows[-1])]


def load(address: str, topic: str) -> float:
    """The requests per second of one loader."""
    peer = Loaded("broker", Path(), port=int(address.rpartition(":")[2]))
    seen = one_record.measure(
        peer, topic, connections=CONNECTIONS, requests=REQUESTS, value_bytes=VALUE_BYTES, in_flight=IN_FLIGHT
    )
    return seen["rate"]


def measure(served: Brokers, leaders: list[str]) -> Figures:
    cpu, begin = served.cpu_seconds(), time.perf_counter()
    own = os.times()
    with ProcessPoolExecutor(len(TOPICS)) as pool:
        rates = list(pool.map(load, leaders, TOPICS))
    seconds, after = time.perf_counter() - begin, os.times()
    return {
        "requests/s": sum(rates),
        "cores of the brokers": (served.cpu_seconds() - cpu) / seconds,
        "cores of the loaders": (after.children_user + after.children_system - own.children_user - own.children_system)
        / seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processes", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    seen: dict[int, list[Figures]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="moldau-processes-bench-") as name:
        for number in range(-1, arguments.rounds):
            for count in (1, 2) if number % 2 == 0 else (2, 1):
                with brokers(count, Path(name) / f"{count}-{number}") as served:
                    figures = measure(served, make_topics(served))
                if number >= 0:  # the first round is a warm-up
                    seen[count].append(figures)
                    say(f"round {number + 1}, {count} process(es): {short(figures)} (load {os.getloadavg()[0]:.1f})")
    for figure in seen[1][0]:
        one, two = (statistics.median(each[figure] for each in seen[count]) for count in (1, 2))
        say(f"{figure:24} {one:12,.4g} {two:12,.4g}   ratio {two / one:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
