"""The clients that must work unchanged, each with the same small interface."""

from __future__ import annotations

from tests.conformance.clients.aio import AioKafka
from tests.conformance.clients.confluent import ConfluentKafka
from tests.conformance.clients.driven import DrivenClient, FranzGo, JavaClient, KafkaJs
from tests.conformance.clients.interface import Client, ClientError, Position, Received
from tests.conformance.clients.kcat import Kcat
from tests.conformance.clients.pure_python import KafkaPython

CLIENTS: dict[str, type[Client]] = {kind.name: kind for kind in (ConfluentKafka, KafkaPython, AioKafka, Kcat)}
FOREIGN_CLIENTS: dict[str, type[DrivenClient]] = {kind.name: kind for kind in (KafkaJs, FranzGo, JavaClient)}
"""Clients that need another language's tools: npm, go, a JDK. Their tests have the marker `foreign`."""

ALL_CLIENTS = CLIENTS | FOREIGN_CLIENTS

__all__ = ["ALL_CLIENTS", "CLIENTS", "FOREIGN_CLIENTS", "Client", "ClientError", "Position", "Received"]
