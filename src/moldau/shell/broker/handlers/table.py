"""The module that serves each API, and the rights it checks. Only `wire.protocol.api_keys` defines versions."""

from __future__ import annotations

from moldau.shell.administration import table as administration
from moldau.shell.network.dispatch import HandlerSpec, handler_spec
from moldau.shell.network.rights import (
    ALTER_CLUSTER,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
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
"""Handlers that get frames. They have another function for requests that take long to decode."""
_ENDING_WITH_CONNECTION = (
    *(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP),  # wait for other members of the group
    # wait, and change nothing
    *(ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH),
    *(ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_LOG_DIRS),
    *(ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS),
)

# the function has the name of the API: act_list_offsets. Next to an API are the rights that its handler may check,
# depending on the request
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
    "delete_records": {
        ApiKey.DELETE_RECORDS: (DELETE_TOPIC,),
    },
    "producer_ids": {
        ApiKey.INIT_PRODUCER_ID: (WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE, WRITE_TOPIC),
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
    "partitions": {
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (DESCRIBE_TOPIC,),
    },
    "cluster": {
        ApiKey.DESCRIBE_QUORUM: (DESCRIBE_CLUSTER,),
        ApiKey.DESCRIBE_CLUSTER: (),
    },
    "consumer_groups": {
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (READ_GROUP,),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (DESCRIBE_GROUP,),
    },
    "leader_epochs": {
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (DESCRIBE_TOPIC, CLUSTER_ACTION),
    },
    "producers": {
        ApiKey.DESCRIBE_PRODUCERS: (READ_TOPIC,),
    },
}


def handler_specs() -> dict[int, HandlerSpec]:
    """The handlers of a broker's listener, by key."""
    own = {
        int(key): handler_spec(
            key, _PACKAGE + module, rights, is_raw=key in _RAW, ends_with_connection=key in _ENDING_WITH_CONNECTION
        )
        for module, rights_by_api in _APIS_BY_MODULE.items()
        for key, rights in rights_by_api.items()
    }
    return {**own, **administration.handler_specs()}
