"""The state of the metadata log, and the changes by one batch.

The values in an image are frozen and replaced when they change, so images share them. An image itself changes in place:
to remember an earlier state, keep the `TopicImage`, not the image.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Hashable, Iterator
from typing import TypeVar

import msgspec

from moldau.core.authorization.stored import StoredAcls
from moldau.core.metadata.login_records import LoginRecords
from moldau.core.quotas.limits import QuotaEntity
from moldau.types import ZERO_UUID, BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid
from moldau.wire.protocol.acls import Acl

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

NO_LEADER = BrokerId(-1)
_UNKNOWN_DIRECTORIES = (ZERO_UUID, Uuid((1).to_bytes(16, "big")))
"""The directories of a replica without a known place, Kafka's "migrating" and "unassigned": no record has it, or the
broker has not chosen it yet."""
LOST_DIRECTORY = Uuid((2).to_bytes(16, "big"))
"""The directory of a replica that its broker cannot serve as a leader. No broker has a directory with this id."""


class ResourceType(enum.IntEnum):
    """The resource of a config record. Source: Kafka's ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(msgspec.Struct, frozen=True, order=True):
    """A resource with configs. The broker named "" has the defaults of all brokers."""

    resource_type: int
    name: str


CLUSTER_DEFAULTS = ConfigResource(ResourceType.BROKER, "")


class LeaderRecoveryState(enum.IntEnum):
    """RECOVERING: records may be missing after the election of the leader, which has not reported its recovery yet."""

    RECOVERED = 0
    RECOVERING = 1


class PartitionImage(msgspec.Struct, frozen=True):
    """One partition. `directories` is in the order of `replicas` (KIP-858). ELR: KIP-966."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    directories: tuple[Uuid, ...] = ()
    leader_recovery_state: int = LeaderRecoveryState.RECOVERED
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    def is_directory_lost(self, replica: int) -> bool:
        """Whether the broker has reported the replica as lost. It cannot lead then."""
        return (replica, LOST_DIRECTORY) in zip(self.replicas, self.directories, strict=False)


class TopicImage(msgspec.Struct, frozen=True):
    """One topic with its partitions, by index."""

    name: str
    topic_id: Uuid
    partitions: dict[int, PartitionImage]

    @property
    def replication_factor(self) -> int:
        """The replicas of partition 0; 0 for a topic without partitions."""
        return len(self.partitions[0].replicas) if 0 in self.partitions else 0


class BrokerListener(msgspec.Struct, frozen=True):
    """The address of a broker for clients. `security_protocol`: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class BrokerImage(msgspec.Struct, frozen=True):
    """One registered broker. Its epoch is the offset of its registration."""

    broker_id: BrokerId
    epoch: int
    incarnation_id: Uuid
    listeners: tuple[BrokerListener, ...]
    features: tuple[tuple[str, int, int], ...] = ()
    """(name, min level, max level)"""
    rack: str | None = None
    is_fenced: bool = True
    is_in_controlled_shutdown: bool = False
    log_directories: tuple[Uuid, ...] = ()
    cordoned_log_directories: tuple[Uuid, ...] | None = None

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead and get new replicas."""
        return not self.is_fenced and not self.is_in_controlled_shutdown

    def is_directory_online(self, partition: PartitionImage) -> bool:
        """Whether the log directory of this broker's replica is online, as far as the controller knows (KIP-858)."""
        if not partition.directories or not self.log_directories or self.broker_id not in partition.replicas:
            return True
        directory = partition.directories[partition.replicas.index(self.broker_id)]
        return directory in _UNKNOWN_DIRECTORIES or directory in self.log_directories


class ControllerImage(msgspec.Struct, frozen=True):
    """One registered controller of the quorum."""

    controller_id: BrokerId
    incarnation_id: Uuid
    listeners: tuple[BrokerListener, ...]
    features: tuple[tuple[str, int, int], ...] = ()
    """(name, min level, max level)"""


