"""What the controller can be asked: requests of the protocol, and what only its own process asks."""

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
    """The controller became active: an empty log gets the cluster's first records, an open transaction is aborted."""

    bootstrap_records: tuple[MetadataRecord, ...]
    """What `bootstrap.checkpoint` holds, in its order."""


class QuorumReplica(msgspec.Struct, frozen=True):
    """How far a replica of the metadata log is, as the leader knows it. Times in ms, None: never.

    `directory_id` is zero where the voters are configured, not kept in the log.
    """

    replica_id: BrokerId
    directory_id: Uuid
    log_end_offset: int
    fetched_ms: int | None
    caught_up_ms: int | None

    def in_wall_time(self, offset_ms: int) -> QuorumReplica:
        """The same with both times `offset_ms` later: steady time becomes wall time."""
        return msgspec.structs.replace(
            self,
            fetched_ms=None if self.fetched_ms is None else self.fetched_ms + offset_ms,
            caught_up_ms=None if self.caught_up_ms is None else self.caught_up_ms + offset_ms,
        )


class QuorumDescription(msgspec.Struct, frozen=True):
    """The quorum, as one of its nodes sees it: the replicas are known to the leader only. `listeners`: of each voter's
    controller."""

    leader_id: BrokerId
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    listeners: dict[int, tuple[BrokerListener, ...]]


class SuspectBroker(msgspec.Struct, frozen=True):
    """A broker may have died. `broker_epoch`: of the last heartbeat on the connection that has ended; None: nobody
    listens where its node's controller did, which says nothing of a broker that sends heartbeats. `is_reset`: the
    connection was reset, which a network does, too, and perhaps at one end alone."""

    broker_id: int
    broker_epoch: int | None
    is_reset: bool = False


class FenceStaleBroker(msgspec.Struct, frozen=True):
    """Time to look for a broker that is not heard of any more."""


class BalanceLeaders(msgspec.Struct, frozen=True):
    """Time to give leadership back to preferred replicas (`auto.leader.rebalance.enable`)."""


class ElectUncleanly(msgspec.Struct, frozen=True):
    """Time to look for partitions without a leader that may have any (`unclean.leader.election.enable`)."""


class SweepTokens(msgspec.Struct, frozen=True):
    """Time to remove the delegation tokens that have expired (`delegation.token.expiry.check.interval.ms`)."""


Round = FenceStaleBroker | BalanceLeaders | ElectUncleanly | SweepTokens
"""What the active controller asks of itself, again and again."""


class MeteredRequest(msgspec.Struct, frozen=True):
    """A request that creates or deletes partitions, and the quota that its client is held to (KIP-599)."""

    request: CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest
    quota: MutationQuota


class TokenRequest(msgspec.Struct, frozen=True):
    """A change of a delegation token, and who asks for it, TYPE:NAME: only some may change a token."""

    request: CreateDelegationTokenRequest | RenewDelegationTokenRequest | ExpireDelegationTokenRequest
    requester: str


STRICT_FROM = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""What is held to the quota of its client, and from which version it is refused above it (KIP-599)."""


def metered(
    request: CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest, quota: MutationQuota | None
) -> ControllerRequest:
    """`request`, held to `quota` if there is one."""
    return request if quota is None else MeteredRequest(request, quota)


class ControllerReady(msgspec.Struct, frozen=True):
    """The answer to what only the controller's own process asks."""


# names of types only: their modules are imported with the first request of theirs
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
