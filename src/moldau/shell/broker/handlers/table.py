"""Which module serves which API. Versions come from `wire.protocol.api_keys`, the one place that knows them."""

from __future__ import annotations

from moldau.shell.network.dispatch import HandlerSpec
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey

_PACKAGE = "moldau.shell.broker.handlers."
_RAW = (ApiKey.PRODUCE, ApiKey.FETCH)
_ENDING_WITH_CONNECTION = (
    *(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP),  # they wait for other members of the group
    # they wait, and change nothing
    *(ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_LOG_DIRS),
)

# key, module, function
_ROWS: tuple[tuple[ApiKey, str, str], ...] = (
    (ApiKey.PRODUCE, "produce", "act_produce"),
    (ApiKey.FETCH, "fetch", "act_fetch"),
    (ApiKey.LIST_OFFSETS, "list_offsets", "act_list_offsets"),
    (ApiKey.METADATA, "metadata", "act_metadata"),
    (ApiKey.OFFSET_COMMIT, "group_offsets", "act_offset_commit"),
    (ApiKey.OFFSET_FETCH, "group_offsets", "act_offset_fetch"),
    (ApiKey.FIND_COORDINATOR, "coordinators", "act_find_coordinator"),
    (ApiKey.JOIN_GROUP, "group_membership", "act_join_group"),
    (ApiKey.HEARTBEAT, "group_membership", "act_heartbeat"),
    (ApiKey.LEAVE_GROUP, "group_membership", "act_leave_group"),
    (ApiKey.SYNC_GROUP, "group_membership", "act_sync_group"),
    (ApiKey.DESCRIBE_GROUPS, "group_admin", "act_describe_groups"),
    (ApiKey.LIST_GROUPS, "group_admin", "act_list_groups"),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, "log_dirs", "act_alter_replica_log_dirs"),
    (ApiKey.DESCRIBE_LOG_DIRS, "log_dirs", "act_describe_log_dirs"),
    (ApiKey.DELETE_GROUPS, "group_deletion", "act_delete_groups"),
    (ApiKey.OFFSET_DELETE, "group_deletion", "act_offset_delete"),
    (ApiKey.API_VERSIONS, "api_versions", "act_api_versions"),
    (ApiKey.CREATE_TOPICS, "topics", "act_create_topics"),
    (ApiKey.DELETE_TOPICS, "topics", "act_delete_topics"),
    (ApiKey.DELETE_RECORDS, "delete_records", "act_delete_records"),
    (ApiKey.INIT_PRODUCER_ID, "producer_ids", "act_init_producer_id"),
    (ApiKey.DESCRIBE_ACLS, "acls", "act_describe_acls"),
    (ApiKey.CREATE_ACLS, "acls", "act_create_acls"),
    (ApiKey.DELETE_ACLS, "acls", "act_delete_acls"),
    (ApiKey.DESCRIBE_CONFIGS, "configs", "act_describe_configs"),
    (ApiKey.ALTER_CONFIGS, "configs", "act_alter_configs"),
    (ApiKey.CREATE_PARTITIONS, "partitions", "act_create_partitions"),
    (ApiKey.ELECT_LEADERS, "partitions", "act_elect_leaders"),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "configs", "act_incremental_alter_configs"),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "partitions", "act_alter_partition_reassignments"),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, "partitions", "act_list_partition_reassignments"),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "client_quotas", "act_describe_client_quotas"),
    (ApiKey.ALTER_CLIENT_QUOTAS, "client_quotas", "act_alter_client_quotas"),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "scram", "act_describe_user_scram_credentials"),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "scram", "act_alter_user_scram_credentials"),
    (ApiKey.DESCRIBE_QUORUM, "cluster", "act_describe_quorum"),
    (ApiKey.UPDATE_FEATURES, "cluster", "act_update_features"),
    (ApiKey.DESCRIBE_CLUSTER, "cluster", "act_describe_cluster"),
    (ApiKey.UNREGISTER_BROKER, "cluster", "act_unregister_broker"),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "consumer_groups", "act_consumer_group_heartbeat"),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "consumer_groups", "act_consumer_group_describe"),
    (ApiKey.LIST_CONFIG_RESOURCES, "configs", "act_list_config_resources"),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, "leader_epochs", "act_offset_for_leader_epoch"),
    (ApiKey.DESCRIBE_PRODUCERS, "producers", "act_describe_producers"),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, "partitions", "act_describe_topic_partitions"),
)


def handler_specs() -> dict[int, HandlerSpec]:
    """The handlers of a broker's listener, by key."""
    specs: dict[int, HandlerSpec] = {}
    for key, module, function in _ROWS:
        versions = API_VERSIONS[key]
        specs[int(key)] = HandlerSpec(
            api_key=int(key),
            name=key.name,
            min_version=versions.min_version,
            max_version=versions.max_version,
            flexible_from=versions.flexible_from,
            module=_PACKAGE + module,
            function=function,
            declaration=None if key in _RAW else versions,
            ends_with_connection=key in _ENDING_WITH_CONNECTION,
        )
    return specs
