"""The time of compaction, and the latency of another client during compaction, big batches and a cold replay.

    python -m benchmarks.micro.compaction [--records 5000000] [--keys 1000000] [--replay-gib 5] [--directory DIR]

One `moldau up` with its defaults (a key map of 128 MiB), on a real disk. A canary writes 100 records a second with
linger 0 and acks=all, and reads them back in another process. Its p50 and p99 are measured four times:

    alone       nothing else runs
    compaction  a topic of so many records and keys is cleaned, while others write and read 2,000 records a second
    big batches another client writes 100 MB/s in batches of 1 MiB
    replay      a third one also reads those records from the disk: they are dropped from the page cache before

Afterwards the whole compacted topic is read: it must have exactly the last value of each key.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks.loaders import latency
from benchmarks.peers import Moldau
from moldau.core.log.files.checkpoint import decode_offsets
from moldau.types import TopicPartition as Place

CANARY_RATE = 100
BIG_BATCH_BYTES = 1_000_000
BIG_BATCHES_PER_S = 100
SMALL_PER_S = 2_000
CLIENT = {"log_level": 0}
LATE = 30
_SPAWN = multiprocessing.get_context("spawn")


class Broker(Moldau):
    """`moldau up` whose cleaner looks for work twice a second."""

    def command(self) -> list[str]:
        return [*super().command(), "--set", "log.cleaner.backoff.ms=500", "--set", "log.segment.bytes=268435456"]


def create(servers: str, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(LATE)


def fill(servers: str, records: int, keys: int) -> dict[int, int]:
    """Writes `number` as the value of a random key; gives the last number of each key."""
    producer = Producer(
        {**CLIENT, "bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )
    pick = random.Random(7)
    last: dict[int, int] = {}
    padding = "x" * 80
    for number in range(records):
        key = number if number < keys else pick.randrange(keys)
        last[key] = number
        while True:
            try:
                producer.produce("table", key=str(key), value=f"{number:010d} {padding}")
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush(60)
    return last


def check(servers: str, last: dict[int, int]) -> int:
    """Reads the compacted topic; raises SystemExit unless it has the last value of each key exactly once."""
    consumer = Consumer({**CLIENT, "bootstrap.servers": servers, "group.id": "check", "enable.partition.eof": True})
    consumer.assign([TopicPartition("table", 0, OFFSET_BEGINNING)])
    count = 0
    found: dict[int, int] = {}
    is_end = False
    while not is_end:
        for message in consumer.consume(10_000, timeout=LATE):
            if message.error():
                is_end = True
                continue
            if message.key() != b"end":
                count += 1
                found[int(message.key())] = int(message.value()[:10])
    consumer.close()
    if found != last or count != len(last):
        raise SystemExit(f"{count} records of {len(found)} keys are left, not {len(last)}")
    return count


def write_steadily(servers: str, topic: str, value_bytes: int, per_second: int, stop: Event) -> None:
    producer = Producer(
        {
            **CLIENT,
            "bootstrap.servers": servers,
            "linger.ms": 5,
            "message.max.bytes": 1_048_588,
            "batch.size": 1_048_000,
        }
    )
    value = os.urandom(value_bytes)
    begin, sent = time.monotonic(), 0
    while not stop.is_set():
        while sent < (time.monotonic() - begin) * per_second and not stop.is_set():
            try:
                producer.produce(topic, key=str(sent % 1000), value=value)
            except BufferError:
                producer.poll(0.1)
                continue
            sent += 1
        producer.poll(0.005)
    producer.flush(LATE)


def read_steadily(servers: str, topic: str, stop: Event, read_bytes: multiprocessing.Value) -> None:  # type: ignore[valid-type]
    consumer = Consumer(
        {**CLIENT, "bootstrap.servers": servers, "group.id": "reader", "fetch.message.max.bytes": 8 << 20}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while not stop.is_set():
        for message in consumer.consume(1000, timeout=0.1):
            if not message.error():
                read_bytes.value += len(message.value())
    consumer.close()


@contextlib.contextmanager
def beside(*works: tuple[object, tuple[object, ...]]) -> Iterator[None]:
    """Runs each in its own process; all stop at the end."""
    stop = _SPAWN.Event()
    processes = [_SPAWN.Process(target=work, args=(*arguments, stop)) for work, arguments in works]  # type: ignore[arg-type]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        stop.set()
        for process in processes:
            process.join()


def canary(broker: Broker, seconds: float) -> dict[str, float]:
    figures = latency.measure(
        broker, "canary", rate=CANARY_RATE, records=int(CANARY_RATE * seconds), warm_up=CANARY_RATE, value_bytes=100
    )
    return {name: round(value, 2) for name, value in figures.items()}


def read_with_stop_last(servers: str, topic: str, read_bytes: object, stop: Event) -> None:
    read_steadily(servers, topic, stop, read_bytes)


class ChildWatch(threading.Thread):
    """The maximum memory seen in the cleaner's process."""

    def __init__(self, parent: int) -> None:
        super().__init__(daemon=True)
        self.parent = parent
        self.peak_mib = 0.0
        self.is_done = False

    def run(self) -> None:
        while not self.is_done:
            for name in Path(f"/proc/{self.parent}/task/").glob("*/children"):
                with contextlib.suppress(OSError):
                    for child in name.read_text().split():
                        for line in Path(f"/proc/{child}/status").read_text().splitlines():
                            if line.startswith("VmHWM:"):
                                self.peak_mib = max(self.peak_mib, int(line.split()[1]) / 1024)
            time.sleep(0.2)


