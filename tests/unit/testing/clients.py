"""Clients of librdkafka for these tests: quick to reconnect, and silent."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer

from moldau.testing import Cluster


def make_producer(cluster: Cluster, **settings: object) -> Producer:
    return Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 0,
            "log_level": 0,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            **settings,
        }
    )


def make_consumer(cluster: Cluster, group: str, **settings: object) -> Consumer:
    """It reads from the beginning, and commits nothing by itself."""
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
    )
