"""A real client under a quota: the throttle time in responses, and the duration in the broker's time."""

from __future__ import annotations

from confluent_kafka import Producer, ThrottleEvent

from moldau.client.protocol.access import ClusterAccess
from moldau.testing import Cluster
from moldau.transport.access import open_connection
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
)

LIMIT = 20_000
RECORD_BYTES = 10_000
RECORDS = 60


def test_a_producer_is_told_its_waits_and_keeps_about_its_rate() -> None:
    with Cluster() as cluster:
        topic = cluster.topic()
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        entry = AlterQuotaEntry(
            (AlterQuotaEntity("client-id", "limited"),), (AlterQuotaOperation("producer_byte_rate", float(LIMIT)),)
        )
        connection = open_connection(ClusterAccess(host), host, int(port))
        answer = connection.request(AlterClientQuotasRequest((entry,)))
        connection.close()
        assert [row.error_code for row in answer.entries] == [0]
        events: list[ThrottleEvent] = []
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "client.id": "limited",
                "linger.ms": 0,
                "batch.num.messages": 1,
                "max.in.flight": 1,
                "throttle_cb": events.append,
            }
        )
        begin_ms = cluster.now_ms()
        for _ in range(RECORDS):
            producer.produce(topic, b"x" * RECORD_BYTES)
        while producer.flush(0.05):
            cluster.advance(seconds=1)  # the broker's wait is over; the client waits only for the broker
        elapsed_s = (cluster.now_ms() - begin_ms) / 1_000
        assert sum(cluster.record_counts(topic).values()) == RECORDS
        assert any(event.throttle_time > 0 for event in events)  # 0: a wait is over
        # a burst of ten seconds is allowed; the rest comes at the rate
        least_s = (RECORDS * RECORD_BYTES - 11 * LIMIT) / LIMIT
        assert elapsed_s >= least_s * 0.8, f"{elapsed_s} s for {RECORDS * RECORD_BYTES} bytes at {LIMIT} a second"
