"""Compacted topics move from Moldau to Apache Kafka and back: each cleans logs that the other has cleaned.

Selected by the marker, as test_open_with_apache_kafka: `pytest -m java tests/conformance/apache_directory`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.core.log.cleaning.cleanable import find_cleanable, plan_round
from moldau.core.log.cleaning.compaction import CompactionResult, compact, flush_cleaned
from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.checkpoint import decode_offsets
from moldau.core.log.log import Log
from moldau.core.log.recovery.recovery import RecoveryPlan, load_log
from moldau.core.log.settings import LogSettings
from moldau.shell.io.disk import OsDisk
from moldau.testing import Cluster
from moldau.types import METADATA_TOPIC_ID
from moldau.types import TopicPartition as Place
from tests.support.apache_kafka import (
    CLIENT_S,
    NEEDS_APACHE_KAFKA,
    apache_kafka,
    commit,
    committed,
    copy_of,
    dump,
    end_offset,
    run_java,
)

pytestmark = NEEDS_APACHE_KAFKA

CLEANER = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "0"}
CODECS = ("none", "lz4", "zstd")
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "86400000",
}
KEYS = 40
ROUNDS = 4
VALUE_BYTES = 20_000

Rows = dict[int, tuple[bytes, bytes | None, int]]
"""By offset: key, value, timestamp."""


class Table:
    """The expected contents of the topics: the last value of each key, None for a tombstone."""

    def __init__(self) -> None:
        self.last: dict[str, dict[bytes, bytes | None]] = {codec: {} for codec in CODECS}
        self._random = random.Random(7)

    def create(self, servers: str) -> None:
        admin = AdminClient({"bootstrap.servers": servers})
        topics = [NewTopic(f"table-{codec}", 1, 1, config=CONFIG) for codec in CODECS]
        topics.append(NewTopic("orders", 3, 1))
        for future in admin.create_topics(topics).values():
            future.result(CLIENT_S)

    def write_first(self, servers: str) -> None:
        """One record that no later one replaces: without it the first cleaned file is empty, and we drop an empty
        `.swap` file as doubtful."""
        producer = Producer({"bootstrap.servers": servers})
        for codec in CODECS:
            producer.produce(f"table-{codec}", key=b"first", value=b"stays")
            self.last[codec][b"first"] = b"stays"
        producer.flush(CLIENT_S)

    def write(self, servers: str) -> None:
        """Writes every key a few times, with incompressible values; the first ten keys are deleted in between."""
        for codec in CODECS:
            producer = Producer(
                {"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": codec, "linger.ms": 20}
            )
            for number in range(ROUNDS):
                for index in range(KEYS):
                    key = f"key-{index}".encode()
                    value = None if number == 2 and index < 10 else self._random.randbytes(VALUE_BYTES)
                    if number == 3 and index < 5:
                        continue
                    producer.produce(f"table-{codec}", key=key, value=value)
                    self.last[codec][key] = value
                producer.flush(CLIENT_S)

    def check(self, rows: dict[str, Rows]) -> None:
        for codec in CODECS:
            found: dict[bytes, bytes | None] = {}
            for offset in sorted(rows[codec]):
                key, value, _ = rows[codec][offset]
                found[key] = value
            assert found == self.last[codec]


def read(servers: str) -> dict[str, Rows]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    content: dict[str, Rows] = {}
    for codec in CODECS:
        place = TopicPartition(f"table-{codec}", 0, OFFSET_BEGINNING)
        end_offset(consumer, place)
        consumer.assign([place])
        rows = content[codec] = {}
        while True:
            message = consumer.poll(CLIENT_S)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == -191, message.error()
                break
            rows[message.offset()] = (message.key(), message.value(), message.timestamp()[1])
    consumer.close()
    return content


def wait_until_cleaned(data: Path, servers: str) -> dict[str, Rows]:
    """Waits until the cleaner has reached the active segment of each table; gives the remaining records."""
    admin = AdminClient({"bootstrap.servers": servers})
    for _ in range(CLIENT_S * 10):
        offsets = decode_offsets((data / "cleaner-offset-checkpoint").read_bytes())
        active = {
            codec: max(int(path.name[:20]) for path in (data / f"table-{codec}-0").glob("*.log")) for codec in CODECS
        }
        if all(offsets.get(Place(f"table-{codec}", 0), -1) >= active[codec] > 0 for codec in CODECS):
            return read(servers)
        admin.list_topics(timeout=CLIENT_S)
        Consumer({"bootstrap.servers": servers, "group.id": "nobody"}).poll(0.1)
    pytest.fail("the topics were not cleaned in time")


def check_files(data: Path) -> None:
    """Kafka's own tool reads every segment and index, and finds no error."""
    for codec in CODECS:
        directory = data / f"table-{codec}-0"
        segments = sorted(directory.glob("*.log"))
        assert segments
        assert "isvalid: false" not in dump(*segments)
        indexes = [*directory.glob("*.index"), *directory.glob("*.timeindex")]
        checked = run_java(
            "org.apache.kafka.tools.DumpLogSegments",
            "--index-sanity-check",
            "--files",
            ",".join(str(file) for file in indexes if file.stat().st_size),
        )
        assert "Found timestamp mismatch" not in checked
        assert "out of order" not in checked


