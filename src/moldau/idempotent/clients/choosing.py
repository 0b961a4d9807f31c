"""Chooses the adapter of a client's object by the package of its class."""

from __future__ import annotations

from typing import Any

from moldau.idempotent.clients.aio_kafka import AioKafkaConsuming, AioKafkaProducing
from moldau.idempotent.clients.confluent import ConfluentConsuming, ConfluentProducing
from moldau.idempotent.clients.kafka_python import KafkaPythonConsuming, KafkaPythonProducing
from moldau.idempotent.clients.port import Consuming, Producing

_CONSUMERS: dict[str, Any] = {
    "confluent_kafka": ConfluentConsuming,
    "cimpl": ConfluentConsuming,
    "kafka": KafkaPythonConsuming,
    "aiokafka": AioKafkaConsuming,
}
_PRODUCERS: dict[str, Any] = {
    "confluent_kafka": ConfluentProducing,
    "cimpl": ConfluentProducing,
    "kafka": KafkaPythonProducing,
    "aiokafka": AioKafkaProducing,
}


def _adapter(client: object, adapters: dict[str, Any]) -> Any:
    packages = [each.__module__.partition(".")[0] for each in type(client).__mro__]
    found = next((adapters[package] for package in packages if package in adapters), None)
    if found is None:
        raise TypeError(f"{type(client).__name__} is of no known client: confluent-kafka, aiokafka or kafka-python")
    return found(client)


def consuming(client: object) -> Consuming:
    """The adapter of a consumer. Raises TypeError for an unknown client."""
    adapter: Consuming = _adapter(client, _CONSUMERS)
    return adapter


def producing(client: object) -> Producing:
    """The adapter of a producer. Raises TypeError for an unknown client."""
    adapter: Producing = _adapter(client, _PRODUCERS)
    return adapter
