"""A broker reaches the active controller on any node, for itself and for its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from moldau.core.controller.requests import MeteredRequest
from moldau.core.controller.sessions import RESET_GRACE_MS
from moldau.core.controller.topic_names import CLUSTER_METADATA_TOPIC
from moldau.core.metadata.features import REGISTERED_FEATURES
from moldau.core.quotas.usage import MutationQuota
from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.broker.cluster.controller_channel import MAX_WAITING, NOT_CONTROLLER, ControllerChannel
from moldau.shell.network.first_step import begun
from moldau.shell.network.rights import CLUSTER_ACTION
from moldau.shell.network.session import Session
from moldau.shell.peers.peer import Peer
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.ports import SimulatedClock
from moldau.simulation.trace import Trace
from moldau.types import Uuid
from moldau.wire.protocol.envelopes import decode_enclosed_answer, decode_principal, encode_enclosed, encode_principal
from moldau.wire.protocol.headers import RequestHeader, encode_request_header
from moldau.wire.protocol.messages.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from moldau.wire.protocol.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    RegisteredListener,
)
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
)
from moldau.wire.protocol.messages.cluster import DescribeQuorumPartition, DescribeQuorumRequest, DescribeQuorumTopic
from moldau.wire.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from moldau.wire.protocol.messages.envelope import EnvelopeRequest
from moldau.wire.protocol.messages.in_sync_replicas import AlterPartitionRequest
from moldau.wire.protocol.messages.partitions import ListPartitionReassignmentsRequest
from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsRequest
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.quorum_of_three import CLUSTER_ID, QuorumNode, QuorumOfThree
from tests.support.stories import run_by
from tests.support.virtual_time import until

MINUTE_MS = 60_000
TOPIC_AUTHORIZATION_FAILED = ERROR_CODES["TOPIC_AUTHORIZATION_FAILED"]


class ClientOfATest(msgspec.Struct, frozen=True):
    session: Session = Session("User:ada", "10.0.0.7", "PLAINTEXT")
    client_id: str = "loader"

    def hand_on(self) -> None:
        """Nothing to do: its audit log does not concern the channel."""


class World:
    """Three nodes of a quorum, and a channel of each."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.network = SimulatedNetwork(loop, 1, Trace(loop.time))
        self.quorum = QuorumOfThree(
            SimulatedClock(loop),
            lambda node_id: HostNetwork(self.network, f"node-{node_id}"),
            lambda node_id: (f"node-{node_id}", 9093),
        )

    async def start(self) -> None:
        await self.quorum.start()
        await asyncio.gather(*(node.starting for node in self.quorum.nodes.values()))

    async def leader(self, *but: QuorumNode) -> QuorumNode:
        await until(lambda: any(node not in but for node in self.quorum.leaders()))
        return next(node for node in self.quorum.leaders() if node not in but)

    async def a_follower(self) -> QuorumNode:
        leader = await self.leader()
        return next(node for node in self.quorum.nodes.values() if node is not leader)

    def channel(self, node: QuorumNode, timeout_ms: int = MINUTE_MS) -> ControllerChannel:
        return ControllerChannel(node.role, HostNetwork(self.network, f"node-{node.node_id}"), timeout_ms)

    async def ask_directly(self, node: QuorumNode, request: Any) -> Any:
        peer = Peer(node.address, HostNetwork(self.network, "a stranger"))
        try:
            return await peer.request(request, MINUTE_MS)
        finally:
            peer.close()


def tell(story: Callable[[World], Awaitable[None]]) -> None:
    """Runs `story` in virtual time with three nodes of one quorum."""
    loop = VirtualLoop()

    async def run() -> None:
        world = World(loop)
        await world.start()
        await story(world)

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


def registration(broker_id: int, cluster_id: str = CLUSTER_ID) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id,
        cluster_id,
        Uuid(bytes([broker_id]) * 16),
        (RegisteredListener("PLAINTEXT", "h", 9092),),
        REGISTERED_FEATURES,
        log_dirs=(Uuid(bytes([0xD0, broker_id]) * 8),),
    )


async def serve(channel: ControllerChannel, broker_id: int) -> int:
    """Registers the broker; gives its epoch."""
    epoch: int = (await channel.submit(registration(broker_id))).broker_epoch
    assert not (await channel.submit(BrokerHeartbeatRequest(broker_id, epoch, epoch))).is_fenced
    return epoch