def open_log(root: Path, *, is_clean: bool) -> Log:
    return Log.open(
        OsDisk(str(root)),
        "payments-0",
        Place("payments", 0),
        METADATA_TOPIC_ID,
        LogSettings(),
        now_ms=0,
        plan=RecoveryPlan(is_clean=is_clean),
    )


def test_we_know_the_transactions_that_apache_kafka_has_aborted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with apache_kafka(tmp_path / "kafka", data) as servers:
        admin = AdminClient({"bootstrap.servers": servers})  # kept: a deleted client cancels its futures
        admin.create_topics([NewTopic("payments", 1, 1)])["payments"].result(CLIENT_S)
        producer = Producer({"bootstrap.servers": servers, "transactional.id": "payments"})
        producer.init_transactions(CLIENT_S)
        for is_commit in (True, False, True):
            producer.begin_transaction()
            for row in range(3):
                producer.produce("payments", key=str(row), value=b"v")
            producer.flush(CLIENT_S)
            if is_commit:
                producer.commit_transaction(CLIENT_S)
            else:
                producer.abort_transaction(CLIENT_S)
    written = open_log(data, is_clean=True).aborted_transactions(0, 100)
    assert [(entry.first_offset, entry.last_offset, entry.last_stable_offset) for entry in written] == [(4, 7, 8)]
    [index] = data.glob("payments-0/*.txnindex")
    as_kafka_wrote_it = index.read_bytes()
    index.unlink()
    assert open_log(data, is_clean=False).aborted_transactions(0, 100) == written
    assert index.read_bytes() == as_kafka_wrote_it


def test_each_cleans_what_the_other_has_cleaned(tmp_path: Path) -> None:
    table = Table()
    data = tmp_path / "data"
    with Cluster(data_dir=data, settings=CLEANER) as cluster:
        table.create(cluster.bootstrap_servers)
        table.write(cluster.bootstrap_servers)
        commit(cluster.bootstrap_servers)
        offsets = committed(cluster.bootstrap_servers)
        before = wait_until_cleaned(data, cluster.bootstrap_servers)
        table.check(before)
        assert all(len(rows) < 2 * KEYS for rows in before.values())
    check_files(data)

    with apache_kafka(tmp_path / "kafka", copied := copy_of(data, "copied"), CLEANER) as servers:
        assert read(servers) == before
        assert committed(servers) == offsets
        table.write(servers)
        before = wait_until_cleaned(copied, servers)
        table.check(before)
    with Cluster(data_dir=copied, settings=CLEANER) as cluster:
        assert read(cluster.bootstrap_servers) == before
        table.write(cluster.bootstrap_servers)
        before = wait_until_cleaned(copied, cluster.bootstrap_servers)
        table.check(before)
        assert committed(cluster.bootstrap_servers) == offsets
    check_files(copied)
    with apache_kafka(tmp_path / "kafka", copied, CLEANER) as servers:
        assert read(servers) == before


