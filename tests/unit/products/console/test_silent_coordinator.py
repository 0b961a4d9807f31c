"""The page of a group whose coordinator is silent names that broker, and no request waits for long."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.ports import Stream
from moldau.products.console.cluster import Cluster, SilentError
from moldau.products.console.routes import Pages
from moldau.products.console.sampler import Sampler
from moldau.products.service.admission import this_machine
from moldau.products.service.service import Service
from moldau.types import Buffer
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.support.scripted_brokers import ScriptedBrokers

ANSWERING, SILENT = ("one", 9092), ("two", 9092)


def answer(request: Any) -> msgspec.Struct:
    if isinstance(request, MetadataRequest):
        brokers = (MetadataResponseBroker(1, *ANSWERING), MetadataResponseBroker(2, *SILENT))
        return MetadataResponse(brokers=brokers, cluster_id="c", topics=())
    if isinstance(request, FindCoordinatorRequest):
        return FindCoordinatorResponse(node_id=2, host=SILENT[0], port=SILENT[1])
    raise ConnectionResetError("it has no answer to that")


class OneIsSilent(ScriptedBrokers):
    """The kernel of the second broker accepts connections, but the broker is silent."""

    def __init__(self) -> None:
        super().__init__({ANSWERING: answer})

    def dial(self, host: str, port: int, timeout_ms: int) -> Stream:
        return Mute(self) if (host, port) == SILENT else super().dial(host, port, timeout_ms)


class Mute:
    def __init__(self, brokers: ScriptedBrokers) -> None:
        self._brokers = brokers

    def send(self, data: Buffer, timeout_ms: int) -> None:
        """It is in the kernel's buffer."""

    def receive(self, max_bytes: int, timeout_ms: int) -> bytes:
        self._brokers.now_ms += timeout_ms
        raise TimeoutError

    def receive_into(self, target: memoryview, timeout_ms: int) -> int:
        return len(self.receive(len(target), timeout_ms))

    def has_ended(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""


def test_whoever_asks_for_the_group_learns_within_seconds_which_broker_is_silent() -> None:
    brokers = OneIsSilent()
    cluster = Cluster(ClusterAccess("one:9092"), brokers)
    with pytest.raises(SilentError, match="two:9092 does not answer"):
        cluster.group("readers")
    assert 0 < brokers.now_ms < 10_000
    began_ms = brokers.now_ms
    with pytest.raises(SilentError):
        cluster.group("readers")
    assert brokers.now_ms == began_ms  # and the next one at once
    cluster.close()


def test_the_page_of_the_group_names_the_broker() -> None:
    cluster = Cluster(ClusterAccess("one:9092"), OneIsSilent())
    sampler = Sampler(cluster)
    pages = Pages(Service("page", this_machine), cluster, sampler)
    try:
        status, template, values = pages.gather("/groups/readers", {"group": "readers"}, {})
    finally:
        sampler.close()
        cluster.close()
    assert (status, template) == (503, "error.html")
    assert values["title"] == "The coordinator of the group does not answer"
    assert values["reason"].startswith("Not answering: broker 2 at two:9092. ")