class MetadataDelta(msgspec.Struct):
    """The changes between two offsets of the metadata log. None: removed."""

    end_offset: Offset = Offset(0)
    """The offset after the last record in this delta."""
    leader_epoch: int = 0
    topics: dict[Uuid, TopicImage | None] = {}
    """Topics created or touched, and those deleted."""
    deleted_topics: dict[Uuid, TopicImage] = {}
    """Deleted topics as they were (not those that this same delta created)."""
    partitions: dict[TopicPartition, PartitionImage] = {}
    """Partitions created or changed, of topics that still exist."""
    brokers: dict[int, BrokerImage | None] = {}
    configs: dict[ConfigResource, dict[str, str] | None] = {}
    features: dict[str, int] = {}
    """Level 0: gone."""
    controllers: dict[int, ControllerImage | None] = {}
    client_quotas: dict[QuotaEntity, dict[str, float] | None] = {}
    acls: dict[Uuid, Acl | None] = {}
    logins: dict[Hashable, msgspec.Struct | None] = {}
    next_producer_id: int | None = None
    transaction: list[msgspec.Struct] | None = None
    """As in the image, at the end of this delta."""

    @property
    def is_empty(self) -> bool:
        """No change that concerns a broker."""
        return not (
            self.topics
            or self.deleted_topics
            or self.brokers
            or self.configs
            or self.features
            or self.controllers
            or self.client_quotas
            or self.acls
            or self.next_producer_id is not None
        )

    def changed_partitions(self) -> Iterator[tuple[TopicImage, list[int]]]:
        """Each new or changed topic with the indexes of its new or changed partitions, in order. Reads no other
        partition: most commits change one, of a topic that may have 10,000."""
        indexes: dict[str, list[int]] = {}
        for place in self.partitions:
            indexes.setdefault(place.topic, []).append(place.partition)
        for topic in self.topics.values():
            if topic is not None:
                yield topic, sorted(indexes.get(topic.name, ()))


