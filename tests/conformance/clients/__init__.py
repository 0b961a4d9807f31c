"""The clients that must work unchanged, each behind the same few calls."""

from __future__ import annotations

import shutil

from tests.conformance.clients.aio import AioKafka
from tests.conformance.clients.confluent import ConfluentKafka
from tests.conformance.clients.interface import Client, Received
from tests.conformance.clients.kcat import Kcat
from tests.conformance.clients.pure_python import KafkaPython

CLIENTS: dict[str, type[Client]] = {
    "confluent-kafka": ConfluentKafka,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
    "kcat": Kcat,
}

__all__ = ["CLIENTS", "Client", "Received", "missing_reason"]


def missing_reason(name: str) -> str | None:
    """Why this client cannot run here, or None."""
    if name == "kcat" and shutil.which("kcat") is None:
        return "kcat is not installed; it comes from the system's packages (apt-get install kcat)"
    return None
