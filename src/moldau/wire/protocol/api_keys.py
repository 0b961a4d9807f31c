"""The APIs of the protocol by key: versions, message classes and header versions of the supported ones.

Adding an API is a declaration in `messages/` and a row in `API_VERSIONS`.
"""

from __future__ import annotations

import importlib
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from moldau.errors import ProtocolError

if TYPE_CHECKING:
    from moldau.wire.protocol.schema import Request


class ApiKey(IntEnum):
    """Every key of Apache Kafka 4.4, supported or not."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


NEVER: Final = 32_767
"""`flexible_from` of an API without a flexible version."""


class ApiVersionRange(msgspec.Struct, frozen=True):
    """One declared API: its versions (inclusive), the first flexible one, and its two classes.

    ApiVersions returns `advertised_min_version`. Requests below `min_version` close the connection.
    """

    min_version: int
    max_version: int
    flexible_from: int
    family: str
    """The module of `messages/` that declares it: imported at first use, for a fast start."""
    name: str
    advertised_min_version: int

    @property
    def request(self) -> type[msgspec.Struct]:
        """The class of the API's requests, imported at first use."""
        return self._message("Request")

    @property
    def response(self) -> type[msgspec.Struct]:
        """The class of the API's responses, imported at first use."""
        return self._message("Response")

    def _message(self, kind: str) -> type[msgspec.Struct]:
        module = importlib.import_module(f"moldau.wire.protocol.messages.{self.family}")
        return cast("type[msgspec.Struct]", getattr(module, self.name + kind))


def _api(
    min_version: int,
    max_version: int,
    flexible_from: int,
    family: str,
    name: str,
    *,
    advertised_min_version: int | None = None,
) -> ApiVersionRange:
    advertised = min_version if advertised_min_version is None else advertised_min_version
    return ApiVersionRange(min_version, max_version, flexible_from, family, name, advertised)


