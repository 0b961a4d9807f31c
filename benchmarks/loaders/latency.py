"""End-to-end latency: single records at a steady rate, from `produce` to a consumer in another process."""

from __future__ import annotations

import multiprocessing
import struct
import time
from multiprocessing.connection import Connection

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from benchmarks.peers import Peer, PeerError

CLIENT = {"log_level": 0}


def _consume(bootstrap_servers: str, topic: str, count: int, results: Connection) -> None:
    consumer = Consumer(
        {
            **CLIENT,
            "bootstrap.servers": bootstrap_servers,
            "group.id": "moldau-bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    latencies_us: list[float] = []
    is_announced = False
    while len(latencies_us) < count:
        message = consumer.poll(0.2)
        if message is None or message.error():
            continue
        now = time.perf_counter_ns()
        if not is_announced:
            is_announced = True
            results.send("ready")
        (sent,) = struct.unpack(">q", message.value()[:8])
        if sent:
            latencies_us.append((now - sent) / 1000)
    results.send(latencies_us)
    consumer.close()


def measure(peer: Peer, topic: str, *, rate: int, records: int, warm_up: int, value_bytes: int) -> dict[str, float]:
    """Gives p50 and p99 in ms over `records`, after `warm_up` records at the same rate, and the broker's cost of a
    record."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    reader = context.Process(target=_consume, args=(peer.bootstrap_servers, topic, warm_up + records, theirs))
    reader.start()
    producer = Producer({**CLIENT, "bootstrap.servers": peer.bootstrap_servers, "linger.ms": 0, "acks": "all"})
    padding = bytes(value_bytes - 8)
    # Sends records with time 0 until the consumer at the end sees one: it reports no position by itself.
    while not ours.poll(0.05):
        producer.produce(topic, bytes(8) + padding)
        producer.poll(0)
        if not reader.is_alive():
            raise PeerError("the consumer of the latency workload ended early")
    ours.recv()
    begin, cpu_before = time.perf_counter(), 0.0
    for number in range(warm_up + records):
        if number == warm_up:
            cpu_before = peer.cpu_seconds()
        due = begin + number / rate
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(min(wait, 0.0005))
        producer.produce(topic, struct.pack(">q", time.perf_counter_ns()) + padding)
        producer.poll(0)
    producer.flush(30)
    cpu_s = peer.cpu_seconds() - cpu_before
    latencies = sorted(ours.recv()[warm_up:])
    reader.join()
    return {
        "p50_ms": latencies[len(latencies) // 2] / 1000,
        "p99_ms": latencies[int(len(latencies) * 0.99)] / 1000,
        "cpu_us_per_record": cpu_s / records * 1e6,
    }
