"""Clients and controllers share the descriptors for connections: neither takes those of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.node.admission import shares_of_connections
from moldau.shell.node.assemble import Node
from moldau.shell.node.metrics.security import add_security
from moldau.shell.node.metrics.table import TABLE
from moldau.shell.node.ports import NodePorts
from moldau.shell.node.status import NodeStatus
from moldau.transport.exposition import Samples
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
)
from moldau.wire.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest
from tests.unit.shell.conftest import Client, FedListener, FedNetwork, turns

CLIENTS, CONTROLLERS = "PLAINTEXT://10.0.0.1:9092", "CONTROLLER://10.0.0.1:9093"
BOTH = {"listeners": f"{CLIENTS},{CONTROLLERS}", "controller.listener.names": "CONTROLLER"}


class TwoListeners(FedNetwork):
    """`factories`: makes the connections of each port."""

    def __init__(self) -> None:
        super().__init__()
        self.factories: dict[int, Callable[[], Any]] = {}

    async def listen(
        self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol], tls: object = None
    ) -> FedListener:
        self.factories[port] = protocol_factory
        return FedListener(host, port)


@pytest.mark.parametrize(
    ("settings", "max_open", "shares"),
    [
        (BOTH, 1_984, (1_488, 496)),
        (BOTH, 2, (1, 1)),
        (BOTH, None, (None, None)),
        ({"listeners": CLIENTS}, 1_984, (1_984, 1_984)),  # there is no other listener
        (
            {
                "listeners": CONTROLLERS,
                "controller.listener.names": "CONTROLLER",
                "process.roles": "controller",
                "controller.quorum.voters": "1@10.0.0.1:9093",
            },
            1_984,
            (0, 1_984),
        ),
    ],
)
def test_how_many_connections_clients_and_controllers_may_have(
    settings: dict[str, str], max_open: int | None, shares: tuple[int | None, int | None]
) -> None:
    assert shares_of_connections(parse_broker_settings(settings), max_open) == shares


@pytest.mark.asyncio
@pytest.mark.parametrize("first", [9092, 9093])
async def test_both_listeners_together_take_no_more_than_there_is(first: int) -> None:
    network = TwoListeners()
    ports = NodePorts(ManualClock(), SeededRandom(7), MemoryDisk(), InlineWorkers(), network, max_open_connections=20)
    node = Node(parse_broker_settings(BOTH), ports)
    await node.start()
    try:
        clients = {
            port: [Client(network.factories[port]()) for _ in range(40)] for port in (first, 9092 + 9093 - first)
        }
        is_open = {port: sum(not client.wire.is_closed for client in clients[port]) for port in clients}
        assert is_open == {9092: 15, 9093: 5}
    finally:
        node.abort()


def rate_of_connections(value: float | None) -> AlterClientQuotasRequest:
    """The quota of every address without its own; None: the quota is removed."""
    operation = AlterQuotaOperation("connection_creation_rate", value or 0.0, value is None)
    return AlterClientQuotasRequest((AlterQuotaEntry((AlterQuotaEntity("ip", None),), (operation,)),))


@pytest.mark.asyncio
@pytest.mark.parametrize("limit", ["max.connections", "max.connection.creation.rate"])
async def test_brokers_reach_each_other_where_clients_have_used_up_the_connections(limit: str) -> None:
    network = TwoListeners()
    ports = NodePorts(ManualClock(), SeededRandom(7), MemoryDisk(), InlineWorkers(), network)
    settings = {
        "listeners": f"INTERNAL://10.0.0.1:9094,{CLIENTS}",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        limit: "1",
    }
    node = Node(parse_broker_settings(settings), ports)
    await node.start()
    try:
        clients = [Client(network.factories[9092]()) for _ in range(20)]
        assert clients[-1].connection._holds
        brokers = [Client(network.factories[9094]()) for _ in range(2)]
        assert not any(broker.connection._holds for broker in brokers)
        brokers[-1].send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
        assert len(brokers[-1].answers()) == 1
        late = Client(network.factories[9092]())
        assert late.connection._holds
    finally:
        node.abort()


@pytest.mark.asyncio
async def test_connections_over_the_rate_of_their_address_also_respect_the_limit() -> None:
    network = FedNetwork()
    ports = NodePorts(ManualClock(), SeededRandom(7), MemoryDisk(), InlineWorkers(), network, max_open_connections=20)
    node = Node(parse_broker_settings({"listeners": CLIENTS}), ports)
    await node.start()
    factory = network.factory
    assert factory is not None
    try:
        operator = Client(factory())  # type: ignore[arg-type]
        await operator.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, rate_of_connections(1))
        crowd = [Client(factory()) for _ in range(40)]  # type: ignore[arg-type]
        held = [client for client in crowd if not client.wire.is_closed and client.connection._holds]
        assert sum(not client.wire.is_closed for client in crowd) == 19
        assert held  # the others are within the rate, and are served

        await operator.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, rate_of_connections(None))
        late = Client(factory())  # type: ignore[arg-type]
        await turns(1)
        late.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
        assert len(late.answers()) == 1  # one that would be closed anyway was closed first
        assert [client.wire.is_closed for client in held] == [True] + [False] * (len(held) - 1)
        assert sum(not client.wire.is_closed for client in crowd) == 18
    finally:
        node.abort()


@pytest.mark.asyncio
async def test_a_limit_of_one_listener_changes_at_run_time_and_is_in_the_metrics() -> None:
    network = TwoListeners()
    ports = NodePorts(ManualClock(), SeededRandom(7), MemoryDisk(), InlineWorkers(), network)
    settings = {
        "listeners": f"INTERNAL://10.0.0.1:9094,{CLIENTS}",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "listener.name.plaintext.max.connections": "2",
    }
    node = Node(parse_broker_settings(settings), ports)
    await node.start()
    try:
        clients = [Client(network.factories[9092]()) for _ in range(4)]
        assert [bool(client.connection._holds) for client in clients] == [False, False, True, True]
        operator = Client(network.factories[9094]())
        change = IncrementalAlterableConfig("listener.name.plaintext.max.connections", 0, "3")
        request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(4, "1", (change,)),))
        answer = await operator.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        assert answer.responses[0].error_code == 0
        assert [bool(client.connection._holds) for client in clients] == [False, False, False, True]
        out = Samples(TABLE)
        add_security(NodeStatus(ports.clock, node.telemetry, None, node.connections), out)  # type: ignore[arg-type]
        page = out.render().decode()
        for line in (
            'moldau_listener_connections_limit{listener="PLAINTEXT"} 3',
            'moldau_listener_connections_waiting{listener="PLAINTEXT"} 1',
            'moldau_listener_connections_accepted_total{listener="PLAINTEXT"} 3',
        ):
            assert line in page
    finally:
        node.abort()
