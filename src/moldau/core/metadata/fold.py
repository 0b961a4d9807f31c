"""Applies the records of `__cluster_metadata` to an image, and collects the changes.

One batch of records gives one delta. A changed topic is copied once for each delta and then changed in place: a topic
of 10,000 partitions costs one copy for each batch, not for each record.

Metadata transactions (KIP-868): records after BeginTransaction take effect at the end, or never after AbortTransaction.
An unreadable record is rejected, as in Kafka, because any response could depend on it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import astuple

from moldau.core.metadata.image import (
    BrokerImage,
    BrokerListener,
    ConfigResource,
    ControllerImage,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
    copied,
)
from moldau.core.metadata.login_records import in_force_after, login_key
from moldau.core.quotas.limits import quota_entity
from moldau.types import ZERO_UUID, BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid
from moldau.wire.protocol.acls import Acl
from moldau.wire.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    ZkMigrationStateRecord,
)

MetadataRecord = msgspec.Struct
"""Any record of `moldau.wire.protocol.messages.metadata_records`, or an UnknownRecord."""

LEADER_UNCHANGED: Final = -2
UNASSIGNED_DIRECTORY: Final = ZERO_UUID
"""The directory of a replica that its broker has not placed yet (KIP-858)."""


def collision_key(name: str) -> str:
    """Topics with the same key would share a metric name, because Kafka writes "." as "_" there."""
    return name.replace(".", "_")


class UnknownRecord(msgspec.Struct, frozen=True):
    """A record with a type or version of a later Kafka. `reason`: the unreadable part."""

    reason: str


class MetadataFold:
    """The image after the applied records, and the delta since `take_delta`.

    `apply` raises ValueError for a record that contradicts the image.
    """

    def __init__(self, cluster_id: str = "") -> None:
        self.image = MetadataImage(cluster_id)
        self._names_by_key: dict[str, list[str]] = {}
        self._delta = MetadataDelta()

    def go_back_to(self, committed: MetadataImage) -> None:
        """Drops all applied records that are not in `committed`. The caller keeps `committed`."""
        self.image = committed.copy()
        self._names_by_key = {}
        for name in self.image.topics_by_name:
            self._names_by_key.setdefault(collision_key(name), []).append(name)
        self._delta = MetadataDelta()

    def take_delta(self, end_offset: Offset, leader_epoch: int) -> MetadataDelta:
        """The changes since the last call. The image gets its new end."""
        delta, self._delta = self._delta, MetadataDelta()
        delta.transaction = copied(self.image.transaction)
        delta.end_offset = self.image.end_offset = end_offset
        delta.leader_epoch = self.image.leader_epoch = leader_epoch
        return delta

    def colliding_names(self, name: str) -> list[str]:
        """The topics with the same metric names as `name`."""
        return self._names_by_key.get(collision_key(name), [])

    def apply(self, record: MetadataRecord) -> None:
        """Applies one record of the metadata log. Records of a metadata transaction (KIP-868) take effect at its end.

        Raises ValueError for a contradiction to earlier records.
        """
        image = self.image
        if isinstance(record, BeginTransactionRecord):
            if image.transaction is not None:
                raise ValueError("a metadata transaction begins inside another")
            image.transaction = []
        elif isinstance(record, (EndTransactionRecord, AbortTransactionRecord)):
            if image.transaction is None:
                raise ValueError("a metadata transaction ends that never began")
            records, image.transaction = image.transaction, None
            if isinstance(record, EndTransactionRecord):
                for its_record in records:
                    self._apply_one(its_record)
        elif image.transaction is not None:
            image.transaction.append(record)
        else:
            self._apply_one(record)

    def _apply_one(self, record: MetadataRecord) -> None:
        match record:
            case PartitionRecord():
                self._take_partition(record)
            case PartitionChangeRecord():
                self._take_partition_change(record)
            case TopicRecord():
                self._take_topic(record)
            case RemoveTopicRecord():
                self._take_remove_topic(record)
            case ConfigRecord():
                self._take_config(record)
            case ProducerIdsRecord():
                self._take_producer_ids(record)
            case ClientQuotaRecord():
                self._take_client_quota(record)
            case AccessControlEntryRecord():
                self.image.acls[record.id] = self._delta.acls[record.id] = acl_of(record)
            case RemoveAccessControlEntryRecord():
                self._take_remove_acl(record)
            case FeatureLevelRecord():
                self._take_feature_level(record)
            case RegisterBrokerRecord():
                self._take_register_broker(record)
            case BrokerRegistrationChangeRecord():
                self._take_registration_change(record)
            case FenceBrokerRecord():
                self._set_broker(msgspec.structs.replace(self._broker(record.id, record.epoch), is_fenced=True))
            case UnfenceBrokerRecord():
                self._set_broker(msgspec.structs.replace(self._broker(record.id, record.epoch), is_fenced=False))
            case UnregisterBrokerRecord():
                self._take_unregister_broker(record)
            case RegisterControllerRecord():
                self._take_register_controller(record)
            case UnregisterControllerRecord():
                self._take_unregister_controller(record)
            case ClearElrRecord():
                self._take_clear_elr(record)
            case NoOpRecord() | ZkMigrationStateRecord():
                pass  # NoOpRecord moves the offset of an idle log; the migration from ZooKeeper ended with Kafka 4.0
            case UnknownRecord():
                raise ValueError(record.reason)
            case _:
                self._take_login_record(record)

    # topics

    def _take_topic(self, record: TopicRecord) -> None:
        if record.topic_id in self.image.topics_by_id or record.name in self.image.topics_by_name:
            raise ValueError(f"topic {record.name!r} exists already")
        topic = TopicImage(record.name, record.topic_id, {})
        self._names_by_key.setdefault(collision_key(record.name), []).append(record.name)
        self.image.topics_by_id[record.topic_id] = topic
        self.image.topics_by_name[record.name] = topic
        self._delta.topics[record.topic_id] = topic

    def _touch(self, topic_id: Uuid) -> TopicImage:
        """The topic, copied once for this delta, which may change it."""
        touched = self._delta.topics.get(topic_id)
        if touched is not None:
            return touched
        old = self.image.topics_by_id.get(topic_id)
        if old is None:
            raise ValueError(f"no topic has the id {topic_id.hex()}")
        topic = TopicImage(old.name, topic_id, dict(old.partitions))
        self.image.topics_by_id[topic_id] = topic
        self.image.topics_by_name[topic.name] = topic
        self._delta.topics[topic_id] = topic
        return topic

    def _set_partition(self, topic: TopicImage, partition_id: int, partition: PartitionImage) -> None:
        topic.partitions[partition_id] = partition
        self._delta.partitions[TopicPartition(topic.name, partition_id)] = partition

    def _take_partition(self, record: PartitionRecord) -> None:
        partition = PartitionImage(
            record.replicas,
            record.isr,
            BrokerId(record.leader),
            LeaderEpoch(record.leader_epoch),
            record.partition_epoch,
            record.directories,
            record.leader_recovery_state,
            record.removing_replicas,
            record.adding_replicas,
            record.eligible_leader_replicas or (),
            record.last_known_elr or (),
        )
        self._set_partition(self._touch(record.topic_id), record.partition_id, partition)

    def _take_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._touch(record.topic_id)
        old = topic.partitions.get(record.partition_id)
        if old is None:
            raise ValueError(f"topic {topic.name!r} has no partition {record.partition_id}")
        self._set_partition(topic, record.partition_id, merge_partition(old, record))

    def _take_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self.image.topics_by_id.pop(record.topic_id, None)
        if topic is None:
            raise ValueError(f"no topic has the id {record.topic_id.hex()}")
        del self.image.topics_by_name[topic.name]
        key = collision_key(topic.name)
        self._names_by_key[key].remove(topic.name)
        if not self._names_by_key[key]:
            del self._names_by_key[key]
        self._delta.topics[record.topic_id] = None
        self._delta.deleted_topics[record.topic_id] = topic
        for partition_id in topic.partitions:
            self._delta.partitions.pop(TopicPartition(topic.name, partition_id), None)
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        if self.image.configs.pop(resource, None) is not None:
            self._delta.configs[resource] = None

    def _take_clear_elr(self, record: ClearElrRecord) -> None:
        names = [record.topic_name] if record.topic_name else list(self.image.topics_by_name)
        for name in names:
            topic = self.image.topics_by_name.get(name)
            for partition_id, old in list(topic.partitions.items()) if topic is not None else ():
                if topic is not None and (old.eligible_leader_replicas or old.last_known_elr):
                    cleared = msgspec.structs.replace(old, eligible_leader_replicas=(), last_known_elr=())
                    self._set_partition(self._touch(topic.topic_id), partition_id, cleared)

    # configs, features, producer ids

    def _take_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = dict(self.image.configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self.image.configs[resource] = self._delta.configs[resource] = values
        else:
            self.image.configs.pop(resource, None)
            self._delta.configs[resource] = None

    def _take_client_quota(self, record: ClientQuotaRecord) -> None:
        entity = quota_entity({part.entity_type: part.entity_name for part in record.entity})
        values = dict(self.image.client_quotas.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self.image.client_quotas[entity] = self._delta.client_quotas[entity] = values
        else:
            self.image.client_quotas.pop(entity, None)
            self._delta.client_quotas[entity] = None

    def _take_remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        if self.image.acls.pop(record.id, None) is None:
            raise ValueError(f"no ACL has the id {record.id.hex()}")
        self._delta.acls[record.id] = None

    def _take_feature_level(self, record: FeatureLevelRecord) -> None:
        self._delta.features[record.name] = record.feature_level
        if record.feature_level == 0:
            self.image.features.pop(record.name, None)
        else:
            self.image.features[record.name] = record.feature_level

    def _take_producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id < self.image.next_producer_id:
            raise ValueError(f"producer ids go back to {record.next_producer_id}")
        self.image.next_producer_id = self._delta.next_producer_id = record.next_producer_id

    def _take_login_record(self, record: MetadataRecord) -> None:
        key, kept = login_key(record), in_force_after(record)
        if key is None:
            raise ValueError("it is of a kind that is not known here")
        self._delta.logins[key] = kept
        if kept is None:
            self.image.logins.pop(key, None)
        else:
            self.image.logins[key] = kept

    # brokers and controllers

    def _set_broker(self, broker: BrokerImage) -> None:
        self.image.brokers[broker.broker_id] = self._delta.brokers[broker.broker_id] = broker

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise ValueError(f"broker {broker_id} is not registered with epoch {epoch}")
        return broker

    def _take_register_broker(self, record: RegisterBrokerRecord) -> None:
        self._set_broker(
            BrokerImage(
                BrokerId(record.broker_id),
                record.broker_epoch,
                record.incarnation_id,
                _listeners(record),
                _supported_features(record),
                record.rack,
                record.fenced,
                record.in_controlled_shutdown,
                record.log_dirs,
                record.cordoned_log_dirs,
            )
        )

    def _take_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        del self.image.brokers[record.broker_id]
        self._delta.brokers[record.broker_id] = None

    def _take_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced:
            broker = msgspec.structs.replace(broker, is_fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = msgspec.structs.replace(broker, is_in_controlled_shutdown=True)
        if record.log_dirs:
            broker = msgspec.structs.replace(broker, log_directories=record.log_dirs)
        if record.cordoned_log_dirs is not None:
            broker = msgspec.structs.replace(broker, cordoned_log_directories=record.cordoned_log_dirs)
        self._set_broker(broker)

    def _take_register_controller(self, record: RegisterControllerRecord) -> None:
        controller = ControllerImage(
            BrokerId(record.controller_id),
            record.incarnation_id,
            _listeners(record),
            _supported_features(record),
        )
        self.image.controllers[record.controller_id] = self._delta.controllers[record.controller_id] = controller

    def _take_unregister_controller(self, record: UnregisterControllerRecord) -> None:
        if record.controller_id not in self.image.controllers:
            raise ValueError(f"controller {record.controller_id} is not registered")
        del self.image.controllers[record.controller_id]
        self._delta.controllers[record.controller_id] = None


def _listeners(record: RegisterBrokerRecord | RegisterControllerRecord) -> tuple[BrokerListener, ...]:
    return tuple(
        BrokerListener(point.name, point.host, point.port, point.security_protocol) for point in record.end_points
    )


def _supported_features(record: RegisterBrokerRecord | RegisterControllerRecord) -> tuple[tuple[str, int, int], ...]:
    """(name, lowest level, highest level) of each."""
    return tuple(
        (feature.name, feature.min_supported_version, feature.max_supported_version) for feature in record.features
    )


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """The ACL that a record adds."""
    _, *fields = astuple(record)
    return Acl(*fields)


def merge_partition(old: PartitionImage, change: PartitionChangeRecord) -> PartitionImage:
    """The partition after `change`. A named leader, also the same one or none, begins a new leader epoch."""
    leader, leader_epoch = old.leader, old.leader_epoch
    if change.leader != LEADER_UNCHANGED:
        leader, leader_epoch = BrokerId(change.leader), LeaderEpoch(old.leader_epoch + 1)
    directories = old.directories
    if change.directories is not None:
        directories = change.directories
    elif change.replicas is not None:
        known = dict(zip(old.replicas, old.directories, strict=False))
        directories = tuple(known.get(replica, UNASSIGNED_DIRECTORY) for replica in change.replicas)
    recovery = change.leader_recovery_state
    return PartitionImage(
        _changed(change.replicas, old.replicas),
        _changed(change.isr, old.isr),
        leader,
        leader_epoch,
        old.partition_epoch + 1,
        directories,
        old.leader_recovery_state if recovery < 0 else recovery,
        _changed(change.removing_replicas, old.removing_replicas),
        _changed(change.adding_replicas, old.adding_replicas),
        _changed(change.eligible_leader_replicas, old.eligible_leader_replicas),
        _changed(change.last_known_elr, old.last_known_elr),
    )


def _changed(new: tuple[int, ...] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else new
