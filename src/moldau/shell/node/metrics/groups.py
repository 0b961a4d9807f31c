"""Consumer groups and their lag: read from the coordinators of this node, with pauses.

The lag in a partition is known if this node has an in-sync replica of it. Otherwise the lag, and every sum that
includes it, is left out: 0 would say that the group is up to date, and a replica that is not in sync does not know how
much there is to read.

The first scrape loads each shard of `__consumer_offsets` that has had no request since the start; the next scrape shows
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.config.topic_settings import OFFSETS_TOPIC
from moldau.shell.node.metrics.table import GROUP_STATES
from moldau.shell.node.metrics.transactions import add_load_times
from moldau.transport.exposition import Samples, labels_text

if TYPE_CHECKING:
    from moldau.core.groups.committed_offsets import OffsetsByPartition
    from moldau.core.groups.state import GroupsState
    from moldau.core.metadata.image import TopicImage
    from moldau.core.replication.partition import Partition
    from moldau.shell.broker.partitions import HostedTopic
    from moldau.shell.broker.role import Broker

_PREFIX = "kafka_coordinator_group_groupmetadatamanager_"


async def add_groups(broker: Broker, out: Samples) -> None:
    """Adds groups by state, and the lag of each. It pauses while it counts."""
    totals = _Totals(broker, out)
    if OFFSETS_TOPIC in broker.image.topics_by_name:
        for shard in broker.coordination.groups.all_shards():
            if shard.loading is None and shard.host.stopped is None:
                await totals.add(shard.host.state)
    out.add(f"{_PREFIX}numgroups", totals.groups)
    out.add(f"{_PREFIX}numoffsets", totals.offsets)
    for state in GROUP_STATES:
        count = totals.states.get(state, 0)
        out.add(f"{_PREFIX}numgroups{state.lower()}", count)
        out.add("kafka_server_group_coordinator_metrics_classic_group_count", count, labels_text(state=state))
    add_load_times(broker.coordination.groups, "kafka_server_group_coordinator_metrics_", out)
    out.add("kafka_server_group_coordinator_metrics_offset_count", totals.offsets)
    out.add("kafka_server_group_coordinator_metrics_group_count", totals.groups, labels_text(protocol="classic"))


class _Totals:
    """Sums over all shards. Lags are listed for the first `moldau.metric.partitions` offsets; sums include all."""

    def __init__(self, broker: Broker, out: Samples) -> None:
        self.groups = 0
        self.offsets = 0
        self.states: dict[str, int] = {}
        self._broker = broker
        self._out = out
        self._listed = 0
        self._limit = broker.settings.moldau_metric_partitions

    async def add(self, state: GroupsState) -> None:
        for group_id in dict.fromkeys((*state.groups, *state.offsets)):
            group = state.groups.get(group_id)
            self.groups += 1
            name = "Empty" if group is None else group.state.value
            self.states[name] = self.states.get(name, 0) + 1
            if self.groups <= self._limit:
                members = 0 if group is None else len(group.members)
                self._out.add("kafka_consumergroup_members", members, labels_text(consumergroup=group_id))
                self._out.add("redpanda_kafka_consumer_group_consumers", members, labels_text(redpanda_group=group_id))
            await self._add_offsets(group_id, state.offsets.get(group_id, {}))

    async def _add_offsets(self, group_id: str, offsets: OffsetsByPartition) -> None:
        broker = self._broker
        lag_of_group = lag_max = 0
        is_group_listed = self.groups <= self._limit
        is_group_known = True
        for topic, partitions in list(offsets.items()):
            hosted, image = broker.partitions.by_name.get(topic.encode()), broker.image.topics_by_name.get(topic)
            offset_sum = lag_sum = 0
            is_topic_known = True
            for index, committed in list(partitions.items()):
                self.offsets += 1
                await broker.own_node.pauses.pause()
                partition = self._in_sync(hosted, image, index)
                lag = 0 if partition is None else max(0, partition.high_watermark - committed.offset)
                is_topic_known = is_topic_known and partition is not None
                offset_sum += committed.offset
                lag_sum += lag
                lag_max = max(lag_max, lag)
                if self._listed < self._limit:
                    self._listed += 1
                    labels = labels_text(consumergroup=group_id, topic=topic, partition=index)
                    self._out.add("kafka_consumergroup_current_offset", committed.offset, labels)
                    if partition is not None:
                        self._out.add("kafka_consumergroup_lag", lag, labels)
            lag_of_group += lag_sum
            is_group_known = is_group_known and is_topic_known
            if is_group_listed:
                labels = labels_text(consumergroup=group_id, topic=topic)
                self._out.add("kafka_consumergroup_current_offset_sum", offset_sum, labels)
                if is_topic_known:
                    self._out.add("kafka_consumergroup_lag_sum", lag_sum, labels)
        if is_group_listed and is_group_known and offsets:
            labels = labels_text(redpanda_group=group_id)
            self._out.add("redpanda_kafka_consumer_group_lag_sum", lag_of_group, labels)
            self._out.add("redpanda_kafka_consumer_group_lag_max", lag_max, labels)

    def _in_sync(self, hosted: HostedTopic | None, topic: TopicImage | None, index: int) -> Partition | None:
        """This node's replica of a partition, if it is in sync."""
        known = None if topic is None else topic.partitions.get(index)
        if hosted is None or known is None or self._broker.node_id not in known.isr:
            return None
        return hosted.partitions.get(index)
