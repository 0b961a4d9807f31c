"""The requests of the controller: those of the protocol, and those of its own process."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import BrokerListener
from moldau.types import BrokerId, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.broker_lifecycle import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from moldau.wire.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from moldau.core.quotas.usage import MutationQuota
    from moldau.wire.protocol.messages.acls import (
        CreateAclsRequest,
        CreateAclsResponse,
        DeleteAclsRequest,
        DeleteAclsResponse,
    )
    from moldau.wire.protocol.messages.client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from moldau.wire.protocol.messages.cluster import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
        UnregisterControllerRequest,
        UnregisterControllerResponse,
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )
    from moldau.wire.protocol.messages.configs import (
        AlterConfigsRequest,
        AlterConfigsResponse,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from moldau.wire.protocol.messages.delegation_tokens import (
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
        ExpireDelegationTokenRequest,
        ExpireDelegationTokenResponse,
        RenewDelegationTokenRequest,
        RenewDelegationTokenResponse,
    )
    from moldau.wire.protocol.messages.in_sync_replicas import AlterPartitionRequest, AlterPartitionResponse
    from moldau.wire.protocol.messages.partitions import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        ElectLeadersRequest,
        ElectLeadersResponse,
    )
    from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
    from moldau.wire.protocol.messages.scram import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse


class ActivateController(msgspec.Struct, frozen=True):
    """The controller became active. An empty log gets the first records of the cluster, an open transaction is
    aborted."""

    bootstrap_records: tuple[MetadataRecord, ...]
    """The content of `bootstrap.checkpoint`, in its order."""


class QuorumReplica(msgspec.Struct, frozen=True):
    """The progress of a replica of the metadata log, as the leader knows it. Times in ms; None: never.

    `directory_id` is zero for configured voters, which are not in the log.
    """

    replica_id: BrokerId
    directory_id: Uuid
    log_end_offset: int
    fetched_ms: int | None
    caught_up_ms: int | None

    def in_wall_time(self, offset_ms: int) -> QuorumReplica:
        """The same with both times moved by `offset_ms`, from steady to wall time."""
        return msgspec.structs.replace(
            self,
            fetched_ms=None if self.fetched_ms is None else self.fetched_ms + offset_ms,
            caught_up_ms=None if self.caught_up_ms is None else self.caught_up_ms + offset_ms,
        )


class QuorumDescription(msgspec.Struct, frozen=True):
    """The quorum as one node sees it. Only the leader knows the replicas. `listeners`: of each voter."""

    leader_id: BrokerId
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    listeners: dict[int, tuple[BrokerListener, ...]]


class SuspectBroker(msgspec.Struct, frozen=True):
    """A broker may have died. `broker_epoch`: of the last heartbeat on the closed connection. None: the controller
    listener of its node refuses connections, which says nothing about a broker that sends heartbeats. `is_reset`: the
    connection was reset, which a network can do too, perhaps at one end only."""

    broker_id: int
    broker_epoch: int | None
    is_reset: bool = False


class FenceStaleBroker(msgspec.Struct, frozen=True):
    """Check the sessions of brokers."""


class BalanceLeaders(msgspec.Struct, frozen=True):
    """Return leadership to preferred replicas (`auto.leader.rebalance.enable`)."""


class ElectUncleanly(msgspec.Struct, frozen=True):
    """Look for leaderless partitions that allow unclean elections (`unclean.leader.election.enable`)."""


class SweepTokens(msgspec.Struct, frozen=True):
    """Remove expired delegation tokens (`delegation.token.expiry.check.interval.ms`)."""


Round = FenceStaleBroker | BalanceLeaders | ElectUncleanly | SweepTokens
"""A request of the active controller to itself, sent periodically."""


class MeteredRequest(msgspec.Struct, frozen=True):
    """A request that creates or deletes partitions, with the quota of its client (KIP-599)."""

    request: CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest
    quota: MutationQuota


class TokenRequest(msgspec.Struct, frozen=True):
    """A change of a delegation token and the requester, TYPE:NAME, because only some may change a token."""

    request: CreateDelegationTokenRequest | RenewDelegationTokenRequest | ExpireDelegationTokenRequest
    requester: str


STRICT_FROM = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""The APIs with a quota for each client, and the version from which a request above the quota is rejected (KIP-599)."""


def metered(
    request: CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest, quota: MutationQuota | None
) -> ControllerRequest:
    """`request` with `quota`, if any."""
    return request if quota is None else MeteredRequest(request, quota)


class ControllerReady(msgspec.Struct, frozen=True):
    """The response to a request of the controller's own process."""


# only type names: their modules are imported with the first such request
AdministrationRequest: TypeAlias = (
    "AlterConfigsRequest | IncrementalAlterConfigsRequest"
    " | CreatePartitionsRequest | ElectLeadersRequest | AlterPartitionReassignmentsRequest"
    " | UpdateFeaturesRequest | UnregisterBrokerRequest | UnregisterControllerRequest | AlterClientQuotasRequest"
    " | CreateAclsRequest | DeleteAclsRequest"
    " | AlterUserScramCredentialsRequest | AllocateProducerIdsRequest | AlterPartitionRequest | TokenRequest"
)
AdministrationResponse: TypeAlias = (
    "AlterConfigsResponse | IncrementalAlterConfigsResponse"
    " | CreatePartitionsResponse | ElectLeadersResponse | AlterPartitionReassignmentsResponse"
    " | UpdateFeaturesResponse | UnregisterBrokerResponse | UnregisterControllerResponse | AlterClientQuotasResponse"
    " | CreateAclsResponse | DeleteAclsResponse"
    " | AlterUserScramCredentialsResponse | AllocateProducerIdsResponse | AlterPartitionResponse"
    " | CreateDelegationTokenResponse | RenewDelegationTokenResponse | ExpireDelegationTokenResponse"
)

AskedRequest: TypeAlias = "CoreRequest | AdministrationRequest"
ControllerRequest: TypeAlias = "AskedRequest | Round"
ControllerResponse: TypeAlias = "CoreResponse | AdministrationResponse"

CoreRequest = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | BrokerRegistrationRequest
    | BrokerHeartbeatRequest
    | AssignReplicasToDirsRequest
    | ControllerRegistrationRequest
    | ActivateController
    | SuspectBroker
    | MeteredRequest
)
CoreResponse = (
    CreateTopicsResponse
    | DeleteTopicsResponse
    | BrokerRegistrationResponse
    | BrokerHeartbeatResponse
    | AssignReplicasToDirsResponse
    | ControllerRegistrationResponse
    | ControllerReady
)
