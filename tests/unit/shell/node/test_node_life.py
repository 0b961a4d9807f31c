"""A node from start to stop and back: surviving data, rejected starts, and leftovers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.errors import InvariantError, MoldauError, StorageFailedError
from moldau.shell.io.clock import SystemClock
from moldau.shell.io.disk import OsDisk
from moldau.shell.io.random import SystemRandom
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.workers import ThreadWorkers
from moldau.shell.node.assemble import Node
from moldau.shell.node.ports import NodePorts
from moldau.transport.network import TcpNetwork
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.groups_classic import ListGroupsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.node import committed, offset_commit, produce, result_of

pytestmark = pytest.mark.asyncio


async def append(client: Any, value: bytes, **batch: Any) -> tuple[int, int]:
    result = result_of(await client.ask(ApiKey.PRODUCE, 9, produce(value, **batch)))
    return result.error_code, result.base_offset


async def end_offset(client: Any) -> int:
    request = FetchRequest(
        topics=(FetchTopic(topic="t", partitions=(FetchPartition(0, partition_max_bytes=1),)),), max_bytes=1
    )
    answer = await client.ask(ApiKey.FETCH, 11, request)
    return int(answer.responses[0].partitions[0].high_watermark)


async def commit(client: Any, offset: int) -> int:
    answer = await client.ask(ApiKey.OFFSET_COMMIT, 8, offset_commit(offset))
    return int(answer.topics[0].partitions[0].error_code)


async def use(node: Any) -> None:
    """One topic, three records of an idempotent producer, one committed offset."""
    await node.create_topic("t")
    client = node.connect()
    for sequence in range(3):
        assert await append(client, b"v%d" % sequence, producer_id=5, producer_epoch=0, base_sequence=sequence) == (
            0,
            sequence,
        )
    found = await client.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="g"))
    assert found.error_code == 0
    assert await commit(client, 2) == 0


async def check_all_is_there(node: Any) -> None:
    client = node.connect()
    assert await end_offset(client) == 3
    assert await committed(client) == 2
    repeated = await append(client, b"v2", producer_id=5, producer_epoch=0, base_sequence=2)
    assert repeated == (0, 2), "producer state is forgotten"
    assert (await append(client, b"v9", producer_id=5, producer_epoch=0, base_sequence=9))[0] == 45
    assert (await append(client, b"v3", producer_id=5, producer_epoch=0, base_sequence=3)) == (0, 3)
    listed = await client.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
    assert [group.group_id for group in listed.groups] == ["g"]


async def test_a_clean_stop_and_a_start_keep_everything(start_node: Any) -> None:
    disk = MemoryDisk()
    first = await start_node(disk=disk)
    await use(first)
    cluster_id = first.node.broker.image.cluster_id
    await first.node.stop()
    assert disk.exists(".kafka_cleanshutdown")
    second = await start_node(disk=disk, seed=8)
    assert second.node.broker.image.cluster_id == cluster_id
    await check_all_is_there(second)


async def test_a_killed_process_keeps_everything(start_node: Any) -> None:
    disk = MemoryDisk()
    first = await start_node(disk=disk)
    await use(first)
    first.node.abort()
    disk.crash_process()
    await check_all_is_there(await start_node(disk=disk, seed=8))


async def test_what_was_flushed_survives_the_machine(start_node: Any) -> None:
    disk = MemoryDisk()
    settings = {"log.flush.interval.messages": "1"}
    first = await start_node(settings, disk=disk)
    await use(first)
    first.node.abort()
    disk.crash_machine(SeededRandom(11))
    await check_all_is_there(await start_node(settings, disk=disk, seed=8))


async def test_producer_ids_are_never_given_twice(start_node: Any) -> None:
    disk = MemoryDisk()
    given: list[int] = []
    for seed in range(3):
        node = await start_node(disk=disk, seed=seed)
        client = node.connect()
        for _ in range(3):
            answer = await client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None))
            assert (answer.error_code, answer.producer_epoch) == (0, 0)
            given.append(answer.producer_id)
        node.node.abort()
        disk.crash_process()
    assert len(set(given)) == 9


@pytest.mark.parametrize(("key_type", "version", "code"), [(0, 3, 0), (1, 3, 0), (2, 3, 42), (7, 3, 42), (2, 6, 42)])
async def test_groups_and_transactional_ids_have_a_coordinator(
    client: Any, key_type: int, version: int, code: int
) -> None:
    request = (
        FindCoordinatorRequest(key="g", key_type=key_type)
        if version < 4
        else FindCoordinatorRequest(key_type=key_type, coordinator_keys=("g",))
    )
    answer = await client.ask(ApiKey.FIND_COORDINATOR, version, request)
    found = answer if version < 4 else answer.coordinators[0]
    assert found.error_code == code


async def test_a_deleted_topic_is_gone_after_a_restart_and_may_come_back(start_node: Any) -> None:
    disk = MemoryDisk()
    first = await start_node(disk=disk)
    await use(first)
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000)
    assert (await first.connect().ask(ApiKey.DELETE_TOPICS, 6, request)).responses[0].error_code == 0
    first.node.abort()
    disk.crash_process()
    second = await start_node(disk=disk, seed=8)
    assert (await append(second.connect(), b"x"))[0] == 3
    await second.create_topic("t")
    assert await append(second.connect(), b"x") == (0, 0)


async def test_a_log_whose_topic_is_gone_is_removed(start_node: Any) -> None:
    disk = MemoryDisk()
    first = await start_node(disk=disk)
    await use(first)
    await first.node.stop()
    disk.make_directory("stray-0")
    second = await start_node(disk=disk, seed=8)
    assert "stray-0" not in disk.list_directory("")
    await check_all_is_there(second)


async def test_finalized_features_show_only_what_is_served(client: Any) -> None:
    answer = await client.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("test", "1"))
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    names = list(levels)
    assert levels["kraft.version"] == 1  # its voters are in the log
    assert "metadata.version" in names
    assert "transaction.version" in names
    assert not {"group.version", "share.version", "streams.version"} & set(names)
    assert len(answer.api_keys) == len(API_VERSIONS)
    assert next(row.min_version for row in answer.api_keys if row.api_key == 0) == 0


async def test_another_nodes_directory_is_refused(start_node: Any) -> None:
    disk = MemoryDisk()
    first = await start_node(disk=disk)
    await first.node.stop()
    with pytest.raises(MoldauError, match="node 1"):
        await start_node({"node.id": "2"}, disk=disk)


async def test_a_failed_disk_at_the_start_is_told_and_leaves_nothing(start_node: Any) -> None:
    disk = MemoryDisk()
    disk.fail(Fault("write", "io"))
    disk.fail(Fault("append", "io"))
    with pytest.raises(MoldauError):
        await start_node(disk=disk)
    assert len(asyncio.all_tasks()) == 1


async def test_a_broken_invariant_stops_the_node(node: Any, client: Any) -> None:

    async def break_something() -> None:
        raise InvariantError("offsets out of order")

    node.node.broker.spawn(break_something())
    await node.turns(3)
    assert isinstance(node.node.failure, InvariantError)
    assert node.node.stopped.is_set()
    assert client.wire.is_closed


async def test_a_node_that_fails_while_it_stops_leaves_no_mark_of_a_clean_stop(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 2)
    disks[0].fail(Fault("flush", "io", "__cluster_metadata-0"))  # the first flush is that of the final records
    await node.node.stop()
    assert isinstance(node.node.failure, StorageFailedError)
    assert node.node.stopped.is_set()
    assert [disk.exists(".kafka_cleanshutdown") for disk in disks] == [False, False]


async def test_a_clean_stop_goes_on_where_the_metadata_log_finds_no_room(
    start_node: Any, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await use(node)
    end_offset = node.node.quorum.log.log_end_offset
    for last_offset in range(end_offset, end_offset + 5):  # the stop appends a few: the producers at its end
        disk.fail(Fault("write", "full", f"__cluster_metadata-0/{last_offset:020}.snapshot"))
    await node.node.stop()
    assert node.node.stopped.is_set()
    assert disk.exists(".kafka_cleanshutdown")
    assert "the metadata log is not closed cleanly" in caplog.text
    disk.heal()
    await check_all_is_there(await start_node(disk=disk, seed=8))


async def test_invariants_hold_while_it_is_used(node: Any) -> None:
    await use(node)
    node.node.broker.check()


# -- on real sockets and a real directory


def real_ports(path: Path, workers: ThreadWorkers) -> NodePorts:
    return NodePorts(SystemClock(), SystemRandom(), OsDisk(str(path)), workers, TcpNetwork())


def real_settings(port: int = 0) -> Any:
    return parse_broker_settings({"listeners": f"PLAINTEXT://127.0.0.1:{port}"})


async def test_a_node_serves_on_a_real_socket_and_stops(tmp_path: Path) -> None:
    workers = ThreadWorkers()
    node = Node(real_settings(), real_ports(tmp_path, workers))
    await node.start()
    host, _, port = node.bootstrap_servers.rpartition(":")
    assert node.port == int(port) > 0
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(frame(b"\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff"))
    assert (await reader.readexactly(10))[4:8] == b"\x00\x00\x00\x07"
    await node.stop()
    assert await reader.read() is not None
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
    workers.close()


async def test_a_directory_in_use_is_refused_and_free_again_after_the_stop(tmp_path: Path) -> None:
    workers = ThreadWorkers()
    first = Node(real_settings(), real_ports(tmp_path, workers))
    await first.start()
    with pytest.raises(MoldauError, match="in use"):
        await Node(real_settings(), real_ports(tmp_path, workers)).start()
    await first.stop()
    second = Node(real_settings(), real_ports(tmp_path, workers))
    await second.start()
    await second.stop()
    workers.close()


async def test_a_taken_port_is_refused_before_any_file_is_made(tmp_path: Path) -> None:
    workers = ThreadWorkers()
    first = Node(real_settings(), real_ports(tmp_path / "first", workers))
    await first.start()
    second = Node(real_settings(first.port), real_ports(tmp_path / "second", workers))
    with pytest.raises(OSError, match=f"port {first.port} on 127.0.0.1 is taken"):
        await second.start()
    assert sorted(path.name for path in (tmp_path / "second").iterdir()) == []
    await first.stop()
    workers.close()


async def test_topics_are_listed_by_name(node: Any) -> None:
    for name in ("b", "a", "c"):
        await node.create_topic(name)
    answer = await node.connect().ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))
    assert [topic.name for topic in answer.topics] == ["a", "b", "c"]
