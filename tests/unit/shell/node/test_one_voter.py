"""One voter is not one broker: a node with both roles, and two with only the broker role."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.core.config.topic_settings import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.errors import InvalidReplicationFactorError
from tests.support.stories import run_by
from tests.support.three_nodes import NODE_IDS, Cluster, tell

CONTROLLER = (1,)
OF_BROKERS = {
    "num.partitions": "4",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "2097152",
    "transaction.state.log.num.partitions": "2",
}


async def ensured(cluster: Cluster, by: int, topic: str = OFFSETS_TOPIC) -> tuple[int, int]:
    """(partitions, replicas) of the internal topic that a broker created for its first group or transaction."""
    broker = cluster.nodes[by].broker
    await (broker.coordination.groups if topic == OFFSETS_TOPIC else broker.coordination.transactions).ensure_topic()
    await cluster.until(lambda: topic in broker.image.topics_by_name)
    partitions = broker.image.topics_by_name[topic].partitions
    return len(partitions), len(partitions[0].replicas)


@pytest.mark.parametrize("by", NODE_IDS)
@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC])
@run_by(tell, voter_ids=CONTROLLER)
async def test_internal_topics_have_three_replicas_where_three_brokers_are_there(
    cluster: Cluster, *, by: int, topic: str
) -> None:
    await cluster.until(lambda: len(cluster.nodes[by].broker.image.brokers) == len(NODE_IDS))
    assert await ensured(cluster, by, topic) == (50, 3)


@run_by(tell, voter_ids=CONTROLLER, settings={"offsets.topic.replication.factor": "4"})
async def test_a_factor_that_is_set_waits_for_the_brokers_and_the_log_says_so(
    cluster: Cluster, *, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(InvalidReplicationFactorError):
        await ensured(cluster, 1)
    assert "__consumer_offsets was not created: Unable to replicate the partition 4 time(s)" in caplog.text


@run_by(tell, voter_ids=CONTROLLER)
async def test_a_broker_names_its_own_numbers_whatever_the_controllers_are(cluster: Cluster) -> None:
    cluster.kill(2)
    await cluster.start(2, settings=OF_BROKERS)
    broker = cluster.nodes[2].broker
    await broker.coordination.topic_creation.create("t")
    await cluster.until(lambda: "t" in broker.image.topics_by_name)
    assert len(broker.image.topics_by_name["t"].partitions) == 4
    assert await ensured(cluster, 2) == (3, 3)
    assert broker.image.topic_configs(OFFSETS_TOPIC)["segment.bytes"] == "2097152"
    assert await ensured(cluster, 2, TRANSACTION_STATE_TOPIC) == (2, 3)


@run_by(tell, voter_ids=CONTROLLER)
async def test_the_only_voter_that_comes_back_does_not_lead_what_it_led_before_its_death(cluster: Cluster) -> None:
    await cluster.create_known("t", 1, 2, 3, by=1)
    epochs: list[int] = []
    cluster.kill(1)
    starting = asyncio.ensure_future(cluster.start(1))
    while not starting.done():
        for _ in range(20):  # turns of the loop: its own controller answers without delay
            await asyncio.sleep(0)
            epochs += cluster.epochs_led_by(1) if 1 in cluster.nodes else []
        await cluster.pass_time(0.001)
    assert 0 not in epochs
    await cluster.all_know("t", 2, 1, 2, 3)
