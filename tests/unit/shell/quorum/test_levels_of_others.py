"""A cluster has finalized a feature that Moldau lacks: a joining node of ours reports it and ends its start, and joins
once the feature is downgraded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.metadata.batches import build_metadata_batch
from moldau.errors import ERROR_CODES
from moldau.shell.quorum.quorum_state import QuorumError
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.ports import SimulatedClock
from moldau.simulation.trace import Trace
from moldau.types import METADATA_TOPIC_ID, whole
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from moldau.wire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from moldau.wire.protocol.messages.metadata_records import FeatureLevelRecord
from tests.support.answering_node import AnsweringNode
from tests.support.quorum_of_three import LISTENER, QuorumNode
from tests.support.stories import run_by
from tests.support.virtual_time import PATIENCE_S

LEADER, FOLLOWER, EPOCH, PORT = 1, 2, 1, 9093
LEVELS = {"metadata.version": 30}
KNOWN, SERVED, UNKNOWN, TOO_HIGH = (
    FeatureLevelRecord(*each)
    for each in (*LEVELS.items(), ("group.version", 1), ("later.version", 1), ("transaction.version", 3))
)
NOT_SERVED = (
    "^node 2 does not join cluster .{22}: group.version is 1 and other nodes serve it, but Moldau does not: "
    "`kafka-features downgrade --feature group.version=0` takes it back$"
)
NOT_KNOWN = "^node 2 does not join cluster .{22}: later.version is 1, but Moldau supports 0 to 0$"
NOT_SO_HIGH = "^node 2 does not join cluster .{22}: transaction.version is 3, but Moldau supports 0 to 2$"
REFUSED = pytest.mark.parametrize(
    ("finalized", "said"), [(SERVED, NOT_SERVED), (UNKNOWN, NOT_KNOWN), (TOO_HIGH, NOT_SO_HIGH)]
)


class ForeignLeader(AnsweringNode):
    """The leader of a quorum of another kind, which serves `group.version`: everything in `batches` is committed, and
    each response has one of them."""

    def __init__(self, *batches: list[FeatureLevelRecord], start_offset: int = 0) -> None:
        super().__init__()
        self.serves_groups = True
        self.end_offset = start_offset + sum(map(len, batches))
        self._answers = []
        for records in batches:
            building = build_metadata_batch(records, LEVELS, now_ms=0, leader_epoch=EPOCH, base_offset=start_offset)
            self._answers.append(bytes(whole(building)))
            start_offset += len(records)
        self._is_known = False

    def answer(self, api_key: int, version: int) -> msgspec.Struct:
        if api_key == ApiKey.API_VERSIONS:
            served = (FinalizedFeatureKey("group.version", 1, 1),) if self.serves_groups else ()
            return ApiVersionsResponse(api_keys=(ApiVersion(ApiKey.FETCH, 4, 18),), finalized_features=served)
        leader = LeaderIdAndEpoch(LEADER, EPOCH)
        row = PartitionData(
            0, ERROR_CODES["FENCED_LEADER_EPOCH"], high_watermark=-1, current_leader=leader, records=b""
        )
        if self._is_known:
            records = self._answers.pop(0) if self._answers else b""
            row = msgspec.structs.replace(row, error_code=0, high_watermark=self.end_offset, records=records)
        self._is_known = True
        topic = FetchableTopicResponse("", METADATA_TOPIC_ID, (row,))
        return FetchResponse(responses=(topic,), node_endpoints=(NodeEndpoint(LEADER, "node-1", PORT),))


class Joining:
    """One node of ours that joins a quorum with a foreign leader; its disk stays from one life to the next."""

    def __init__(self, clock: SimulatedClock, network: SimulatedNetwork) -> None:
        self._network = network
        settings = parse_broker_settings(
            {
                "node.id": str(FOLLOWER),
                "listeners": f"PLAINTEXT://:9092,{LISTENER}://node-2:{PORT}",
                "controller.quorum.bootstrap.servers": f"node-1:{PORT}",
            }
        )
        self.node = QuorumNode(FOLLOWER, clock, HostNetwork(network, "node-2"), settings)

    async def join(self, leader: ForeignLeader) -> None:
        """Raises QuorumError; the node has ended then."""
        server = await HostNetwork(self._network, "node-1").listen("node-1", PORT, leader.accept)
        await self.node.listen("node-2", PORT)
        self.node.start(None)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.node.starting
        finally:
            self.node.die()
            server.close()


def tell(story: Callable[[Joining], Awaitable[None]]) -> None:
    """Runs `story` in virtual time."""
    loop = VirtualLoop()

    async def run() -> None:
        await story(Joining(SimulatedClock(loop), SimulatedNetwork(loop, 1, Trace(loop.time))))

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


def taken_back(finalized: FeatureLevelRecord) -> FeatureLevelRecord:
    return FeatureLevelRecord(finalized.name, 0)


@REFUSED
@run_by(tell)
async def test_an_empty_node_does_not_join_and_names_the_feature(
    joining: Joining, *, finalized: FeatureLevelRecord, said: str
) -> None:
    with pytest.raises(QuorumError, match=said):
        await joining.join(ForeignLeader([KNOWN, finalized]))


@run_by(tell)
async def test_what_no_other_node_serves_refuses_nothing(joining: Joining) -> None:
    leader = ForeignLeader([KNOWN, SERVED])
    leader.serves_groups = False
    await joining.join(leader)
    assert joining.node.role.image.features == {**LEVELS, SERVED.name: 1}


def test_a_node_that_has_joined_before_joins_again_and_says_what_is_not_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(joining: Joining) -> None:
        await joining.join(ForeignLeader([KNOWN]))
        assert not caplog.records
        await joining.join(ForeignLeader([SERVED], start_offset=1))

    tell(story)
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == [
        "group.version is 1 and other nodes serve it, but Moldau does not: "
        "`kafka-features downgrade --feature group.version=0` takes it back"
    ]


@run_by(tell)
async def test_a_newcomer_that_was_refused_is_refused_again(joining: Joining) -> None:
    for batches in ([KNOWN, SERVED],), ():
        with pytest.raises(QuorumError, match=NOT_SERVED):
            await joining.join(ForeignLeader(*batches, start_offset=0 if batches else 2))


@REFUSED
@run_by(tell)
async def test_what_was_taken_back_further_on_in_the_log_refuses_nothing(
    joining: Joining, *, finalized: FeatureLevelRecord, said: str
) -> None:
    await joining.join(ForeignLeader([KNOWN, finalized], [taken_back(finalized)]))


@REFUSED
@run_by(tell)
async def test_a_level_that_comes_further_on_in_the_log_refuses_the_node(
    joining: Joining, *, finalized: FeatureLevelRecord, said: str
) -> None:
    with pytest.raises(QuorumError, match=said):
        await joining.join(ForeignLeader([KNOWN], [finalized]))


@REFUSED
@run_by(tell)
async def test_a_node_that_was_refused_joins_once_the_feature_is_taken_back(
    joining: Joining, *, finalized: FeatureLevelRecord, said: str
) -> None:
    with pytest.raises(QuorumError, match=said):
        await joining.join(ForeignLeader([KNOWN, finalized]))
    await joining.join(ForeignLeader([taken_back(finalized)], start_offset=2))
