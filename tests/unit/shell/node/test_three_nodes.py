"""Three whole nodes are one cluster: they know each other, and each may die, stop and return."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.core.metadata.image import BrokerListener, ControllerImage, ResourceType
from moldau.errors import ERROR_CODES
from moldau.shell.broker.cluster.other_brokers import FOUND_ITSELF_S
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.node.storage_format import format_directory
from moldau.shell.peers.outages import OUTAGE_S
from moldau.shell.peers.peer import Peer
from moldau.shell.quorum.quorum_state import QuorumError
from moldau.simulation.host_network import HostNetwork
from moldau.types import BrokerId
from moldau.wire.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.stories import run_by
from tests.support.three_nodes import NODE_IDS, Cluster, tell
from tests.support.virtual_time import PATIENCE_S

HEARTBEAT_S = 2
"""`broker.heartbeat.interval.ms`"""


def active(cluster: Cluster, node_id: int) -> list[int]:
    return [one.broker_id for one in cluster.nodes[node_id].broker.image.brokers.values() if one.is_active]


@run_by(tell)
async def test_every_broker_registers_and_knows_all_others(cluster: Cluster) -> None:
    for node_id in NODE_IDS:
        await cluster.until(lambda node_id=node_id: sorted(active(cluster, node_id)) == [1, 2, 3])


def test_nodes_that_name_no_host_are_registered_under_the_names_of_their_machines() -> None:
    async def story(cluster: Cluster) -> None:
        for asked in NODE_IDS:
            await cluster.until(lambda asked=asked: sorted(active(cluster, asked)) == [1, 2, 3])
            image = cluster.nodes[asked].broker.image
            hosts = [(one.listeners[0].host, one.listeners[0].port) for _, one in sorted(image.brokers.items())]
            assert hosts == [("node-1", 9092), ("node-2", 9092), ("node-3", 9092)]
            assert cluster.nodes[asked].bootstrap_servers == f"node-{asked}:9092"
            await cluster.until(lambda image=image: len(image.controllers) == 3)
            assert {one.listeners[0].host for one in image.controllers.values()} == {"node-1", "node-2", "node-3"}
        await cluster.create_known("t", 1, 2, 3, by=1)

    nowhere = {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}
    tell(story, dict.fromkeys(NODE_IDS, nowhere))


@run_by(tell, {2: {"listeners": "PLAINTEXT://node-2:9092,CONTROLLER://0.0.0.0:9093"}}, machine="container")
async def test_a_controller_without_a_host_has_the_one_in_the_voters(cluster: Cluster) -> None:
    controllers = cluster.nodes[1].quorum.image.controllers
    await cluster.until(lambda: len(controllers) == 3)
    assert [one.listeners[0].host for _, one in sorted(controllers.items())] == ["node-1", "node-2", "node-3"]


def test_a_follower_that_reaches_itself_at_the_leaders_address_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 2, 1, by=1)
        await cluster.until(lambda: "broker 1 fetches from itself" in caplog.text)
        await cluster.pass_time(FOUND_ITSELF_S / 2)

    tell(story, {2: {"advertised.listeners": "PLAINTEXT://node-1:9092"}})
    said = [one.getMessage() for one in caplog.records if "fetches from itself" in one.getMessage()]
    assert said == [
        "broker 1 fetches from itself and copies nothing: broker 2 is registered at node-1:9092, which leads to broker "
        "1. Set advertised.listeners of each broker to an address at which the others reach it"
    ]


def test_a_node_that_is_not_reached_is_named_once_and_once_more_when_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.kill(3)
        await cluster.until(lambda: "controller 3 at node-3:9093 is not reached for 10 s" in caplog.text)
        await cluster.pass_time(6 * OUTAGE_S)
        await cluster.start(3)
        await cluster.until(lambda: "controller 3 at node-3:9093 answers again" in caplog.text)

    caplog.set_level(logging.INFO, "moldau.network")
    tell(story)
    said = [one.getMessage() for one in caplog.records if "controller 3 at" in one.getMessage()]
    assert len(said) == 2, said


@run_by(tell)
async def test_every_controller_is_known_with_its_address_and_again_in_its_next_life(cluster: Cluster) -> None:
    def controllers(asked: int) -> dict[int, ControllerImage]:
        return cluster.nodes[asked].quorum.image.controllers

    def hosts(asked: int) -> list[str]:
        return [known.listeners[0].host for _, known in sorted(controllers(asked).items())]

    for node_id in NODE_IDS:
        await cluster.until(lambda node_id=node_id: hosts(node_id) == ["node-1", "node-2", "node-3"])
    for victim, other in ((1, 2), (2, 3), (3, 1)):
        before = controllers(other)[victim].incarnation_id
        cluster.kill(victim)
        await cluster.start(victim)
        await cluster.until(lambda: controllers(other)[victim].incarnation_id != before)  # noqa: B023


@run_by(tell)
async def test_a_topic_that_any_broker_is_asked_for_is_known_to_all(cluster: Cluster) -> None:
    for node_id in NODE_IDS:
        await cluster.create(f"t{node_id}", 1, 2, 3, by=node_id)
        await cluster.all_know(f"t{node_id}", 1, 1, 2, 3)


@pytest.mark.parametrize("victim", NODE_IDS)
@run_by(tell)
async def test_a_broker_that_dies_is_fenced_soon_and_comes_back_into_the_replicas_in_sync(
    cluster: Cluster, *, victim: int
) -> None:
    successor, third = (node_id for node_id in NODE_IDS if node_id != victim)
    await cluster.create("t", victim, successor, third, by=third)
    await cluster.all_know("t", victim, 1, 2, 3)
    most_s = 1.5 if await cluster.leads_quorum(victim) else 0.8
    cluster.kill(victim)
    died_s = cluster.loop.time()
    await cluster.all_know("t", successor, successor, third)
    assert cluster.loop.time() - died_s < most_s
    await cluster.start(victim)
    await cluster.all_know("t", successor, 1, 2, 3)


@run_by(tell)
async def test_one_node_says_that_its_controller_is_active_and_all_say_who_leads(cluster: Cluster) -> None:
    pages = [await cluster.metrics(node_id) for node_id in NODE_IDS]
    active = [page["kafka_controller_kafkacontroller_activecontrollercount"] for page in pages]
    assert sorted(active) == [0, 0, 1]
    assert {page["kafka_server_raftmetrics_current_leader"] for page in pages} == {1 + active.index(1)}
    assert [page["kafka_server_raftmetrics_number_of_voters"] for page in pages] == [3, 3, 3]
    states = [page.get('kafka_server_raftmetrics_current_state{current_state="leader"}', 0) for page in pages]
    assert states == active


@run_by(tell)
async def test_a_leader_counts_who_comes_back_into_the_replicas_in_sync(cluster: Cluster) -> None:
    under, expands = "underreplicatedpartitions", "isrexpands_total"
    await cluster.create_known("t", 1, 2, 3, by=1)
    cluster.kill(3)
    await cluster.all_know("t", 1, 1, 2)
    assert (await cluster.metrics(1))[f"kafka_server_replicamanager_{under}"] == 1
    assert (await cluster.metrics(1))[f"kafka_server_replicamanager_{expands}"] == 0
    await cluster.start(3)
    await cluster.all_know("t", 1, 1, 2, 3)
    assert (await cluster.metrics(1))[f"kafka_server_replicamanager_{under}"] == 0
    assert (await cluster.metrics(1))[f"kafka_server_replicamanager_{expands}"] == 1


@run_by(tell)
async def test_fetches_of_followers_and_of_consumers_are_counted_apart(cluster: Cluster) -> None:
    await cluster.create_known("t", 1, 2, 3, by=1)
    topic_id = cluster.nodes[1].broker.image.topic_id("t")
    partitions = (FetchPartition(0, fetch_offset=0, partition_max_bytes=1),)

    async def counts(name: str) -> dict[str, float]:
        page = await cluster.metrics(1)
        kinds = "Fetch", "FetchConsumer", "FetchFollower"
        return {
            kind: sum(value for key, value in page.items() if key.startswith(f'{name}{{request="{kind}"'))
            for kind in kinds
        }

    requests, times = "kafka_network_requestmetrics_requests_total", "kafka_network_requestmetrics_totaltimems"
    before = await counts(requests)
    assert before["FetchConsumer"] == 0 < before["FetchFollower"] == before["Fetch"]
    peer = Peer(BrokerListener("PLAINTEXT", "node-1", 9092), HostNetwork(cluster.network, "client"))
    await peer.request(FetchRequest(topics=(FetchTopic(topic_id=topic_id, partitions=partitions),)), 30_000)
    peer.close()
    after = await counts(requests)
    assert after["FetchConsumer"] == 1
    assert after["FetchConsumer"] + after["FetchFollower"] == after["Fetch"]
    # a follower waits half a second for records, and only then is its fetch timed
    await cluster.pass_time(1)
    assert (await counts(times))["FetchFollower"] > 0


@run_by(tell)
async def test_a_broker_that_comes_back_at_once_does_not_lead_what_it_led_before_its_death(cluster: Cluster) -> None:
    """A loss of power may have taken records that the others have: it would append different ones in its old epoch."""
    await cluster.create_known("t", 1, 2, 3, by=1)
    epochs: list[int] = []
    cluster.kill(1)
    starting = asyncio.ensure_future(cluster.start(1))
    while not starting.done():
        await cluster.pass_time(0.001)
        epochs += cluster.epochs_led_by(1)
    assert 0 not in epochs
    await cluster.all_know("t", 2, 1, 2, 3)


@pytest.mark.parametrize("leaver", NODE_IDS)
@run_by(tell)
async def test_a_broker_that_stops_hands_over_what_it_leads_first(cluster: Cluster, *, leaver: int) -> None:
    successor, third = (node_id for node_id in NODE_IDS if node_id != leaver)
    await cluster.create("t", leaver, successor, third, by=third)
    await cluster.all_know("t", leaver, 1, 2, 3)
    began_s = cluster.loop.time()
    await cluster.stop(leaver)
    await cluster.all_know("t", successor, successor, third)
    assert cluster.loop.time() - began_s < 5
    await cluster.start(leaver)
    await cluster.all_know("t", successor, 1, 2, 3)


@run_by(tell)
async def test_the_broker_of_the_active_controller_answers_before_logs_are_created(cluster: Cluster) -> None:
    """Like all others: 2,000 logs take a second."""
    [broker] = (cluster.nodes[node_id].broker for node_id in NODE_IDS if cluster.nodes[node_id].quorum.is_leader)
    request = CreateTopicsRequest((CreatableTopic("many", 300, 3),), 10_000)
    [result] = (await broker.submit(request)).topics
    assert result.error_code == 0
    assert len(list(broker.partitions)) < 300
    await cluster.until(lambda: len(list(broker.partitions)) == 300)


@run_by(tell)
async def test_a_cordoned_broker_takes_no_new_replica_until_it_is_uncordoned(cluster: Cluster) -> None:
    """KIP-1066. The controller knows at once: no other heartbeat was due."""

    def is_known(count: int) -> bool:
        images = [cluster.nodes[node_id].broker.image for node_id in NODE_IDS]
        return all(len(image.brokers[3].cordoned_log_directories or ()) == count for image in images)

    async def cordon(directories: str | None, count: int) -> None:
        operation, began_s = (1, cluster.loop.time()) if directories is None else (0, cluster.loop.time())
        change = IncrementalAlterableConfig("cordoned.log.dirs", operation, directories)
        resource = IncrementalAlterConfigsResource(ResourceType.BROKER, "3", (change,))
        answer = await cluster.nodes[1].broker.submit(IncrementalAlterConfigsRequest((resource,)))
        assert [result.error_code for result in answer.responses] == [0]
        await cluster.until(lambda: is_known(count))
        assert cluster.loop.time() - began_s < HEARTBEAT_S / 4

    async def replicas_of(name: str, factor: int) -> list[tuple[int, ...]] | int:
        request = CreateTopicsRequest((CreatableTopic(name, 6, factor),), 10_000)
        [result] = (await cluster.nodes[2].broker.submit(request)).topics
        if result.error_code:
            return result.error_code
        await cluster.until(lambda: name in cluster.nodes[2].broker.image.topics_by_name)
        topic = cluster.nodes[2].broker.image.topics_by_name[name]
        return [partition.replicas for partition in topic.partitions.values()]

    await cordon("*", 1)
    placed = await replicas_of("two", 2)
    assert isinstance(placed, list)
    assert [sorted(replicas) for replicas in placed] == [[1, 2]] * 6
    assert await replicas_of("three", 3) == ERROR_CODES["INVALID_REPLICATION_FACTOR"]
    cluster.kill(3)
    await cluster.start(3)
    await cluster.until(lambda: is_known(1))
    await cordon(None, 0)
    placed = await replicas_of("three", 3)
    assert isinstance(placed, list)
    assert [sorted(replicas) for replicas in placed] == [[1, 2, 3]] * 6


@run_by(tell)
async def test_a_broker_rejects_what_its_file_forbids_before_the_controller(cluster: Cluster) -> None:
    """The controller does not know which directories another broker has."""
    for node_id in NODE_IDS:
        change = IncrementalAlterableConfig("cordoned.log.dirs", 0, "/nowhere")
        resource = IncrementalAlterConfigsResource(ResourceType.BROKER, str(node_id), (change,))
        whole = AlterConfigsResource(
            ResourceType.BROKER, str(node_id), (AlterableConfig("cordoned.log.dirs", "/nowhere"),)
        )
        peer = Peer(BrokerListener("PLAINTEXT", f"node-{node_id}", 9092), HostNetwork(cluster.network, "client"))
        for request in (IncrementalAlterConfigsRequest((resource,)), AlterConfigsRequest((whole,))):
            [result] = (await peer.request(request, 30_000)).responses
            assert (result.error_code, result.error_message) == (
                ERROR_CODES["INVALID_REQUEST"],
                "cordoned.log.dirs: /nowhere is not in log.dirs",
            )
        peer.close()


@run_by(tell)
async def test_a_node_whose_directory_is_of_another_cluster_ends_its_start_and_says_so(cluster: Cluster) -> None:
    cluster.kill(3)
    disk = cluster.disks[3] = MemoryDisk()
    format_directory(
        disk,
        SeededRandom(99),
        now_ms=cluster.clock.now_ms(),
        node_id=BrokerId(3),
        controller_listener=BrokerListener("CONTROLLER", "", 0),
        initial_controllers=(),
    )
    with pytest.raises(
        QuorumError, match=r"^the directory of node 3 belongs to cluster .{22}, but the nodes of its quorum at "
        r"node-[12]:\d+, node-[12]:\d+ belong to another cluster$",
    ):  # fmt: skip
        async with asyncio.timeout(PATIENCE_S):
            await cluster.start(3)
    # the other nodes contact it too, and are not affected; one that starts meanwhile joins its own cluster
    cluster.kill(2)
    await cluster.start(2)
    await cluster.until(lambda: sorted(active(cluster, 2)) == [1, 2])
