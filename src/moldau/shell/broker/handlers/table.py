"""Which module serves which API. Versions come from `wire.protocol.api_keys`, the one place that knows them."""

from __future__ import annotations

from moldau.shell.network.dispatch import HandlerSpec, handler_spec
from moldau.wire.protocol.api_keys import ApiKey

_PACKAGE = "moldau.shell.broker.handlers."
_RAW = (ApiKey.PRODUCE, ApiKey.FETCH)
"""They get frames, and the requests that are long to decode in another function."""
_ENDING_WITH_CONNECTION = (
    *(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP),  # they wait for other members of the group
    # they wait, and change nothing
    *(ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH),
    *(ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_LOG_DIRS),
    *(ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS),
)

# the function is called as the API is: act_list_offsets
_APIS_BY_MODULE: dict[str, tuple[ApiKey, ...]] = {
    "produce": (ApiKey.PRODUCE,),
    "fetch": (ApiKey.FETCH,),
    "list_offsets": (ApiKey.LIST_OFFSETS,),
    "metadata": (ApiKey.METADATA,),
    "group_offsets": (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.TXN_OFFSET_COMMIT),
    "coordinators": (ApiKey.FIND_COORDINATOR,),
    "group_membership": (ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP),
    "group_admin": (ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS),
    "log_dirs": (ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.DESCRIBE_LOG_DIRS),
    "group_deletion": (ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE),
    "api_versions": (ApiKey.API_VERSIONS,),
    "topics": (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS),
    "delete_records": (ApiKey.DELETE_RECORDS,),
    "producer_ids": (ApiKey.INIT_PRODUCER_ID,),
    "transactions": (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
    ),
    "transaction_admin": (ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS),
    "acls": (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
    "configs": (
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
    ),
    "partitions": (
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ),
    "client_quotas": (ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS),
    "scram": (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS),
    "cluster": (ApiKey.DESCRIBE_QUORUM, ApiKey.UPDATE_FEATURES, ApiKey.DESCRIBE_CLUSTER, ApiKey.UNREGISTER_BROKER),
    "raft_voters": (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER),
    "consumer_groups": (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE),
    "leader_epochs": (ApiKey.OFFSET_FOR_LEADER_EPOCH,),
    "producers": (ApiKey.DESCRIBE_PRODUCERS,),
}


def handler_specs() -> dict[int, HandlerSpec]:
    """The handlers of a broker's listener, by key."""
    return {
        int(key): handler_spec(
            key, _PACKAGE + module, is_raw=key in _RAW, ends_with_connection=key in _ENDING_WITH_CONNECTION
        )
        for module, keys in _APIS_BY_MODULE.items()
        for key in keys
    }
