"""Produce and consume at full speed with librdkafka, and broker CPU per GB."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import Peer, PeerError

GB = 1e9
CHUNK = 10_000
FILE_DELETE_DELAY_S = 1
READS = 5
"""Of one topic, in sequence: one read takes less than a second."""


def create_topic(peer: Peer, topic: str, partitions: int = 1) -> None:
    admin = AdminClient(peer.client_settings)
    config = {"file.delete.delay.ms": str(1000 * FILE_DELETE_DELAY_S)}
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
        future.result(timeout=30)


def delete_topic(peer: Peer, topic: str) -> None:
    """Deletes a topic and waits until its files are deleted: disk writes would slow the next measurement down."""
    admin = AdminClient(peer.client_settings)
    for future in admin.delete_topics([topic]).values():
        future.result(timeout=30)
    time.sleep(2 * FILE_DELETE_DELAY_S)


class Sender:
    """A producer that has sent one record of `value_bytes` to each partition of `topic`, and has it acknowledged.

    So no rate includes the start of a client: if librdkafka's first broker answers before the client is connected to a
    second one, it waits half a second before it asks for its producer id, with any kind of broker.
    """

    def __init__(self, peer: Peer, topic: str, *, value_bytes: int, settings: dict[str, object]) -> None:
        self._peer, self._topic = peer, topic
        self._value = (b"moldau benchmark value " * (value_bytes // 23 + 1))[:value_bytes]
        self._failures: list[object] = []
        self._producer = Producer(
            {
                **peer.client_settings,
                "linger.ms": 5,
                "batch.num.messages": 100_000,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_048_576,
                # Reports only failures: a callback for each record would measure Python, not the broker.
                "delivery.report.only.error": True,
                "on_delivery": self._delivered,
                **settings,
            }
        )
        partitions = self._producer.list_topics(topic, timeout=30).topics[topic].partitions
        for partition in partitions:
            self._producer.produce(topic, self._value, partition=partition)
        self._finish()
        self.sent = len(partitions)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failures.append(error)

    def send(self, records: int) -> None:
        """Returns when all records are acknowledged. Raises PeerError if one is not."""
        end = self.sent + records
        while self.sent < end:
            messages = [{"value": self._value} for _ in range(min(CHUNK, end - self.sent))]
            while messages:
                try:
                    self._producer.produce_batch(self._topic, messages)
                except BufferError:
                    pass
                # A record that did not fit into the queue has an "_error"; it is sent again.
                refused = [{"value": self._value} for message in messages if "_error" in message]
                self.sent += len(messages) - len(refused)
                messages = refused
                self._producer.poll(0.01 if refused else 0)
        self._finish()

    def _finish(self) -> None:
        if self._producer.flush(120) or self._failures:
            raise PeerError(f"{self._peer.name}: records were not acknowledged: {self._failures[:1]}")


def produce(peer: Peer, topic: str, *, records: int, value_bytes: int, settings: dict[str, object]) -> dict[str, float]:
    """Sends `records` values; gives records/s until the last acknowledgement, and broker CPU seconds per GB.

    The first record of each partition counts as one of them, but is not timed.
    """
    sender = Sender(peer, topic, value_bytes=value_bytes, settings=settings)
    timed = records - sender.sent
    cpu_before, begin = peer.cpu_seconds(), time.perf_counter()
    sender.send(timed)
    seconds = time.perf_counter() - begin
    return {"rate": timed / seconds, "cpu_per_gb": (peer.cpu_seconds() - cpu_before) / (timed * value_bytes / GB)}


def end_offset(peer: Peer, topic: str) -> int:
    consumer = Consumer({**peer.client_settings, "group.id": "moldau-bench"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])
    finally:
        consumer.close()


def consume(peer: Peer, topic: str, *, records: int, value_bytes: int) -> dict[str, float]:
    """Reads the whole topic a few times with kcat (librdkafka without Python objects).

    Gives records/s, broker CPU seconds per GB, and the cores that kcat used: near one, kcat is the limit.

    The response size is librdkafka's default: kcat unpacks a response before it sends the next Fetch, so kcat takes
    longer than the broker with a larger response of compressed batches.
    """
    kcat = shutil.which("kcat")
    if kcat is None:
        raise PeerError("kcat is needed to read at full speed: apt-get install kcat")
    command = [kcat, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-u"]
    command += [word for name, value in peer.client_settings.items() for word in ("-X", f"{name}={value}")]
    command += ["-c", str(records), "-f", "", "-X", "queued.min.messages=1000000", "-X", "fetch.wait.max.ms=100"]
    # With the default of 64 MiB a compressed topic fills the queue, and librdkafka pauses for a second at a time.
    command += ["-X", "queued.max.messages.kbytes=2000000", "-X", "check.crcs=false"]
    if end_offset(peer, topic) < records:
        raise PeerError(f"{peer.name}: {topic} holds too few records")
    cpu_before, own_before, begin = peer.cpu_seconds(), _cpu_of_children(), time.perf_counter()
    for _ in range(READS):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    return {
        "rate": READS * records / seconds,
        "cpu_per_gb": (peer.cpu_seconds() - cpu_before) / (READS * records * value_bytes / GB),
        "reader_cores": (_cpu_of_children() - own_before) / seconds,
    }


def _cpu_of_children() -> float:
    """Of children that have ended and were waited for."""
    times = os.times()
    return times.children_user + times.children_system