def test_a_directory_that_apache_kafka_has_cleaned_is_cleaned_on_by_us(tmp_path: Path) -> None:
    table = Table()
    data = tmp_path / "data"
    with apache_kafka(tmp_path / "kafka", data, CLEANER) as servers:
        table.create(servers)
        table.write(servers)
        before = wait_until_cleaned(data, servers)
    recovered = load_log(
        OsDisk(str(copy_of(data, "recovered"))),
        "table-lz4-0",
        LogSettings(cleanup_policy=("compact",)),
        now_ms=0,
        health=DirectoryHealth(),
        plan=RecoveryPlan(
            is_clean=False,
            recovery_point=0,
            log_start_offset=0,
            cleaned_offset=decode_offsets((data / "cleaner-offset-checkpoint").read_bytes())[Place("table-lz4", 0)],
        ),
    )
    assert not recovered.cuts
    with Cluster(data_dir=data, settings=CLEANER) as cluster:
        assert read(cluster.bootstrap_servers) == before
        table.write(cluster.bootstrap_servers)
        table.check(wait_until_cleaned(data, cluster.bootstrap_servers))
    check_files(data)


def cut_off_in_the_swap(data: Path, codec: str) -> None:
    """A round of our cleaner over the stopped directory, ended after the first step of its swap. The directory also has
    a file of a later group that was not swapped."""
    disk = OsDisk(str(data))
    place = Place(f"table-{codec}", 0)
    log = Log.open(
        disk,
        str(place),
        place,
        METADATA_TOPIC_ID,
        LogSettings(cleanup_policy=("compact",), segment_bytes=1 << 20),
        now_ms=0,
        plan=RecoveryPlan(is_clean=True),
    )
    part = find_cleanable(log, 0, log.log_end_offset, 1 << 60)
    plan = plan_round(
        log, part, now_ms=int(time.time() * 1000), nonce="beef", dedupe_buffer_bytes=1 << 20, io_buffer_bytes=1 << 16
    )
    last = exhaust(compact(disk, plan))
    flush_cleaned(disk, plan, last)
    log.release()
    first = last.segments[0]
    assert len(last.segments) > 1
    for suffix in (".log", ".index", ".timeindex"):
        disk.rename(plan.cleaned_path(first.base_offset, suffix), f"{place}/{first.base_offset:020d}{suffix}.swap")
    (data / ".kafka_cleanshutdown").unlink()


def exhaust(steps: Generator[int, None, CompactionResult]) -> CompactionResult:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: CompactionResult = end.value
            return result


def test_apache_kafka_and_we_finish_a_swap_of_ours_that_was_cut_off(tmp_path: Path) -> None:
    table = Table()
    data = tmp_path / "data"
    never = {"log.cleaner.enable": "false"}
    with Cluster(data_dir=data, settings=never) as cluster:
        table.create(cluster.bootstrap_servers)
        table.write_first(cluster.bootstrap_servers)
        table.write(cluster.bootstrap_servers)
        before = read(cluster.bootstrap_servers)
    cut_off_in_the_swap(data, "none")
    cut = copy_of(data, "cut")
    with apache_kafka(tmp_path / "kafka", data, never) as servers:
        by_kafka = read(servers)
        table.check(by_kafka)
    with Cluster(data_dir=cut, settings=never) as cluster:
        by_us = read(cluster.bootstrap_servers)
    assert by_us == by_kafka
    assert len(by_us["none"]) < len(before["none"])
    assert by_us["lz4"] == before["lz4"]
    for place in (data, cut):
        assert not [path for path in (place / "table-none-0").iterdir() if path.suffix in (".swap", ".cleaned")]