def topics(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(tuple(CreatableTopic(name, 1, 1) for name in names), 1_000)


@run_by(tell)
async def test_whoever_leads_answers_the_brokers_of_all_nodes(world: World) -> None:
    leader = await world.leader()
    for node in world.quorum.nodes.values():
        channel = world.channel(node)
        epoch = await serve(channel, node.node_id)
        block = await channel.submit(AllocateProducerIdsRequest(node.node_id, epoch))
        assert block.producer_id_len == 1_000
        answer = await channel.submit(AlterPartitionRequest(node.node_id, epoch))
        assert answer.topics == ()
        channel.close()
    assert sorted(leader.role.image.brokers) == [1, 2, 3]


@run_by(tell)
async def test_what_a_client_asks_a_follower_the_leader_decides(world: World) -> None:
    follower = await world.a_follower()
    channel = world.channel(follower)
    await serve(channel, follower.node_id)
    for _ in range(2):
        answer = await channel.submit(topics("a", "b"), ClientOfATest())
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("a", 36), ("b", 36)]
    assert list((await world.leader()).role.image.topics_by_name) == ["a", "b"]


@run_by(tell)
async def test_a_request_waits_for_the_next_leader(world: World) -> None:
    first = await world.leader()
    follower = await world.a_follower()
    channel = world.channel(follower)
    await serve(channel, follower.node_id)
    first.die()
    answer = await channel.submit(topics("a"))
    assert [topic.error_code for topic in answer.topics] == [0]
    second = await world.leader(first)
    assert list(second.role.image.topics_by_name) == ["a"]


@run_by(tell)
async def test_a_request_that_no_controller_answers_in_time_is_refused(world: World) -> None:
    one, *others = world.quorum.nodes.values()
    for other in others:
        other.die()
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(KafkaError) as caught:
        await world.channel(one, 5_000).submit(topics("a"))
    assert caught.value.code == 7
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(5)


@run_by(tell)
async def test_a_request_may_begin_where_no_task_runs_as_the_first_step_of_a_handler_does(world: World) -> None:
    follower = await world.a_follower()
    channel = world.channel(follower)
    await serve(channel, follower.node_id)
    loop = asyncio.get_running_loop()
    begun_outside: asyncio.Future[Any] = loop.create_future()

    def take_first_step() -> None:
        try:
            begun_outside.set_result(begun(channel.submit(topics("a"))))
        except RuntimeError as error:
            begun_outside.set_exception(error)

    loop.call_soon(take_first_step)
    answer = await (await begun_outside)
    assert [topic.error_code for topic in answer.topics] == [0]


GRACE_S = RESET_GRACE_MS / 1_000
"""A channel that closes resets its connection."""


async def served_by(world: World, broker: QuorumNode) -> tuple[ControllerChannel, Callable[[], bool]]:
    """A broker that another node's controller serves; and whether it is fenced."""
    channel = world.channel(broker)
    await serve(channel, broker.node_id)
    leader = await world.leader()
    return channel, lambda: leader.role.image.brokers[broker.node_id].is_fenced


@run_by(tell)
async def test_a_broker_whose_connection_ends_and_that_is_not_heard_of_soon_is_fenced(world: World) -> None:
    channel, is_fenced = await served_by(world, await world.a_follower())
    channel.close()
    await asyncio.sleep(GRACE_S + 0.4)
    assert not is_fenced()
    await asyncio.sleep(0.3)
    assert is_fenced()


@run_by(tell)
async def test_a_broker_that_comes_back_on_another_connection_is_not_fenced(world: World) -> None:
    follower = await world.a_follower()
    channel, is_fenced = await served_by(world, follower)
    again = world.channel(follower)
    epoch = follower.role.image.brokers[follower.node_id].epoch
    await again.submit(BrokerHeartbeatRequest(follower.node_id, epoch, epoch))
    channel.close()
    await asyncio.sleep(GRACE_S + 1)
    assert not is_fenced()
    again.close()
    await asyncio.sleep(GRACE_S + 1)
    assert is_fenced()


@run_by(tell)
async def test_whoever_asks_is_told_when_the_connection_ends_and_when_another_node_leads(world: World) -> None:
    lost: list[float] = []
    leader, follower = await world.leader(), await world.a_follower()
    channel, _ = await served_by(world, follower)
    channel.when_lost(lambda: lost.append(asyncio.get_running_loop().time()))
    leader.die()
    await world.leader(leader)
    await channel.submit(topics("a"))
    assert len(lost) >= 2


