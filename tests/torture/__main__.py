"""`make torture [MINUTES=15]`: kills, stops and freezes one broker under load; no guarantee may break.

    python -m tests.torture [--minutes 15] [--seed N]

Eight idempotent producers with five requests in flight, one of a compacted topic, two consumer groups that commit, raw
connections that pipeline many requests (also while the broker starts), and an operator who creates and deletes topics
and changes settings. The broker dies by kill -9, also during its starts, stops by SIGTERM and freezes by SIGSTOP. At
the end everything is read. A problem is printed and makes the exit code 1; the data directory is kept then.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.torture.broker import TorturedBroker
from tests.torture.judge import judge
from tests.torture.ledger import Ledger
from tests.torture.operator import Operator
from tests.torture.producers import (
    COMPACTED,
    COMPACTED_PARTITIONS,
    PARTITIONS,
    TOPICS,
    KeyedProducer,
    TorturedProducer,
    wait_for,
)
from tests.torture.raw_order import ORDERED, RawOrder
from tests.torture.readers import TorturedReader, wait_until_all_is_read

PRODUCERS = 8
RAW_CONNECTIONS = 3
CALM_S = (1.0, 8.0)
PROGRESS_EVERY_S = 10


def make_topics(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(name, PARTITIONS, 1) for name in TOPICS]
    topics.append(NewTopic(ORDERED, 1, 1))
    settings = {"cleanup.policy": "compact", "segment.ms": "10000", "min.cleanable.dirty.ratio": "0.01"}
    topics.append(NewTopic(COMPACTED, COMPACTED_PARTITIONS, 1, config=settings))
    for future in admin.create_topics(topics).values():
        future.result(timeout=30)


def storm(broker: TorturedBroker, seconds: float, ledger: Ledger, choices: random.Random) -> None:
    end = time.monotonic() + seconds
    next_line = time.monotonic()
    while time.monotonic() < end:
        time.sleep(choices.uniform(*CALM_S))
        ledger.count(broker.torment())
        if time.monotonic() >= next_line:
            next_line = time.monotonic() + PROGRESS_EVERY_S
            print(f"{max(0, end - time.monotonic()):5.0f} s left: {counted(ledger)}", flush=True)


def counted(ledger: Ledger) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in ledger.counts.items())


def run(seed: str, minutes: float, folder: Path) -> Ledger:
    ledger, choices = Ledger(), random.Random(seed)
    # A client whose thread dies would otherwise be missing silently.
    threading.excepthook = lambda end: ledger.problem(
        f"the thread {end.thread and end.thread.name} died: {end.exc_value!r}"
    )
    broker = TorturedBroker(folder, choices, ledger)
    broker.start()
    try:
        make_topics(broker.address)
        writing, reading = threading.Event(), threading.Event()
        writers: list[threading.Thread] = [
            TorturedProducer(number, broker.address, seed, ledger, writing) for number in range(PRODUCERS)
        ]
        writers.append(KeyedProducer(broker.address, seed, ledger, writing))
        writers += [RawOrder(number, broker.port, seed, ledger, writing) for number in range(RAW_CONNECTIONS)]
        writers.append(Operator(broker.address, seed, ledger, writing))
        readers = [TorturedReader(group, broker.address, seed, ledger, reading) for group in ("first", "second")]
        for thread in [*writers, *readers]:
            thread.start()
        storm(broker, minutes * 60, ledger, choices)
        writing.set()
        wait_for(writers, ledger)
        wait_until_all_is_read(readers, ledger)
        reading.set()
        wait_for(list(readers), ledger)
        # One more life: the check reads what a start finds.
        broker.stop_and_start()
        judge(broker.address, ledger)
    finally:
        broker.kill()
    return ledger


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 30)), help="of the acts' order")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="moldau-torture-"))
    print(f"seed {arguments.seed}; data and output in {folder}", flush=True)
    ledger = run(arguments.seed, arguments.minutes, folder)
    print(counted(ledger))
    for problem in ledger.problems:
        print(f"PROBLEM: {problem}")
    if ledger.problems:
        return 1
    shutil.rmtree(folder)
    print("ok: nothing was lost, doubled or reordered; no producer ended; every SIGTERM ended with exit code 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
