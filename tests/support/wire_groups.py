"""Fetch, ListOffsets and group requests for a RawConnection."""

from __future__ import annotations

from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.groups_classic import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
)
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.wire import RawConnection


def fetch(raw: RawConnection, topic: str, offset: int = 0, version: int = 12, *, partition: int = 0, wait_ms: int = 0,
          size: int = 1 << 20, epoch: int = -1, **options: int):  # fmt: skip
    row = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size, current_leader_epoch=epoch)
    request = FetchRequest(max_wait_ms=wait_ms, topics=(FetchTopic(topic=topic, partitions=(row,)),), **options)
    return raw.ask(request, version).responses[0].partitions[0]


def list_offset(raw: RawConnection, topic: str, timestamp: int, version: int, *, partition: int = 0, level: int = 0):
    row = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(isolation_level=level, topics=(ListOffsetsTopic(name=topic, partitions=(row,)),))
    return raw.ask(request, version).topics[0].partitions[0]


def join(raw: RawConnection, group: str, member_id: str = "", version: int = 9, **options):
    protocols = options.pop("protocols", (JoinGroupRequestProtocol(name="range", metadata=b"m"),))
    request = JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=options.pop("session_timeout_ms", 10_000),
        rebalance_timeout_ms=10_000,
        protocol_type=options.pop("protocol_type", "consumer"),
        protocols=protocols,
        **options,
    )
    return raw.ask(request, version)


def joined(raw: RawConnection, group: str, **options):
    """A member of a stable group of one."""
    first = join(raw, group, **options)
    assert first.error_code == 79
    second = join(raw, group, first.member_id, **options)
    assert second.error_code == 0
    sync = SyncGroupRequest(group_id=group, generation_id=second.generation_id, member_id=second.member_id)
    assert raw.ask(sync, 3).error_code == 0
    return second


def commit(
    raw: RawConnection, group: str, topic: str, offset: int = 1, *, metadata: str | None = "", version: int = 8, **who
):
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
    topics = (OffsetCommitRequestTopic(name=topic, partitions=(row,)),)
    answer = raw.ask(OffsetCommitRequest(group_id=group, topics=topics, **who), version)
    return answer.topics[0].partitions[0].error_code
