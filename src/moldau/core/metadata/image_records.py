"""An image as the records of a snapshot. Applying them gives the same image."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import astuple

from moldau.core.metadata.features import METADATA_VERSION
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import (
    BrokerImage,
    BrokerListener,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from moldau.types import Uuid
from moldau.wire.protocol.acls import Acl
from moldau.wire.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """The records in Kafka's order, each kind sorted. ACLs and login records come last, oldest first.

    The metadata version comes first, because the others are read by it.
    """
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name, image.features[name])
    for broker_id in sorted(image.brokers):
        yield _broker_record(image.brokers[broker_id])
    for controller_id in sorted(image.controllers):
        yield _controller_record(image.controllers[controller_id])
    for name in sorted(image.topics_by_name):
        topic = image.topics_by_name[name]
        yield TopicRecord(topic.name, topic.topic_id)
        for partition_id in sorted(topic.partitions):
            yield _partition_record(topic, partition_id, topic.partitions[partition_id])
    for resource in sorted(image.configs):
        for name, value in sorted(image.configs[resource].items()):
            yield ConfigRecord(resource.resource_type, resource.name, name, value)
    for entity, quotas in sorted(image.client_quotas.items(), key=lambda item: repr(item[0])):
        data = tuple(EntityData(kind, name) for kind, name in entity)
        for key, limit in sorted(quotas.items()):
            yield ClientQuotaRecord(data, key, limit, False)
    if image.next_producer_id:
        yield ProducerIdsRecord(-1, -1, image.next_producer_id)
    for acl_id, acl in image.acls.items():
        yield acl_record(acl_id, acl)
    yield from image.logins.values()


def acl_record(acl_id: Uuid, acl: Acl) -> AccessControlEntryRecord:
    """The record that adds an ACL."""
    return AccessControlEntryRecord(acl_id, *astuple(acl))


def _broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(BrokerEndpoint(*_point(listener)) for listener in broker.listeners),
        features=tuple(BrokerFeature(*feature) for feature in broker.features),
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_in_controlled_shutdown,
        log_dirs=broker.log_directories,
        cordoned_log_dirs=broker.cordoned_log_directories,
    )


def _controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        end_points=tuple(ControllerEndpoint(*_point(listener)) for listener in controller.listeners),
        features=tuple(ControllerFeature(*feature) for feature in controller.features),
    )


def _point(listener: BrokerListener) -> tuple[str, str, int, int]:
    return listener.name, listener.host, listener.port, listener.security_protocol


def _partition_record(topic: TopicImage, partition_id: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.eligible_leader_replicas or None,
        last_known_elr=partition.last_known_elr or None,
    )
