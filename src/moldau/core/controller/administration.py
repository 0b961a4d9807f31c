"""What operators ask of the controller now and then. Imported with the first such request: a start does without."""

from __future__ import annotations

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.brokers import unregister_broker
from moldau.core.controller.features import update_features
from moldau.core.controller.leader_elections import elect_leaders
from moldau.core.controller.partitions import create_partitions
from moldau.core.controller.reassignments import alter_partition_reassignments
from moldau.core.controller.requests import AdministrationRequest, AdministrationResponse
from moldau.core.metadata.fold import MetadataFold, MetadataRecord
from moldau.ports import Random
from moldau.wire.protocol.messages.cluster import UnregisterBrokerRequest, UpdateFeaturesRequest
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
)


def administer(
    state: MetadataFold, settings: BrokerSettings, random: Random, kraft_version: int, request: AdministrationRequest
) -> tuple[list[MetadataRecord], AdministrationResponse]:
    """The records and the answer of one request. Raises KafkaError where the answer has no place for it."""
    image = state.image
    match request:
        case CreatePartitionsRequest():
            return create_partitions(image, random, request)
        case ElectLeadersRequest():
            return elect_leaders(image, request)
        case AlterPartitionReassignmentsRequest():
            return alter_partition_reassignments(image, request)
        case UpdateFeaturesRequest():
            return update_features(image, settings, kraft_version, request)
        case UnregisterBrokerRequest():
            return unregister_broker(image, settings, request)