API_VERSIONS: Final[dict[ApiKey, ApiVersionRange]] = {
    # KAFKA-18659: librdkafka before 2.8 switches compression off unless Produce 0 is advertised
    ApiKey.PRODUCE: _api(3, 13, 9, "produce", "Produce", advertised_min_version=0),
    ApiKey.FETCH: _api(4, 18, 12, "fetch", "Fetch"),
    ApiKey.LIST_OFFSETS: _api(1, 11, 6, "list_offsets", "ListOffsets"),
    ApiKey.METADATA: _api(0, 13, 9, "metadata", "Metadata"),
    ApiKey.OFFSET_COMMIT: _api(2, 10, 8, "offsets", "OffsetCommit"),
    ApiKey.OFFSET_FETCH: _api(1, 10, 6, "offsets", "OffsetFetch"),
    ApiKey.FIND_COORDINATOR: _api(0, 6, 3, "coordinators", "FindCoordinator"),
    ApiKey.JOIN_GROUP: _api(0, 9, 6, "groups_classic", "JoinGroup"),
    ApiKey.HEARTBEAT: _api(0, 4, 4, "groups_classic", "Heartbeat"),
    ApiKey.LEAVE_GROUP: _api(0, 5, 4, "groups_classic", "LeaveGroup"),
    ApiKey.SYNC_GROUP: _api(0, 5, 4, "groups_classic", "SyncGroup"),
    ApiKey.DESCRIBE_GROUPS: _api(0, 6, 5, "groups_classic", "DescribeGroups"),
    ApiKey.LIST_GROUPS: _api(0, 5, 3, "groups_classic", "ListGroups"),
    ApiKey.SASL_HANDSHAKE: _api(0, 1, NEVER, "sasl", "SaslHandshake"),
    ApiKey.API_VERSIONS: _api(0, 5, 3, "api_versions", "ApiVersions"),
    ApiKey.CREATE_TOPICS: _api(2, 7, 5, "topics", "CreateTopics"),
    ApiKey.DELETE_TOPICS: _api(1, 6, 4, "topics", "DeleteTopics"),
    ApiKey.DELETE_RECORDS: _api(0, 2, 2, "delete_records", "DeleteRecords"),
    ApiKey.INIT_PRODUCER_ID: _api(0, 5, 2, "producer_ids", "InitProducerId"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _api(2, 4, 4, "leader_epochs", "OffsetForLeaderEpoch"),
    ApiKey.ADD_PARTITIONS_TO_TXN: _api(0, 5, 3, "transactions", "AddPartitionsToTxn"),
    ApiKey.ADD_OFFSETS_TO_TXN: _api(0, 4, 3, "transactions", "AddOffsetsToTxn"),
    ApiKey.END_TXN: _api(0, 5, 3, "transactions", "EndTxn"),
    ApiKey.WRITE_TXN_MARKERS: _api(1, 2, 1, "transactions", "WriteTxnMarkers"),
    ApiKey.TXN_OFFSET_COMMIT: _api(0, 6, 3, "transactions", "TxnOffsetCommit"),
    ApiKey.DESCRIBE_ACLS: _api(1, 3, 2, "acls", "DescribeAcls"),
    ApiKey.CREATE_ACLS: _api(1, 3, 2, "acls", "CreateAcls"),
    ApiKey.DELETE_ACLS: _api(1, 3, 2, "acls", "DeleteAcls"),
    ApiKey.DESCRIBE_CONFIGS: _api(1, 4, 4, "configs", "DescribeConfigs"),
    ApiKey.ALTER_CONFIGS: _api(0, 2, 2, "configs", "AlterConfigs"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _api(1, 2, 2, "log_dirs", "AlterReplicaLogDirs"),
    ApiKey.DESCRIBE_LOG_DIRS: _api(1, 5, 2, "log_dirs", "DescribeLogDirs"),
    ApiKey.SASL_AUTHENTICATE: _api(0, 2, 2, "sasl", "SaslAuthenticate"),
    ApiKey.CREATE_PARTITIONS: _api(0, 3, 2, "partitions", "CreatePartitions"),
    ApiKey.CREATE_DELEGATION_TOKEN: _api(1, 3, 2, "delegation_tokens", "CreateDelegationToken"),
    ApiKey.RENEW_DELEGATION_TOKEN: _api(1, 2, 2, "delegation_tokens", "RenewDelegationToken"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _api(1, 2, 2, "delegation_tokens", "ExpireDelegationToken"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _api(1, 3, 2, "delegation_tokens", "DescribeDelegationToken"),
    ApiKey.DELETE_GROUPS: _api(0, 3, 2, "group_admin", "DeleteGroups"),
    ApiKey.ELECT_LEADERS: _api(0, 2, 2, "partitions", "ElectLeaders"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _api(0, 1, 1, "configs", "IncrementalAlterConfigs"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _api(0, 1, 0, "partitions", "AlterPartitionReassignments"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _api(0, 0, 0, "partitions", "ListPartitionReassignments"),
    ApiKey.OFFSET_DELETE: _api(0, 0, NEVER, "group_admin", "OffsetDelete"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _api(0, 1, 1, "client_quotas", "DescribeClientQuotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: _api(0, 1, 1, "client_quotas", "AlterClientQuotas"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _api(0, 0, 0, "scram", "DescribeUserScramCredentials"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _api(0, 0, 0, "scram", "AlterUserScramCredentials"),
    ApiKey.DESCRIBE_QUORUM: _api(0, 2, 0, "cluster", "DescribeQuorum"),
    ApiKey.UPDATE_FEATURES: _api(0, 2, 0, "cluster", "UpdateFeatures"),
    ApiKey.DESCRIBE_CLUSTER: _api(0, 2, 0, "cluster", "DescribeCluster"),
    ApiKey.DESCRIBE_PRODUCERS: _api(0, 0, 0, "producer_ids", "DescribeProducers"),
    ApiKey.UNREGISTER_BROKER: _api(0, 0, 0, "cluster", "UnregisterBroker"),
    ApiKey.DESCRIBE_TRANSACTIONS: _api(0, 0, 0, "transactions", "DescribeTransactions"),
    ApiKey.LIST_TRANSACTIONS: _api(0, 2, 0, "transactions", "ListTransactions"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _api(0, 1, 0, "consumer_groups", "ConsumerGroupHeartbeat"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _api(0, 1, 0, "consumer_groups", "ConsumerGroupDescribe"),
    ApiKey.LIST_CONFIG_RESOURCES: _api(0, 1, 0, "configs", "ListConfigResources"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _api(0, 0, 0, "partitions", "DescribeTopicPartitions"),
    ApiKey.ADD_RAFT_VOTER: _api(0, 1, 0, "raft_voters", "AddRaftVoter"),
    ApiKey.REMOVE_RAFT_VOTER: _api(0, 0, 0, "raft_voters", "RemoveRaftVoter"),
    ApiKey.UNREGISTER_CONTROLLER: _api(0, 0, 0, "cluster", "UnregisterController"),
}
"""The APIs of a listener for clients, in the order of keys, which is their order in the response to ApiVersions."""

CONTROLLER_API_VERSIONS: Final[dict[ApiKey, ApiVersionRange]] = {
    ApiKey.VOTE: _api(0, 2, 0, "quorum", "Vote"),
    ApiKey.BEGIN_QUORUM_EPOCH: _api(0, 1, 1, "quorum", "BeginQuorumEpoch"),
    ApiKey.END_QUORUM_EPOCH: _api(0, 1, 1, "quorum", "EndQuorumEpoch"),
    ApiKey.ALTER_PARTITION: _api(2, 3, 0, "in_sync_replicas", "AlterPartition"),
    ApiKey.ENVELOPE: _api(0, 0, 0, "envelope", "Envelope"),
    ApiKey.FETCH_SNAPSHOT: _api(0, 1, 0, "quorum", "FetchSnapshot"),
    ApiKey.BROKER_REGISTRATION: _api(0, 4, 0, "broker_lifecycle", "BrokerRegistration"),
    ApiKey.BROKER_HEARTBEAT: _api(0, 2, 0, "broker_lifecycle", "BrokerHeartbeat"),
    ApiKey.ALLOCATE_PRODUCER_IDS: _api(0, 0, 0, "producer_ids", "AllocateProducerIds"),
    ApiKey.CONTROLLER_REGISTRATION: _api(0, 0, 0, "broker_lifecycle", "ControllerRegistration"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _api(0, 0, 0, "broker_lifecycle", "AssignReplicasToDirs"),
    ApiKey.UPDATE_RAFT_VOTER: _api(0, 0, 0, "raft_voters", "UpdateRaftVoter"),
}
"""The APIs between nodes, on the controller listener. A listener for clients closes the connection."""

_DECLARED: Final = {**API_VERSIONS, **CONTROLLER_API_VERSIONS}
_KEYS: Final[dict[str, ApiKey]] = {f"{row.name}Request": key for key, row in _DECLARED.items()}
_ROWS: Final[dict[int, ApiVersionRange]] = {int(key): row for key, row in _DECLARED.items()}


def api_key_of(request: Request[Any]) -> ApiKey:
    """The API of `request`."""
    return _KEYS[type(request).__name__]


def request_header_version(api_key: int, version: int) -> int:
    """2 for a flexible request, else 1. An ApiVersions request above v2 is flexible even in an unknown version.

    Raises ProtocolError for an undeclared key.
    """
    return 2 if version >= declared_api(api_key).flexible_from else 1


def response_header_version(api_key: int, version: int) -> int:
    """1 for a flexible response, else 0; always 0 for ApiVersions (KIP-511). Raises ProtocolError for an undeclared
    key."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version >= declared_api(api_key).flexible_from else 0


def declared_api(api_key: int) -> ApiVersionRange:
    """The API of this key, for any listener. Raises ProtocolError for an undeclared key."""
    row = _ROWS.get(api_key)
    if row is None:
        raise ProtocolError(f"api key {api_key} is not declared")
    return row


def is_unknown_api_versions(api_key: int, version: int) -> bool:
    """Whether it is an ApiVersions request of an unknown version, which gets the v0 response (KIP-511)."""
    return api_key == ApiKey.API_VERSIONS and not 0 <= version <= API_VERSIONS[ApiKey.API_VERSIONS].max_version
