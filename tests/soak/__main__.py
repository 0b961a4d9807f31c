"""`make soak-pipelines`: three pipelines run while records come all the time; their memory must not grow.

python -m tests.soak [--minutes 30] [--records-per-second 500]

One pipeline aggregates from topic to topic, one joins two topics within an interval, and one writes records to a Delta
table. Each is a process with its own JVM. Over the last twenty minutes (of a shorter run, its last two thirds) the heap
after a full collection, and the PSS of the Python workers, may each grow by 5 %: the median of the last quarter of that
time compared with the median of its first.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import Moldau
from tests.soak.pipeline_run import Sample
from tests.support.talking_process import TalkingProcess

MOST_GROWTH = 0.05
LAST_MINUTES = 20.0
STOP_S = 120.0
ORDERS = "{topic: orders, format: json, schema: 'id bigint, customer int, amount double', watermark: 10 seconds}"
PAYMENTS = "{topic: payments, format: json, schema: 'order_id bigint, method string', watermark: 10 seconds}"
PAGES = {
    "aggregate": f"""
sources:
  orders: {ORDERS}
flows:
  totals: >
    select window.start as begins, customer, count(*) as orders, sum(amount) as amount
    from orders group by window(_timestamp, '10 seconds'), customer
targets:
  totals: {{topic: totals, key: customer}}
""",
    "join": f"""
sources:
  orders: {ORDERS}
  payments: {PAYMENTS}
flows:
  paid: >
    select id, amount, method from orders join payments on id = order_id
    and payments._timestamp between orders._timestamp and orders._timestamp + interval 10 seconds
targets:
  paid: {{topic: paid}}
""",
    "delta": f"""
sources:
  orders: {ORDERS}
flows:
  orders_kept: select id, customer, amount, _timestamp as at from orders
targets:
  orders_kept: {{delta: table}}
""",
}


class Growth(msgspec.Struct, frozen=True):
    """Medians, in bytes."""

    first: float
    last: float

    @property
    def is_too_much(self) -> bool:
        return self.last > self.first * (1 + MOST_GROWTH)

    def __str__(self) -> str:
        return f"{self.first / 2**20:.0f} to {self.last / 2**20:.0f} MiB ({self.last / self.first - 1:+.1%})"


def growth(samples: Sequence[tuple[float, int]], minutes: float) -> Growth:
    """Of (second, bytes) over the last so many minutes. Ends the program if the pipeline ran for less."""
    quarter_s = minutes * 60 / 4
    if not samples or samples[-1][0] - samples[0][0] < 3 * quarter_s:
        sys.exit("a pipeline came up too late to be judged: give the run more minutes")
    end_s = samples[-1][0]
    first = [size for second, size in samples if end_s - 4 * quarter_s <= second < end_s - 3 * quarter_s]
    return Growth(median(first), median(size for second, size in samples if second >= end_s - quarter_s))


class Feeder:
    """Writes orders and their payments in its own thread until it is closed."""

    def __init__(self, bootstrap_servers: str, records_per_second: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 20})
        self._records_per_second = records_per_second
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        first = 0
        while not self._is_over.wait(1.0):
            for number in range(first, first + self._records_per_second):
                order = {"id": number, "customer": number % 100, "amount": number % 1_000 / 10}
                self._producer.produce("orders", json.dumps(order), b"%d" % number)
                payment = {"order_id": number, "method": "card" if number % 3 else "cash"}
                self._producer.produce("payments", json.dumps(payment), b"%d" % number)
            first += self._records_per_second
            assert self._producer.flush(60) == 0

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(120)


def soak(folder: Path, minutes: float, records_per_second: int) -> dict[str, list[Sample]]:
    """The samples of each pipeline."""
    broker = Moldau("Moldau", folder / "broker")
    with ExitStack() as stack:
        broker.start()
        stack.callback(broker.stop)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topics = [NewTopic(name, 2, 1) for name in ("orders", "payments", "totals", "paid")]
        for future in admin.create_topics(topics).values():
            future.result(timeout=30)
        feeder = Feeder(broker.bootstrap_servers, records_per_second)
        stack.callback(feeder.close)
        processes = {}
        for name, text in PAGES.items():
            file = folder / f"{name}.yaml"
            file.write_text(f"name: soak-{name}\nbootstrap_servers: {broker.bootstrap_servers}\n{text}")
            processes[name] = TalkingProcess([sys.executable, "-m", "tests.soak.pipeline_run", str(file)])
            stack.callback(processes[name].kill)
        _watch(processes, minutes)
        for name, process in processes.items():
            os.kill(process.pid, signal.SIGTERM)
            assert process.live_on(STOP_S) == 0, f"{name} did not stop: {process.output[-20:]}"
        return {name: _samples(process) for name, process in processes.items()}


def _watch(processes: dict[str, TalkingProcess], minutes: float) -> None:
    """Prints the progress of the pipelines each minute. Raises AssertionError if one ends."""
    began = time.monotonic()
    while time.monotonic() - began < minutes * 60:
        for name, process in processes.items():
            assert process.live_on(60 / len(processes)) is None, f"{name} ended: {process.output[-20:]}"
        passed = (time.monotonic() - began) / 60
        states = [f"{name} {_told(_samples(process))}" for name, process in processes.items()]
        print(f"{passed:.0f} of {minutes:g} minutes: {'; '.join(states)}", flush=True)


def _samples(process: TalkingProcess) -> list[Sample]:
    return [msgspec.json.decode(line, type=Sample) for line in list(process.output) if line.startswith("{")]


def _told(samples: Sequence[Sample]) -> str:
    if not samples:
        return "starts"
    last = samples[-1]
    return f"{last.records:,} records, heap {last.heap / 2**20:.0f} MiB, workers {last.workers / 2**20:.0f} MiB"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--records-per-second", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-soak-") as folder:
        found = soak(Path(folder), options.minutes, options.records_per_second)
    judged = min(LAST_MINUTES, options.minutes * 2 / 3)
    print(f"| over the last {judged:.0f} minutes | records | heap after a full collection | Python workers (PSS) |")
    print("|---|---|---|---|")
    is_too_much = False
    for name, samples in found.items():
        heap = growth([(sample.second, sample.heap) for sample in samples], judged)
        workers = growth([(sample.second, sample.workers) for sample in samples], judged)
        is_too_much |= heap.is_too_much or workers.is_too_much
        print(f"| {name} | {samples[-1].records:,} | {heap} | {workers} |")
    print("GROWS by more than 5 %" if is_too_much else "none grows by more than 5 %")
    return 1 if is_too_much else 0


if __name__ == "__main__":
    sys.exit(main())