class MetadataImage:
    """The metadata at `end_offset`. Read only; `apply_delta` is for the owner."""

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.end_offset = Offset(0)
        self.leader_epoch = 0
        self.topics_by_id: dict[Uuid, TopicImage] = {}
        self.topics_by_name: dict[str, TopicImage] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.controllers: dict[int, ControllerImage] = {}
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.acls = StoredAcls()
        self.logins = LoginRecords()
        """Credentials and tokens, which have no effect here."""
        self.next_producer_id = 0
        self.transaction: list[msgspec.Struct] | None = None
        """The records of an open metadata transaction, which do not count yet (KIP-868)."""

    def topic(self, name: str) -> TopicImage | None:
        """The topic of this name; None if it does not exist."""
        return self.topics_by_name.get(name)

    def topic_id(self, name: str) -> Uuid:
        """The id of a topic; zero for an unknown name."""
        topic = self.topics_by_name.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def directory_of(self, broker_id: int, topic_partition: TopicPartition) -> Uuid | None:
        """The log directory of a replica of `broker_id` (KIP-858); None if unknown."""
        partition = self.partition(topic_partition)
        if partition is None or broker_id not in partition.replicas or not partition.directories:
            return None
        return partition.directories[partition.replicas.index(broker_id)]

    def partition(self, topic_partition: TopicPartition) -> PartitionImage | None:
        """The partition; None if it does not exist."""
        topic = self.topics_by_name.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def offline_replicas(self, partition: PartitionImage, serving: Container[int]) -> tuple[int, ...]:
        """The replicas that cannot lead: their brokers are not `serving`, or their log directories are offline."""
        return tuple(
            replica
            for replica in partition.replicas
            if replica not in serving
            or ((broker := self.brokers.get(replica)) is not None and not broker.is_directory_online(partition))
        )

    def topic_configs(self, name: str) -> dict[str, str]:
        """The settings of the topic itself."""
        return self.configs.get(ConfigResource(ResourceType.TOPIC, name), {})

    def cluster_defaults(self) -> dict[str, str]:
        """The dynamic broker settings for all brokers."""
        return self.configs.get(CLUSTER_DEFAULTS, {})

    def copy(self) -> MetadataImage:
        """A copy that no delta changes. The values are shared."""
        image = MetadataImage(self.cluster_id)
        image.end_offset, image.leader_epoch = self.end_offset, self.leader_epoch
        image.topics_by_id = dict(self.topics_by_id)
        image.topics_by_name = dict(self.topics_by_name)
        image.brokers = dict(self.brokers)
        image.configs = dict(self.configs)
        image.features = dict(self.features)
        image.controllers = dict(self.controllers)
        image.client_quotas = dict(self.client_quotas)
        image.acls = StoredAcls(self.acls)
        image.logins = LoginRecords(self.logins)
        image.next_producer_id = self.next_producer_id
        image.transaction = copied(self.transaction)
        return image

    def as_delta(self) -> MetadataDelta:
        """The whole image as one delta, for a new subscriber."""
        return MetadataDelta(
            end_offset=self.end_offset,
            leader_epoch=self.leader_epoch,
            topics=dict(self.topics_by_id),
            partitions={
                TopicPartition(topic.name, partition_id): partition
                for topic in self.topics_by_id.values()
                for partition_id, partition in topic.partitions.items()
            },
            brokers=dict(self.brokers),
            configs=dict(self.configs),
            features=dict(self.features),
            controllers=dict(self.controllers),
            client_quotas=dict(self.client_quotas),
            acls=dict(self.acls),
            logins=dict(self.logins),
            next_producer_id=self.next_producer_id,
            transaction=copied(self.transaction),
        )

    def delta_from(self, old: MetadataImage) -> MetadataDelta:
        """The delta from `old` to this image, without the records in between."""
        delta = self.as_delta()
        delta.deleted_topics = {key: topic for key, topic in old.topics_by_id.items() if key not in self.topics_by_id}
        delta.topics.update(dict.fromkeys(delta.deleted_topics))
        delta.brokers.update(dict.fromkeys(key for key in old.brokers if key not in self.brokers))
        delta.configs.update(dict.fromkeys(key for key in old.configs if key not in self.configs))
        delta.client_quotas.update(dict.fromkeys(key for key in old.client_quotas if key not in self.client_quotas))
        delta.acls.update(dict.fromkeys(key for key in old.acls if key not in self.acls))
        delta.logins.update(dict.fromkeys(key for key in old.logins if key not in self.logins))
        delta.features.update(dict.fromkeys((name for name in old.features if name not in self.features), 0))
        return delta

    def apply_delta(self, delta: MetadataDelta) -> None:
        """Applies `delta`, sharing its values."""
        for topic_id, topic in delta.topics.items():
            if topic is not None:
                self.topics_by_id[topic_id] = topic
                continue
            old = self.topics_by_id.pop(topic_id, None)
            if old is not None:
                self.topics_by_name.pop(old.name, None)
        for topic in delta.topics.values():
            # after all removals, because a deleted name may exist again with another id
            if topic is not None:
                self.topics_by_name[topic.name] = topic
        _replace(self.brokers, delta.brokers)
        _replace(self.configs, delta.configs)
        _replace(self.client_quotas, delta.client_quotas)
        _replace(self.acls, delta.acls)
        _replace(self.logins, delta.logins)
        for name, level in delta.features.items():
            if level == 0:
                self.features.pop(name, None)
            else:
                self.features[name] = level
        _replace(self.controllers, delta.controllers)
        if delta.next_producer_id is not None:
            self.next_producer_id = delta.next_producer_id
        self.transaction = delta.transaction
        self.end_offset = delta.end_offset
        self.leader_epoch = delta.leader_epoch


def copied(transaction: list[msgspec.Struct] | None) -> list[msgspec.Struct] | None:
    """A copy as a list."""
    return None if transaction is None else list(transaction)


def _replace(current: dict[_Key, _Value], changes: dict[_Key, _Value | None]) -> None:
    for key, value in changes.items():
        if value is None:
            current.pop(key, None)
        else:
            current[key] = value
