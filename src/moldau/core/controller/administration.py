"""Rare requests of operators and brokers to the controller.

Imported with the first such request, so that a start is faster.
"""

from __future__ import annotations

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.access_control import create_acls, delete_acls
from moldau.core.controller.assignments import Charge
from moldau.core.controller.brokers import unregister_broker
from moldau.core.controller.client_quotas import alter_client_quotas
from moldau.core.controller.config_alterations import alter_configs, incremental_alter_configs
from moldau.core.controller.delegation_tokens import change_token
from moldau.core.controller.features import update_features
from moldau.core.controller.in_sync_replicas import alter_partition
from moldau.core.controller.leader_elections import elect_leaders
from moldau.core.controller.partitions import create_partitions
from moldau.core.controller.producer_ids import allocate_producer_ids
from moldau.core.controller.reassignments import alter_partition_reassignments
from moldau.core.controller.registrations import unregister_controller
from moldau.core.controller.requests import AdministrationRequest, AdministrationResponse, TokenRequest
from moldau.core.controller.scram import alter_user_scram_credentials
from moldau.core.metadata.fold import MetadataFold, MetadataRecord
from moldau.ports import Random
from moldau.types import Pausing
from moldau.wire.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from moldau.wire.protocol.messages.client_quotas import AlterClientQuotasRequest
from moldau.wire.protocol.messages.cluster import (
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
)
from moldau.wire.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from moldau.wire.protocol.messages.in_sync_replicas import AlterPartitionRequest
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
)
from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsRequest
from moldau.wire.protocol.messages.scram import AlterUserScramCredentialsRequest


def administer(
    state: MetadataFold,
    settings: BrokerSettings,
    random: Random,
    kraft_version: int,
    request: AdministrationRequest,
    charge: Charge,
    wall_ms: int,
) -> Pausing[tuple[list[MetadataRecord], AdministrationResponse]]:
    """The records and the response of one request. Raises KafkaError if the response has no field for the error."""
    image = state.image
    match request:
        case IncrementalAlterConfigsRequest():
            return (yield from incremental_alter_configs(image, settings, request))
        case AlterConfigsRequest():
            return (yield from alter_configs(image, settings, request))
        case AlterClientQuotasRequest():
            return (yield from alter_client_quotas(image, request))
        case AlterUserScramCredentialsRequest():
            return (yield from alter_user_scram_credentials(state.image.logins, request))
        case TokenRequest():
            return (yield from change_token(image, settings, random, request, wall_ms))
        case CreateAclsRequest():
            return (yield from create_acls(image, random, request))
        case DeleteAclsRequest():
            return (yield from delete_acls(image, request))
        case CreatePartitionsRequest():
            return (yield from create_partitions(image, random, request, charge))
        case ElectLeadersRequest():
            return (yield from elect_leaders(image, settings, request))
        case AlterPartitionReassignmentsRequest():
            return (yield from alter_partition_reassignments(image, request))
        case UpdateFeaturesRequest():
            return (yield from update_features(image, settings, kraft_version, request))
        case UnregisterBrokerRequest():
            return unregister_broker(image, settings, request)
        case UnregisterControllerRequest():
            return unregister_controller(image, settings, request)
        case AllocateProducerIdsRequest():
            return allocate_producer_ids(image, request)
        case AlterPartitionRequest():
            return (yield from alter_partition(image, settings, request))
