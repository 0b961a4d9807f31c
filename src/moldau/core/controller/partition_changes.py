"""The records that change partitions when brokers come and go, at most a batch in one decision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.configs import allows_unclean_election, min_insync_replicas
from moldau.core.controller.elections import UNCHANGED, ElectionRules, change_in_sync
from moldau.core.metadata.features import ELIGIBLE_LEADER_REPLICAS
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import MetadataImage, PartitionImage, TopicImage
from moldau.types import Uuid
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord

MAX_CHANGES_PER_STEP = 9_000
"""The most partition changes in one batch, because a batch of `__cluster_metadata` has at most 10,000 records."""


class TopicTerms(msgspec.Struct, frozen=True):
    """The image, a topic of it, and the rules for the elections of its partitions."""

    image: MetadataImage
    topic: TopicImage
    rules: ElectionRules


def topic_terms(image: MetadataImage, settings: BrokerSettings, topic: TopicImage) -> TopicTerms:
    """The terms of `topic`. `settings`: the defaults of the deciding node, for what the topic does not set."""
    rules = ElectionRules(
        min_insync_replicas(image, topic.name, settings),
        image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0,
        allows_unclean_election(image, topic.name, settings),
    )
    return TopicTerms(image, topic, rules)


def may_lead(image: MetadataImage, partition: PartitionImage, broker_id: int, *, is_coming: bool = False) -> bool:
    """Whether the broker is active, or about to be, and the directory of its replica is online (KIP-858)."""
    broker = image.brokers.get(broker_id)
    if broker is None or not (broker.is_active or is_coming):
        return False
    return broker.is_directory_online(partition)


def change_partition(
    terms: TopicTerms,
    partition_id: int,
    target_isr: tuple[int, ...],
    *,
    coming: int | None = None,
    leaving: int | None = None,
    lost_replicas: tuple[int, ...] = (),
    recovery_state: int = UNCHANGED,
    old: PartitionImage | None = None,
) -> PartitionChangeRecord | None:
    """The record that makes `target_isr` the in-sync replicas and elects a leader if one is needed. None: no change.
    The broker `coming` counts as active, the broker `leaving` does not. `old` replaces the partition of the image."""
    old = old or terms.topic.partitions[partition_id]

    def is_active(broker_id: int) -> bool:
        return broker_id != leaving and may_lead(terms.image, old, broker_id, is_coming=broker_id == coming)

    return change_in_sync(
        terms.topic.topic_id,
        partition_id,
        old,
        terms.rules,
        target_isr=target_isr,
        is_active=is_active,
        lost_replicas=lost_replicas,
        recovery_state=recovery_state,
    )


class PartitionChanges:
    """The partition changes when one broker comes or goes."""

    def __init__(self, image: MetadataImage, settings: BrokerSettings, broker_id: int) -> None:
        self.is_complete = True
        """False once a batch was full before all partitions were seen."""
        self._image = image
        self._settings = settings
        self._broker_id = broker_id

    @property
    def is_leader(self) -> bool:
        """Whether the broker leads any partition."""
        topics = self._image.topics_by_id.values()
        return any(partition.leader == self._broker_id for topic in topics for partition in topic.partitions.values())

    def leave(self, directories: Collection[Uuid] | None = None) -> list[MetadataRecord]:
        """Removes the broker from all ISRs and leaderships, or from those of its replicas in `directories`."""

        def change(terms: TopicTerms, index: int, old: PartitionImage) -> PartitionChangeRecord | None:
            if self._broker_id not in old.isr and old.leader != self._broker_id:
                return None
            if directories is not None and self._directory_in(old) not in directories:
                return None
            target = tuple(replica for replica in old.isr if replica != self._broker_id)
            return change_partition(terms, index, target, leaving=self._broker_id)

        return self._collect(change)

    def lose_eligibility(self) -> list[MetadataRecord]:
        """The replicas of the broker may be incomplete: removes it from the eligible leader replicas."""

        def change(terms: TopicTerms, index: int, old: PartitionImage) -> PartitionChangeRecord | None:
            if self._broker_id not in old.eligible_leader_replicas:
                return None
            lost = (self._broker_id,)
            return change_partition(terms, index, old.isr, leaving=self._broker_id, lost_replicas=lost)

        return self._collect(change) if self._image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) else []

    def forget(self) -> list[MetadataRecord]:
        """The broker will not return: removes it from all ISRs, leaderships and eligible leader replicas."""

        def change(terms: TopicTerms, index: int, old: PartitionImage) -> PartitionChangeRecord | None:
            if self._broker_id not in (*old.isr, *old.eligible_leader_replicas, old.leader):
                return None
            target = tuple(replica for replica in old.isr if replica != self._broker_id)
            lost = (self._broker_id,)
            return change_partition(terms, index, target, leaving=self._broker_id, lost_replicas=lost)

        return self._collect(change)

    def come_back(self) -> list[MetadataRecord]:
        """Makes the broker the leader of every partition without one that it may lead."""

        def change(terms: TopicTerms, index: int, old: PartitionImage) -> PartitionChangeRecord | None:
            if old.leader >= 0 or self._broker_id not in old.replicas:
                return None
            return change_partition(terms, index, old.isr, coming=self._broker_id)

        return self._collect(change)

    def _directory_in(self, partition: PartitionImage) -> Uuid | None:
        if not partition.directories or self._broker_id not in partition.replicas:
            return None
        return partition.directories[partition.replicas.index(self._broker_id)]

    def _collect(
        self, change: Callable[[TopicTerms, int, PartitionImage], PartitionChangeRecord | None]
    ) -> list[MetadataRecord]:
        records: list[MetadataRecord] = []
        for terms, partition_id, old in self._partitions():
            record = change(terms, partition_id, old)
            if record is None:
                continue
            if len(records) == MAX_CHANGES_PER_STEP:
                self.is_complete = False
                break
            records.append(record)
        return records

    def _partitions(self) -> Iterator[tuple[TopicTerms, int, PartitionImage]]:
        for topic in self._image.topics_by_id.values():
            terms = topic_terms(self._image, self._settings, topic)
            for partition_id, old in topic.partitions.items():
                yield terms, partition_id, old
