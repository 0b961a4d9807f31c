"""A coordinator's report of the lag in a partition that it follows."""

from __future__ import annotations

from moldau.core.config.topic_settings import OFFSETS_TOPIC
from moldau.shell.node.metrics.groups import add_groups
from moldau.shell.node.metrics.table import TABLE
from moldau.transport.exposition import Samples
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.brokers import Brokers, run_brokers
from tests.support.stories import run_by

LAG = 'kafka_consumergroup_lag{consumergroup="g",topic="t",partition="0"}'
LAG_SUM = 'kafka_consumergroup_lag_sum{consumergroup="g",topic="t"}'


async def lags(brokers: Brokers, broker_id: int) -> dict[str, str]:
    broker = brokers.machines[broker_id].broker
    assert broker is not None
    out = Samples(TABLE)
    await add_groups(broker, out)
    lines = (line.rsplit(" ", 1) for line in out.render().decode().splitlines() if "_lag" in line and line[0] != "#")
    return {name: value for name, value in lines if name in (LAG, LAG_SUM)}


@run_by(run_brokers, count=3)
async def test_a_replica_that_lags_behind_does_not_tell_how_far_groups_have_read(brokers: Brokers) -> None:
    """Broker 3 coordinates the group, and follows broker 2 in the group's topic."""
    brokers.controller.create_topic("t", (2, 3))
    brokers.controller.create_topic(OFFSETS_TOPIC, (3,), cleanup_policy="compact")
    await brokers.until(lambda: all(one.has_topic(OFFSETS_TOPIC) for one in brokers.machines.values()))
    topic = OffsetCommitRequestTopic("t", brokers.controller.image.topic_id("t"), (OffsetCommitRequestPartition(0, 0),))
    answer = await brokers.ask(3, OffsetCommitRequest("g", topics=(topic,)))
    assert answer.topics[0].partitions[0].error_code == 0
    assert await brokers.produce(2, b"a") == 0
    await brokers.until(lambda: brokers.machines[3].replica().high_watermark == 1)
    assert await lags(brokers, 3) == {LAG: "1", LAG_SUM: "1"}
    brokers.machines[2].stand_still()  # otherwise the leader adds the replica to the in-sync ones again
    brokers.controller.change("t", isr=(2,))
    await brokers.pass_time(0.1)
    assert await lags(brokers, 3) == {}