@run_by(tell)
async def test_a_request_to_a_frozen_controller_is_sent_to_the_next_leader(world: World) -> None:
    leader, follower = await world.leader(), await world.a_follower()
    channel = world.channel(follower)
    await serve(channel, follower.node_id)
    began_s = asyncio.get_running_loop().time()
    for other in world.quorum.nodes:
        world.network.cut(f"node-{leader.node_id}", f"node-{other}", 120)
        world.network.cut(f"node-{other}", f"node-{leader.node_id}", 120)
    answer = await channel.submit(topics("a"))
    assert [topic.error_code for topic in answer.topics] == [0]
    assert asyncio.get_running_loop().time() - began_s < 10


@run_by(tell)
async def test_what_waits_is_bounded(world: World) -> None:
    channel = world.channel(await world.a_follower())
    asked = (channel.submit(topics("a")) for _ in range(MAX_WAITING + 1))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    is_refused = [isinstance(answer, KafkaError) and answer.code == 7 for answer in answers]
    assert is_refused == [False] * MAX_WAITING + [True]


@run_by(tell)
async def test_a_refusal_of_the_whole_is_the_same_error_near_and_far(world: World) -> None:
    for node in world.quorum.nodes.values():
        for request, code in (
            (registration(9, "another cluster"), 104),
            (BrokerHeartbeatRequest(9, 1), 102),
            (AlterPartitionRequest(9, 1), 77),
            (AllocateProducerIdsRequest(9, 1), 77),
        ):
            with pytest.raises(KafkaError) as caught:
                await world.channel(node).submit(request)
            assert caught.value.code == code


@run_by(tell)
async def test_a_forwarded_request_is_held_to_the_quota_of_its_client_by_the_controller(world: World) -> None:
    follower = await world.a_follower()
    channel = world.channel(follower)
    await serve(channel, follower.node_id)
    limited = AlterQuotaEntry(
        (AlterQuotaEntity("user", "ada"),), (AlterQuotaOperation("controller_mutation_rate", 0.01),)
    )
    await channel.submit(AlterClientQuotasRequest((limited,)))
    own = MutationQuota(("", "ada"), 0.01, is_strict=True)
    many = CreateTopicsRequest(tuple(CreatableTopic(name, 1, 1) for name in "abcd"), 1_000)
    answer = await channel.submit(MeteredRequest(many, own), ClientOfATest())
    assert 89 in [topic.error_code for topic in answer.topics]
    other = await channel.submit(topics("x", "y", "z"), ClientOfATest(Session("User:bob", "10.0.0.8", "PLAINTEXT")))
    assert [topic.error_code for topic in other.topics] == [0, 0, 0]


class Asked:
    """An authorizer that denies everything to User:ada, and records user, address and resource of each question."""

    def __init__(self) -> None:
        self.clients: dict[tuple[str, str], set[int]] = {}

    def authorize(self, principal: str, host: str, operation: int, resource_type: int, name: str | bytes) -> bool:
        self.clients.setdefault((principal, host), set()).add(operation)
        return principal != "User:ada"

    def authorize_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        return self.authorize(principal, host, operation, resource_type, "")


@run_by(tell)
async def test_the_controller_authorizes_the_client_of_a_forwarded_request(world: World) -> None:
    leader, follower = await world.leader(), await world.a_follower()
    channel = world.channel(follower)
    await serve(channel, follower.node_id)
    leader.dispatcher.authorizer = asked = Asked()
    answer = await channel.submit(topics("a"), ClientOfATest())
    assert [topic.error_code for topic in answer.topics] == [TOPIC_AUTHORIZATION_FAILED]
    other = ClientOfATest(Session("User:bob", "10.0.0.8", "PLAINTEXT"))
    assert [topic.error_code for topic in (await channel.submit(topics("b"), other)).topics] == [0]
    assert ("User:ada", "10.0.0.7") in asked.clients
    assert ("User:bob", "10.0.0.8") in asked.clients
    assert asked.clients["User:ANONYMOUS", f"node-{follower.node_id}"] == {CLUSTER_ACTION.operation}


@run_by(tell)
async def test_an_undecided_forwarded_request_is_repeated_at_the_next_leader(world: World) -> None:
    leader, follower = await world.leader(), await world.a_follower()
    await serve(world.channel(follower), follower.node_id)
    answering = asyncio.ensure_future(world.ask_directly(leader, enveloped()))
    for other in world.quorum.nodes:
        world.network.cut(f"node-{leader.node_id}", f"node-{other}", 120)
    assert (await answering).error_code == NOT_CONTROLLER