def clean(broker: Broker, records: int) -> dict[str, float]:
    """Makes the topic compacted, rolls its active segment, and waits until the cleaner has cleaned the rest."""
    servers = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in (("cleanup.policy", "compact"), ("segment.ms", "1"))
    ]
    resource = ConfigResource(ResourceType.TOPIC, "table", incremental_configs=entries)
    assert broker.process is not None
    watch = ChildWatch(broker.process.pid)
    watch.start()
    cpu = broker.cpu_seconds()
    begin = time.perf_counter()
    admin.incremental_alter_configs([resource])[resource].result(LATE)
    producer = Producer({**CLIENT, "bootstrap.servers": servers})
    producer.produce("table", key="end", value="0")
    producer.flush(LATE)
    checkpoint = broker.folder / "data" / "cleaner-offset-checkpoint"
    while True:
        with contextlib.suppress(FileNotFoundError, ValueError):
            if decode_offsets(checkpoint.read_bytes()).get(Place("table", 0), 0) >= records:
                break
        time.sleep(0.05)
    seconds = time.perf_counter() - begin
    watch.is_done = True
    return {
        "seconds": round(seconds, 1),
        "records_per_s": round(records / seconds),
        "cleaner_peak_mib": round(watch.peak_mib),
        "broker_cpu_s": round(broker.cpu_seconds() - cpu, 1),
    }


def drop_from_page_cache(directory: Path) -> int:
    """Drops the segments of one partition from the page cache; gives their bytes."""
    total = 0
    for path in directory.glob("*.log"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            total += path.stat().st_size
    return total


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    figures: dict[str, object] = {"records": arguments.records, "keys": arguments.keys}
    broker = Broker("moldau", folder)
    broker.start()
    servers = broker.bootstrap_servers
    try:
        for topic in ("canary", "small", "big"):
            create(servers, topic)
        create(servers, "table", min_cleanable_dirty_ratio="0.01")
        last = fill(servers, arguments.records, arguments.keys)
        figures["alone"] = canary(broker, arguments.seconds)

        cleaning: dict[str, float] = {}
        cleaner = threading.Thread(target=lambda: cleaning.update(clean(broker, arguments.records)))
        read_bytes = _SPAWN.Value("q", 0)
        during: list[dict[str, float]] = []
        with beside(
            (write_steadily, (servers, "small", 100, SMALL_PER_S)),
            (read_with_stop_last, (servers, "small", read_bytes)),
        ):
            cleaner.start()
            while cleaner.is_alive():
                during.append(canary(broker, 10))
            cleaner.join()
        figures["compaction"] = {**cleaning, "canary": during, "left": check(servers, last)}

        with beside((write_steadily, (servers, "big", BIG_BATCH_BYTES, BIG_BATCHES_PER_S))):
            figures["big batches"] = canary(broker, arguments.seconds)
        _fill_big(servers, arguments.replay_gib << 30)
        read_bytes = _SPAWN.Value("q", 0)
        cold_bytes = drop_from_page_cache(folder / "data" / "big-0")
        begin = time.perf_counter()
        with beside(
            (write_steadily, (servers, "big", BIG_BATCH_BYTES, BIG_BATCHES_PER_S)),
            (read_with_stop_last, (servers, "big", read_bytes)),
        ):
            replay = canary(broker, arguments.seconds)
            while read_bytes.value < cold_bytes and time.perf_counter() - begin < 60:
                time.sleep(0.1)
        figures["replay"] = {
            **replay,
            "cold_gib": round(cold_bytes / 2**30, 1),
            "read_gib": round(read_bytes.value / 2**30, 1),
        }
    finally:
        broker.stop()
    return figures


def _fill_big(servers: str, total_bytes: int) -> None:
    producer = Producer(
        {**CLIENT, "bootstrap.servers": servers, "message.max.bytes": 1_048_588, "batch.size": 1_048_000}
    )
    value = os.urandom(BIG_BATCH_BYTES)
    for _ in range(total_bytes // BIG_BATCH_BYTES):
        while True:
            try:
                producer.produce("big", value=value)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--replay-gib", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20, help="how long the canary sings in each phase")
    parser.add_argument("--directory", help="where to write (default: the system's temporary directory)")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="moldau-compaction-", dir=arguments.directory))
    try:
        print(json.dumps({"load_average": os.getloadavg(), **measure(arguments, folder)}, indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
