"""The controller's listener serves the quorum and its administration; a listener for clients does not serve the
quorum."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest

from moldau.client.admin.configs import BROKER, SET, alter_configs, describe_configs
from moldau.client.admin.topics import create_topic
from moldau.client.protocol.access import ClusterAccess
from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.metadata.features import REGISTERED_FEATURES
from moldau.core.metadata.image import BrokerListener
from moldau.shell.io.clock import SystemClock
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.network.event_log import EventLog
from moldau.shell.node.assemble import Node
from moldau.shell.node.ports import NodePorts
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.shell.quorum.controller_registration import register_controller, registration_of
from moldau.shell.quorum.handlers.table import served_apis
from moldau.testing import Cluster
from moldau.transport.access import open_controller_admin
from moldau.transport.network import TcpNetwork
from moldau.types import BrokerId, Uuid
from moldau.wire.protocol.api_keys import CONTROLLER_API_VERSIONS, ApiKey, declared_api
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.broker_lifecycle import BrokerRegistrationRequest
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
)
from moldau.wire.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from moldau.wire.protocol.messages.fetch import FetchRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.quorum import VoteRequest
from moldau.wire.protocol.messages.sasl import SaslHandshakeRequest
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.held_port import held_port, port_of
from tests.support.quorum_of_three import CLUSTER_ID, QuorumOfThree
from tests.support.stories import run_by

TIMEOUT_MS = 30_000
ILLEGAL_SASL_STATE, NOT_CONTROLLER, INVALID_REQUEST, INCONSISTENT_CLUSTER_ID = 34, 41, 42, 104
THROTTLING_QUOTA_EXCEEDED = 89
MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE = 114, 115
QUORUM = DescribeQuorumRequest((DescribeQuorumTopic("__cluster_metadata", (DescribeQuorumPartition(0),)),))


def ask(story: Callable[[Peer, QuorumOfThree], Awaitable[None]]) -> None:
    """Runs `story` with a peer of node 1, which waits for the others."""

    async def run() -> None:
        quorum = QuorumOfThree(SystemClock(), lambda node_id: TcpNetwork(), lambda node_id: ("127.0.0.1", 0))
        await quorum.start()
        peer = Peer(quorum.nodes[1].address, TcpNetwork())
        await story(peer, quorum)
        peer.close()
        for node in quorum.nodes.values():
            node.die()

    asyncio.run(run())


@run_by(ask)
async def test_it_says_which_apis_it_serves(peer: Peer, quorum: QuorumOfThree) -> None:
    answer = await peer.request(ApiVersionsRequest("test", "1"), TIMEOUT_MS)
    assert [row.api_key for row in answer.api_keys] == list(served_apis())
    assert {ApiKey.FETCH, ApiKey.VOTE, ApiKey.DESCRIBE_QUORUM} < set(served_apis())


@run_by(ask)
async def test_clients_are_not_served(peer: Peer, quorum: QuorumOfThree) -> None:
    with pytest.raises(NoAnswerError, match="no version of METADATA"):
        await peer.request(MetadataRequest(), TIMEOUT_MS)


@run_by(ask)
async def test_a_client_that_would_authenticate_is_told_that_there_is_no_sasl(
    peer: Peer, quorum: QuorumOfThree
) -> None:
    answer = await peer.request(SaslHandshakeRequest("PLAIN"), TIMEOUT_MS)
    assert (answer.error_code, answer.mechanisms) == (ILLEGAL_SASL_STATE, ())


@run_by(ask)
async def test_tools_are_told_of_the_voters_before_there_is_a_leader(peer: Peer, quorum: QuorumOfThree) -> None:
    answer = await peer.request(QUORUM, TIMEOUT_MS)
    assert [node.node_id for node in answer.nodes] == [1, 2, 3]
    assert [node.listeners[0].port for node in answer.nodes] == [node.address.port for node in quorum.nodes.values()]
    refused = await peer.request(DescribeQuorumRequest((DescribeQuorumTopic("other"),)), TIMEOUT_MS)
    assert refused.error_code == INVALID_REQUEST


@run_by(ask)
async def test_tools_are_told_where_the_registered_controllers_are_and_nothing_of_brokers(
    peer: Peer, quorum: QuorumOfThree
) -> None:
    await asyncio.gather(*(node.starting for node in quorum.nodes.values()))
    leader = next(node for node in quorum.nodes.values() if node.role.is_leader)
    for node_id in (2, 1):
        registration = registration_of(BrokerId(node_id), Uuid(bytes(16)), [quorum.nodes[node_id].address])
        await register_controller(registration, leader.role.submit, EventLog(SystemClock()))
    peer.move_to(leader.address)
    answer = await peer.request(DescribeClusterRequest(endpoint_type=2), TIMEOUT_MS)
    assert (answer.error_code, answer.endpoint_type, answer.cluster_id) == (0, 2, CLUSTER_ID)
    assert answer.controller_id == leader.node_id
    assert [(row.broker_id, row.port) for row in answer.brokers] == [
        (node_id, quorum.nodes[node_id].address.port) for node_id in (1, 2)
    ]
    for endpoint_type, code in ((1, MISMATCHED_ENDPOINT_TYPE), (7, UNSUPPORTED_ENDPOINT_TYPE)):
        refused = await peer.request(DescribeClusterRequest(endpoint_type=endpoint_type), TIMEOUT_MS)
        assert (refused.error_code, refused.brokers) == (code, ())


@run_by(ask)
async def test_bad_requests_get_kafkas_codes_and_change_nothing(peer: Peer, quorum: QuorumOfThree) -> None:
    epoch = quorum.nodes[1].role.leader_epoch
    assert (await peer.request(VoteRequest("another", 1), TIMEOUT_MS)).error_code == INCONSISTENT_CLUSTER_ID
    assert (await peer.request(VoteRequest(CLUSTER_ID, 1), TIMEOUT_MS)).error_code == INVALID_REQUEST
    assert (await peer.request(FetchRequest(), TIMEOUT_MS)).error_code == INVALID_REQUEST
    assert quorum.nodes[1].role.leader_epoch == epoch


def test_what_only_nodes_ask_closes_a_connection_of_clients() -> None:
    async def story(host: str, port: int) -> None:
        for key in CONTROLLER_API_VERSIONS:
            reader, writer = await asyncio.open_connection(host, port)
            version = declared_api(key).max_version
            writer.write(frame(int(key).to_bytes(2, "big"), version.to_bytes(2, "big"), bytes(4), b"\xff\xff\0"))
            assert await reader.read() == b"", key.name
            writer.close()
        peer = Peer(BrokerListener("CONTROLLER", host, port), TcpNetwork())
        with pytest.raises(NoAnswerError, match="no version of VOTE"):
            await peer.request(VoteRequest(), TIMEOUT_MS)
        peer.close()

    with Cluster() as cluster:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        asyncio.run(story(host, int(port)))


async def lone_node() -> tuple[Node, BrokerListener]:
    """Started; gives the address of its controller."""
    ports = NodePorts(SystemClock(), SeededRandom(1), MemoryDisk(), InlineWorkers(), TcpNetwork())
    settings = parse_broker_settings({"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"})
    node = Node(settings, ports)
    await node.start()
    [described] = (await node.broker.controller.describe_quorum()).nodes
    [point] = described.listeners
    return node, BrokerListener(point.name, point.host, point.port)


def test_a_node_alone_serves_a_controllers_listener_where_listeners_names_it() -> None:
    async def run() -> None:
        node, point = await lone_node()
        assert point.port != node.port
        peer = Peer(point, TcpNetwork())
        answer = await peer.request(QUORUM, TIMEOUT_MS)
        assert [state.replica_id for state in answer.topics[0].partitions[0].current_voters] == [1]
        await node.stop()
        with pytest.raises(NoAnswerError):
            await peer.request(QUORUM, TIMEOUT_MS)

    asyncio.run(run())


def test_topics_and_settings_are_administered_through_a_controller() -> None:
    def administer(port: int) -> None:
        with open_controller_admin(ClusterAccess(f"127.0.0.1:{port}", client_id="test")) as admin:
            create_topic(admin, "t", partitions=2, replication_factor=1)
            alter_configs(admin, BROKER, "1", [(SET, "log.cleaner.backoff.ms", "777")])
            described = describe_configs(admin, BROKER, ["1"])["1"]
            assert [row.value for row in described if row.name == "log.cleaner.backoff.ms"] == ["777"]
            assert admin.cluster().broker_ids() == [1]

    async def run() -> None:
        node, point = await lone_node()
        await asyncio.to_thread(administer, point.port)
        assert len(node.quorum.image.topics_by_name["t"].partitions) == 2
        await node.stop()

    asyncio.run(run())


def test_a_controller_creates_topics_as_fast_as_the_clients_quota_allows() -> None:
    def create(port: int, client_id: str, *names: str) -> tuple[list[int], int]:
        """The codes, and the throttle time in milliseconds."""
        request = CreateTopicsRequest(tuple(CreatableTopic(name, 1, 1) for name in names), TIMEOUT_MS)
        with open_controller_admin(ClusterAccess(f"127.0.0.1:{port}", client_id=client_id)) as admin:
            answer = admin.ask(request)
        return [topic.error_code for topic in answer.topics], answer.throttle_time_ms

    def administer(port: int) -> None:
        limit = AlterQuotaOperation("controller_mutation_rate", 0.01)
        limited = AlterQuotaEntry((AlterQuotaEntity("client-id", "limited"),), (limit,))
        with open_controller_admin(ClusterAccess(f"127.0.0.1:{port}", client_id="test")) as admin:
            assert admin.ask(AlterClientQuotasRequest((limited,))).entries[0].error_code == 0
        codes, throttle_time_ms = create(port, "limited", "a", "b", "c")
        assert codes == [0, THROTTLING_QUOTA_EXCEEDED, THROTTLING_QUOTA_EXCEEDED]
        assert throttle_time_ms > 0
        assert create(port, "other", "d", "e") == ([0, 0], 0)

    async def run() -> None:
        node, point = await lone_node()
        await asyncio.to_thread(administer, point.port)
        assert list(node.quorum.image.topics_by_name) == ["a", "d", "e"]
        await node.stop()

    asyncio.run(run())


@run_by(ask)
async def test_a_controller_that_is_not_active_says_so(peer: Peer, quorum: QuorumOfThree) -> None:
    await asyncio.gather(*(node.starting for node in quorum.nodes.values()))
    other = next(node for node in quorum.nodes.values() if not node.role.is_leader)
    peer.move_to(other.address)
    refused = await peer.request(CreateTopicsRequest((CreatableTopic("t", 1, 1),)), TIMEOUT_MS)
    assert [result.error_code for result in refused.topics] == [NOT_CONTROLLER]


def test_a_controller_alone_takes_brokers_and_serves_no_client() -> None:
    async def run() -> None:
        ports = NodePorts(SystemClock(), SeededRandom(1), MemoryDisk(), InlineWorkers(), TcpNetwork())
        held = held_port()
        address = f"127.0.0.1:{port_of(held)}"
        settings = parse_broker_settings(
            {
                "process.roles": "controller",
                "controller.quorum.bootstrap.servers": address,
                "listeners": f"CONTROLLER://{address}",
                "moldau.http.listener": "127.0.0.1:0",
            }
        )
        node = Node(settings, ports)
        await node.start()
        assert node.bootstrap_servers == address
        peer = Peer(BrokerListener("CONTROLLER", "127.0.0.1", port_of(held)), TcpNetwork())
        registration = BrokerRegistrationRequest(
            broker_id=2,
            cluster_id=node.quorum.image.cluster_id,
            features=REGISTERED_FEATURES,
            log_dirs=(Uuid(b"d" * 16),),
        )
        assert (await peer.request(registration, TIMEOUT_MS)).error_code == 0
        assert [*node.quorum.image.brokers] == [2]
        assert node.operations is not None
        page = (await node.operations.answer("/metrics")).body.decode()
        assert "kafka_controller_kafkacontroller_activecontrollercount 1" in page
        assert "kafka_controller_kafkacontroller_fencedbrokercount 1" in page
        assert (await node.operations.answer("/ready")).status == HTTPStatus.OK
        with pytest.raises(NoAnswerError, match="no version of METADATA"):
            await peer.request(MetadataRequest(), TIMEOUT_MS)
        await node.stop()
        with pytest.raises(NoAnswerError):
            await peer.request(QUORUM, TIMEOUT_MS)
        held.close()

    asyncio.run(run())
