"""A directory that `kafka-storage format` of Apache Kafka 4.4 has made: the checkpoint of the first voters has the
cluster's first records (KIP-1170), and `bootstrap.checkpoint` does not exist."""

from __future__ import annotations

import base64

import pytest

from moldau.core.metadata.snapshot import BOOTSTRAP_CHECKPOINT, QuorumControl, Snapshot, encode_snapshot
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.node.storage_format import META_PROPERTIES
from moldau.shell.quorum.metadata_log import FORMATTED_CHECKPOINT, load_bootstrap_records, load_snapshot
from moldau.shell.quorum.quorum_state import QuorumError
from moldau.wire.protocol.messages.metadata_records import FeatureLevelRecord
from tests.support.quorum import Node, codes, create, stop

# written by Apache Kafka 4.4.0: kafka.tools.StorageTool format --standalone -t <cluster id> -c <node.id=1>
OF_KAFKA = base64.b64decode(
    "AAAAAAAAAAAAAACaAAAAAAJHC/o+ACAAAAACAAABoiPaufwAAAGiI9q5/P//////////////////AAAAAyoAAAAIAAAAAxYAAAAAAaIj2rlNAAAe"
    "AAACCAAAAAUKAAAAAQAAggEAAAQIAAAABm4AAAIAAAAB4q/Q0WULQFOOqNDGvREjzQILQ09OVFJPTExFUgoxMjcuMC4wLjFyCQAAAAABAAAAAAAA"
    "AAAAAAADAAAA8QAAAAACZ0HV5wAAAAAABQAAAaIj2ruoAAABoiPau6j//////////////////wAAAAY6AAAAAS4BDAARbWV0YWRhdGEudmVyc2lv"
    "bgAhAABaAAACAU4BDAAhZWxpZ2libGUubGVhZGVyLnJlcGxpY2FzLnZlcnNpb24AAQAANAAABAEoAQwADmdyb3VwLnZlcnNpb24AAQAANAAABgEo"
    "AQwADnNoYXJlLnZlcnNpb24AAgAAOAAACAEsAQwAEHN0cmVhbXMudmVyc2lvbgABAABAAAAKATQBDAAUdHJhbnNhY3Rpb24udmVyc2lvbgACAAAA"
    "AAAAAAAACQAAAD8AAAAAAshcgbgAIAAAAAAAAAGiI9q7ygAAAaIj2rvK//////////////////8AAAABGgAAAAgAAAAEBgAAAAA="
)
PROPERTIES = b"node.id=1\ndirectory.id=4q_Q0WULQFOOqNDGvREjzQ\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
LEVELS = {
    "metadata.version": 33,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}


def replace(disk: MemoryDisk, path: str, content: bytes) -> None:
    file = disk.open(path)
    file.truncate(0)
    file.append(content)
    file.flush()
    file.close()


def formatted_by_kafka(**settings: str) -> Node:
    node = Node(**settings)
    node.disk.remove(BOOTSTRAP_CHECKPOINT)
    replace(node.disk, FORMATTED_CHECKPOINT, OF_KAFKA)
    replace(node.disk, META_PROPERTIES, PROPERTIES)
    return node


@pytest.mark.asyncio
async def test_the_first_leader_writes_the_levels_of_the_format_into_the_log() -> None:
    """Nodes that fetch the log learn them only from there."""
    node = formatted_by_kafka()
    assert load_snapshot(node.disk).snapshot.records == ()
    role = await node.start_with_broker()
    assert role.image.features == LEVELS
    assert role.image.cluster_defaults() == {"min.insync.replicas": "1"}
    assert await codes(role, create("t")) == [0]
    await node.shut_down_broker(role)
    await stop(role)
    role = await node.start()
    assert role.image.features == LEVELS
    await stop(role)


@pytest.mark.asyncio
async def test_a_directory_with_the_first_voters_alone_says_what_is_missing() -> None:
    node = Node()
    node.disk.remove(BOOTSTRAP_CHECKPOINT)
    with pytest.raises(QuorumError, match=r"bootstrap\.checkpoint cannot be read: it is missing"):
        await node.start()


def test_a_level_of_a_later_kafka_is_refused_by_its_place() -> None:
    node = formatted_by_kafka()
    later = FeatureLevelRecord("metadata.version", 34)
    content = encode_snapshot(Snapshot((later,), QuorumControl(), 0), {"metadata.version": 34}, now_ms=0)
    replace(node.disk, FORMATTED_CHECKPOINT, content)
    said = r"__cluster_metadata-0/0+-0+\.checkpoint, record 0: FeatureLevelRecord: metadata.version is 4\.5-IV0"
    with pytest.raises(QuorumError, match=said):
        load_bootstrap_records(node.disk)
