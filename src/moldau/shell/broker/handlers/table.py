"""Which module serves which API. Versions come from `wire.protocol.api_keys`, the one place that knows them."""

from __future__ import annotations

from moldau.shell.network.dispatch import HandlerSpec, handler_spec
from moldau.shell.network.rights import (
    ALTER_CLUSTER,
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    ALTER_TOPIC,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Right,
)
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
# an API stands beside the rights that its handler asks for: which of them depends on what a request names
_APIS_BY_MODULE: dict[str, dict[ApiKey, tuple[Right, ...]]] = {
    "produce": {
        ApiKey.PRODUCE: (WRITE_TOPIC, WRITE_TRANSACTIONAL_ID),
    },
    "fetch": {
        ApiKey.FETCH: (READ_TOPIC, CLUSTER_ACTION),
    },
    "list_offsets": {
        ApiKey.LIST_OFFSETS: (DESCRIBE_TOPIC,),
    },
    "metadata": {
        ApiKey.METADATA: (CREATE_TOPIC, DESCRIBE_TOPIC, CREATE_CLUSTER),
    },
    "group_offsets": {
        ApiKey.OFFSET_COMMIT: (READ_TOPIC, READ_GROUP),
        ApiKey.OFFSET_FETCH: (DESCRIBE_TOPIC, DESCRIBE_GROUP),
        ApiKey.TXN_OFFSET_COMMIT: (READ_TOPIC, READ_GROUP, WRITE_TRANSACTIONAL_ID),
    },
    "coordinators": {
        ApiKey.FIND_COORDINATOR: (DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID),
    },
    "group_membership": {
        ApiKey.JOIN_GROUP: (READ_GROUP,),
        ApiKey.HEARTBEAT: (READ_GROUP,),
        ApiKey.LEAVE_GROUP: (READ_GROUP,),
        ApiKey.SYNC_GROUP: (READ_GROUP,),
    },
    "group_admin": {
        ApiKey.DESCRIBE_GROUPS: (DESCRIBE_GROUP,),
        ApiKey.LIST_GROUPS: (DESCRIBE_GROUP, DESCRIBE_CLUSTER),
    },
    "log_dirs": {
        ApiKey.ALTER_REPLICA_LOG_DIRS: (ALTER_CLUSTER,),
        ApiKey.DESCRIBE_LOG_DIRS: (DESCRIBE_CLUSTER,),
    },
    "group_deletion": {
        ApiKey.DELETE_GROUPS: (DELETE_GROUP,),
        ApiKey.OFFSET_DELETE: (READ_TOPIC, DELETE_GROUP),
    },
    "api_versions": {
        ApiKey.API_VERSIONS: (),
    },
    "topics": {
        ApiKey.CREATE_TOPICS: (CREATE_TOPIC, CREATE_CLUSTER),
        ApiKey.DELETE_TOPICS: (DELETE_TOPIC,),
    },
    "delete_records": {
        ApiKey.DELETE_RECORDS: (DELETE_TOPIC,),
    },
    "producer_ids": {
        ApiKey.INIT_PRODUCER_ID: (WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE),
    },
    "transactions": {
        ApiKey.ADD_PARTITIONS_TO_TXN: (WRITE_TOPIC, WRITE_TRANSACTIONAL_ID, CLUSTER_ACTION),
        ApiKey.ADD_OFFSETS_TO_TXN: (READ_GROUP, WRITE_TRANSACTIONAL_ID),
        ApiKey.END_TXN: (WRITE_TRANSACTIONAL_ID,),
        ApiKey.WRITE_TXN_MARKERS: (ALTER_CLUSTER, CLUSTER_ACTION),
    },
    "transaction_admin": {
        ApiKey.DESCRIBE_TRANSACTIONS: (DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID),
        ApiKey.LIST_TRANSACTIONS: (DESCRIBE_TRANSACTIONAL_ID,),
    },
    "acls": {
        ApiKey.DESCRIBE_ACLS: (DESCRIBE_CLUSTER,),
        ApiKey.CREATE_ACLS: (ALTER_CLUSTER,),
        ApiKey.DELETE_ACLS: (ALTER_CLUSTER,),
    },
    "configs": {
        ApiKey.DESCRIBE_CONFIGS: (DESCRIBE_CONFIGS_TOPIC, DESCRIBE_CONFIGS_GROUP, DESCRIBE_CONFIGS_CLUSTER),
        ApiKey.ALTER_CONFIGS: (ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_CLUSTER),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_CLUSTER),
        ApiKey.LIST_CONFIG_RESOURCES: (DESCRIBE_CONFIGS_CLUSTER,),
    },
    "partitions": {
        ApiKey.CREATE_PARTITIONS: (ALTER_TOPIC,),
        ApiKey.ELECT_LEADERS: (ALTER_CLUSTER,),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (ALTER_CLUSTER,),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (DESCRIBE_CLUSTER,),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (DESCRIBE_TOPIC,),
    },
    "client_quotas": {
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (DESCRIBE_CONFIGS_CLUSTER,),
        ApiKey.ALTER_CLIENT_QUOTAS: (ALTER_CONFIGS_CLUSTER,),
    },
    "scram": {
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (DESCRIBE_CLUSTER,),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (ALTER_CLUSTER,),
    },
    "cluster": {
        ApiKey.DESCRIBE_QUORUM: (DESCRIBE_CLUSTER,),
        ApiKey.UPDATE_FEATURES: (ALTER_CLUSTER,),
        ApiKey.DESCRIBE_CLUSTER: (),
        ApiKey.UNREGISTER_BROKER: (ALTER_CLUSTER,),
    },
    "raft_voters": {
        ApiKey.ADD_RAFT_VOTER: (ALTER_CLUSTER,),
        ApiKey.REMOVE_RAFT_VOTER: (ALTER_CLUSTER,),
    },
    "consumer_groups": {
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (READ_GROUP,),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (DESCRIBE_GROUP,),
    },
    "leader_epochs": {
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (DESCRIBE_TOPIC,),
    },
    "producers": {
        ApiKey.DESCRIBE_PRODUCERS: (READ_TOPIC,),
    },
}


def handler_specs() -> dict[int, HandlerSpec]:
    """The handlers of a broker's listener, by key."""
    return {
        int(key): handler_spec(
            key, _PACKAGE + module, rights, is_raw=key in _RAW, ends_with_connection=key in _ENDING_WITH_CONNECTION
        )
        for module, rights_by_api in _APIS_BY_MODULE.items()
        for key, rights in rights_by_api.items()
    }
