"""What the controller can be asked: requests of the protocol, and what only its own process asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import BrokerListener
from moldau.types import BrokerId, ProducerId, Uuid
from moldau.wire.protocol.messages.broker_lifecycle import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from moldau.wire.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from moldau.core.quotas.usage import MutationQuota
    from moldau.wire.protocol.messages.client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from moldau.wire.protocol.messages.cluster import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )
    from moldau.wire.protocol.messages.configs import (
        AlterConfigsRequest,
        AlterConfigsResponse,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from moldau.wire.protocol.messages.partitions import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        ElectLeadersRequest,
        ElectLeadersResponse,
    )
    from moldau.wire.protocol.messages.scram import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse


class ActivateController(msgspec.Struct, frozen=True):
    """The controller became active: an empty log gets the cluster's first records, an open transaction is aborted."""

    bootstrap_records: tuple[MetadataRecord, ...]
    """What `bootstrap.checkpoint` holds, in its order."""


class RegisterController(msgspec.Struct, frozen=True):
    """A controller of the quorum says what it supports and where it listens."""

    controller_id: BrokerId
    incarnation_id: Uuid
    listeners: tuple[BrokerListener, ...]


class AllocateProducerIds(msgspec.Struct, frozen=True):
    """A broker needs producer ids to give to clients."""

    broker_id: BrokerId
    broker_epoch: int


class ProducerIdBlock(msgspec.Struct, frozen=True):
    """`count` ids from `first_producer_id` on, never given to anybody else."""

    first_producer_id: ProducerId
    count: int


class QuorumDescription(msgspec.Struct, frozen=True):
    """The quorum of one voter, as its leader sees it. `directory_id` is zero where the voters are configured, not kept
    in the log."""

    leader_id: BrokerId
    leader_epoch: int
    high_watermark: int
    log_end_offset: int
    directory_id: Uuid
    listeners: tuple[BrokerListener, ...]


class MeteredRequest(msgspec.Struct, frozen=True):
    """A request that creates or deletes partitions, and the quota that its client is held to (KIP-599)."""

    request: CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest
    quota: MutationQuota


def metered(
    request: CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest, quota: MutationQuota | None
) -> ControllerRequest:
    """`request`, held to `quota` if there is one."""
    return request if quota is None else MeteredRequest(request, quota)


class ControllerReady(msgspec.Struct, frozen=True):
    """The answer to ActivateController and RegisterController."""


# names of types only: their modules are imported with the first request of theirs
AdministrationRequest: TypeAlias = (
    "AlterConfigsRequest | IncrementalAlterConfigsRequest"
    " | CreatePartitionsRequest | ElectLeadersRequest | AlterPartitionReassignmentsRequest"
    " | UpdateFeaturesRequest | UnregisterBrokerRequest | AlterClientQuotasRequest"
    " | AlterUserScramCredentialsRequest"
)
AdministrationResponse: TypeAlias = (
    "AlterConfigsResponse | IncrementalAlterConfigsResponse"
    " | CreatePartitionsResponse | ElectLeadersResponse | AlterPartitionReassignmentsResponse"
    " | UpdateFeaturesResponse | UnregisterBrokerResponse | AlterClientQuotasResponse"
    " | AlterUserScramCredentialsResponse"
)

ControllerRequest: TypeAlias = "CoreRequest | AdministrationRequest"
ControllerResponse: TypeAlias = "CoreResponse | AdministrationResponse"

CoreRequest = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | AllocateProducerIds
    | BrokerRegistrationRequest
    | BrokerHeartbeatRequest
    | AssignReplicasToDirsRequest
    | RegisterController
    | ActivateController
    | MeteredRequest
)
CoreResponse = (
    CreateTopicsResponse
    | DeleteTopicsResponse
    | ProducerIdBlock
    | BrokerRegistrationResponse
    | BrokerHeartbeatResponse
    | AssignReplicasToDirsResponse
    | ControllerReady
)