def enveloped(**changes: Any) -> EnvelopeRequest:
    request = EnvelopeRequest(encode_enclosed(topics("a"), "c"), encode_principal("User:ada"), bytes(4))
    return msgspec.structs.replace(request, **changes)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"request_data": b""}, 42),
        ({"request_data": encode_request_header(RequestHeader(19, 7, 1, "c")) + b"\xff\xff\xff\xff\xff\xff"}, 42),
        ({"request_data": encode_request_header(RequestHeader(3, 12, 1, "c"))}, 42),
        ({"request_data": encode_request_header(RequestHeader(19, 99, 1, "c"))}, 35),
        ({"request_principal": b"\x00"}, 97),
        ({"request_principal": b"\x00\x09junk"}, 97),
        ({"request_principal": None}, 97),
        ({"client_host_address": bytes(5)}, 42),
    ],
)
@run_by(tell)
async def test_an_envelope_with_nonsense_in_it_is_refused(world: World, *, changes: dict[str, Any], code: int) -> None:
    answer = await world.ask_directly(await world.leader(), enveloped(**changes))
    assert (answer.error_code, answer.response_data) == (code, None)


@run_by(tell)
async def test_what_only_brokers_of_apache_kafka_hand_on_is_answered_too(world: World) -> None:
    """kafka-metadata-quorum and kafka-acls with a broker of Apache Kafka in a cluster that Moldau leads."""
    leader = await world.leader()

    async def answer_to(message: Any) -> Any:
        enclosed = encode_enclosed(message, "a tool")
        answer = await world.ask_directly(leader, enveloped(request_data=enclosed))
        assert answer.error_code == 0
        return decode_enclosed_answer(message, answer.response_data)

    asked = DescribeQuorumTopic(CLUSTER_METADATA_TOPIC, (DescribeQuorumPartition(0),))
    quorum = await answer_to(DescribeQuorumRequest((asked,)))
    assert quorum.topics[0].partitions[0].leader_id == leader.node_id
    acl = AclCreation(2, "orders", 3, "User:ada", "*", 3, 3)
    created = await answer_to(CreateAclsRequest((acl, acl)))
    assert [row.error_code for row in created.results] == [54, 54]
    deleted = await answer_to(DeleteAclsRequest((DeleteAclsFilter(2, "orders", 3, None, None, 1, 1),)))
    assert [row.error_code for row in deleted.filter_results] == [54]


@run_by(tell)
async def test_a_controller_gives_a_session_by_a_token_no_tokens(world: World) -> None:
    """The principal in the envelope carries the way of the client's login; the controller ignores the broker's check
    (KIP-48)."""
    leader, codes = await world.leader(), []
    for is_by_token in (True, False):
        principal = encode_principal("User:ada", is_by_token=is_by_token)
        assert decode_principal(principal) == ("User:ada", is_by_token)
        for message in (
            CreateDelegationTokenRequest(None, None),
            RenewDelegationTokenRequest(b"x"),
            ExpireDelegationTokenRequest(b"x", -1),
        ):
            enclosed = encode_enclosed(message, "c")
            envelope = enveloped(request_data=enclosed, request_principal=principal)
            answer = await world.ask_directly(leader, envelope)
            codes.append(decode_enclosed_answer(message, answer.response_data).error_code)
    assert codes == [64, 64, 64, 61, 61, 61]


@run_by(tell)
async def test_a_node_that_does_not_lead_says_so_to_brokers_and_their_clients(world: World) -> None:
    follower = await world.a_follower()
    quorum = DescribeQuorumTopic(CLUSTER_METADATA_TOPIC, (DescribeQuorumPartition(0),))
    for request in (
        enveloped(),
        enveloped(request_data=encode_enclosed(DescribeQuorumRequest((quorum,)), "c")),
        enveloped(request_data=encode_enclosed(ListPartitionReassignmentsRequest(), "c")),
        registration(9),
        BrokerHeartbeatRequest(9, 1),
        AlterPartitionRequest(9, 1),
        AllocateProducerIdsRequest(9, 1),
    ):
        assert (await world.ask_directly(follower, request)).error_code == 41


@run_by(tell)
async def test_the_answer_to_an_envelope_is_that_of_the_enclosed_request(world: World) -> None:
    asked = ListPartitionReassignmentsRequest()
    enclosed = encode_enclosed(asked, "c")
    answer = await world.ask_directly(await world.leader(), enveloped(request_data=enclosed))
    assert decode_enclosed_answer(asked, answer.response_data or b"").topics == ()  # type: ignore[attr-defined]
