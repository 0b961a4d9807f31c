"""The table of modules and administration APIs, on a broker's listeners and on a controller's."""

from __future__ import annotations

from moldau.shell.network.dispatch import HandlerSpec, handler_spec
from moldau.shell.network.rights import (
    ALTER_CLUSTER,
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    ALTER_TOPIC,
    CREATE_CLUSTER,
    CREATE_TOKENS_USER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_TOKENS_USER,
    DESCRIBE_TOPIC,
    Right,
)
from moldau.wire.protocol.api_keys import ApiKey

_PACKAGE = "moldau.shell.administration."
_ONLY_OF_BROKERS = (
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.LIST_CONFIG_RESOURCES,
)
"""Apache Kafka's controllers do not serve these either."""

# the function has the API's name: act_create_topics. An API's row lists the rights that its handler may ask for; which
# of them depends on the resources in a request
_APIS_BY_MODULE: dict[str, dict[ApiKey, tuple[Right, ...]]] = {
    "topics": {
        ApiKey.CREATE_TOPICS: (CREATE_TOPIC, CREATE_CLUSTER, DESCRIBE_CONFIGS_TOPIC),
        ApiKey.DELETE_TOPICS: (DELETE_TOPIC, DESCRIBE_TOPIC, DELETE_CLUSTER),
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
    "client_quotas": {
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (DESCRIBE_CONFIGS_CLUSTER,),
        ApiKey.ALTER_CLIENT_QUOTAS: (ALTER_CONFIGS_CLUSTER,),
    },
    "scram": {
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (DESCRIBE_CLUSTER,),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (ALTER_CLUSTER,),
    },
    "delegation_tokens": {
        ApiKey.CREATE_DELEGATION_TOKEN: (CREATE_TOKENS_USER,),
        ApiKey.RENEW_DELEGATION_TOKEN: (),
        ApiKey.EXPIRE_DELEGATION_TOKEN: (),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: (DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS_USER),
    },
    "sasl": {
        ApiKey.SASL_HANDSHAKE: (),
        ApiKey.SASL_AUTHENTICATE: (),
    },
    "partitions": {
        ApiKey.CREATE_PARTITIONS: (ALTER_TOPIC,),
        ApiKey.ELECT_LEADERS: (ALTER_CLUSTER,),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (ALTER_CLUSTER,),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (DESCRIBE_CLUSTER,),
    },
    "cluster": {
        ApiKey.UPDATE_FEATURES: (ALTER_CLUSTER,),
        ApiKey.UNREGISTER_BROKER: (ALTER_CLUSTER,),
        ApiKey.UNREGISTER_CONTROLLER: (ALTER_CLUSTER,),
    },
    "voters": {
        ApiKey.ADD_RAFT_VOTER: (ALTER_CLUSTER,),
        ApiKey.REMOVE_RAFT_VOTER: (ALTER_CLUSTER,),
    },
}


def handler_specs() -> dict[int, HandlerSpec]:
    """The handlers of a broker's listeners, by key; the first argument of each is the node, see Administered."""
    return {
        int(key): handler_spec(key, _PACKAGE + module, rights)
        for module, rights_by_api in _APIS_BY_MODULE.items()
        for key, rights in rights_by_api.items()
    }


def controller_specs() -> dict[int, HandlerSpec]:
    """The handlers of a controller's listener: the same APIs as on Apache Kafka's."""
    return {key: spec for key, spec in handler_specs().items() if key not in _ONLY_OF_BROKERS}
