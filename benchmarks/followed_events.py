"""How soon `moldau events --follow` shows a change at each broker of a cluster."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.peers import PeerError
from benchmarks.three_nodes import NODE_IDS, ThreeNodes

TOPICS = 20


def measure(cluster: ThreeNodes) -> dict[str, float]:
    """Milliseconds from before the CreateTopics request to the timestamp on each broker's line. The controller's
    decision lies in between, so this is an upper bound."""
    waits: list[float] = []
    with _followed(cluster.bootstrap_servers) as lines:
        for number in range(TOPICS):
            name = f"followed-{number}"
            begin_ms = time.time_ns() / 1e6
            cluster.create_topic(name, 1)
            missing = set(NODE_IDS)
            while missing:
                said = json.loads(next(lines))
                if said["event"].startswith(f"topic {name} has"):
                    missing.discard(said["broker"])
                    waits.append(said["time_ms"] - begin_ms)
    return {"p50 ms until events are shown": statistics.median(waits), "longest ms until they are": max(waits)}


@contextmanager
def _followed(bootstrap_servers: str) -> Iterator[Iterator[str]]:
    words = [sys.executable, "-m", "moldau.cli.main", "events", "--follow", "--json", "-b", bootstrap_servers]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for _ in NODE_IDS:  # earlier changes; each later one has a line
            next(process.stdout)
        yield _lines(process)
    finally:
        process.terminate()
        process.wait(30)


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    yield from process.stdout
    raise PeerError(f"`moldau events` ended with {process.returncode}")
