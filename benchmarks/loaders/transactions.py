"""Transactions of librdkafka, one after another: the rate of records, and the time of EndTxn."""

from __future__ import annotations

import time

from confluent_kafka import Producer

from benchmarks.loaders.produce import CHUNK, GB
from benchmarks.peers import Peer, PeerError


def measure(
    peer: Peer, topic: str, *, transactions: int, interval_ms: int, value_bytes: int, settings: dict[str, object]
) -> dict[str, float]:
    """Each transaction takes the records of `interval_ms` (0: one record), waits until all of them are acknowledged,
    and commits. That wait is not part of EndTxn's time.

    Gives records/s and transactions/s over the whole run, EndTxn's p50 and p99 in ms, broker CPU in seconds per GB and
    in us per transaction.
    """
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap_servers,
            "transactional.id": f"bench-{topic}",
            "linger.ms": 5 if interval_ms else 0,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(error) if error is not None else None,
            **settings,
        }
    )
    value = (b"moldau benchmark value " * (value_bytes // 23 + 1))[:value_bytes]
    producer.init_transactions(30)
    _transaction(producer, topic, value, interval_ms)  # the first transaction finds coordinator and leader
    end_ms: list[float] = []
    records, cpu_before, begin = 0, peer.cpu_seconds(), time.perf_counter()
    for _ in range(transactions):
        sent, took_ms = _transaction(producer, topic, value, interval_ms)
        records += sent
        end_ms.append(took_ms)
    seconds, cpu_s = time.perf_counter() - begin, peer.cpu_seconds() - cpu_before
    if failures:
        raise PeerError(f"{peer.name}: records were not acknowledged: {failures[:1]}")
    end_ms.sort()
    return {
        "rate": records / seconds,
        "transactions_rate": transactions / seconds,
        "end_txn_p50_ms": end_ms[len(end_ms) // 2],
        "end_txn_p99_ms": end_ms[int(len(end_ms) * 0.99)],
        "cpu_per_gb": cpu_s / (records * value_bytes / GB),
        "cpu_us_per_transaction": cpu_s / transactions * 1e6,
    }


def _transaction(producer: Producer, topic: str, value: bytes, interval_ms: int) -> tuple[int, float]:
    """The number of records, and the ms of EndTxn."""
    producer.begin_transaction()
    sent = 0
    if interval_ms == 0:
        producer.produce(topic, value, partition=0)
        sent = 1
    until = time.perf_counter() + interval_ms / 1000
    while time.perf_counter() < until:
        messages = [{"value": value} for _ in range(CHUNK)]
        try:
            producer.produce_batch(topic, messages)
        except BufferError:
            pass
        # a record that does not fit into the queue has an "_error", and is left out
        sent += sum("_error" not in message for message in messages)
        producer.poll(0)
    if producer.flush(60):
        raise PeerError("records of a transaction were not acknowledged within a minute")
    began = time.perf_counter()
    producer.commit_transaction(60)
    return sent, (time.perf_counter() - began) * 1000
