"""The table of modules and APIs on the controller's listener."""

from __future__ import annotations

from moldau.shell.administration import table as administration
from moldau.shell.network.dispatch import HandlerSpec, handler_spec
from moldau.shell.network.rights import CLUSTER_ACTION, DESCRIBE_CLUSTER, Right
from moldau.wire.protocol.api_keys import ApiKey

_PACKAGE = "moldau.shell.quorum.handlers."
_ENDING_WITH_CONNECTION = (ApiKey.FETCH,)
"""A fetch waits and changes nothing, so it ends with its connection."""

# the function has the API's name: act_fetch_snapshot. An API's row lists the rights that its handler may ask for; which
# of them depends on the resources in a request
_APIS_BY_MODULE: dict[str, dict[ApiKey, tuple[Right, ...]]] = {
    "raft": {
        ApiKey.FETCH: (CLUSTER_ACTION,),
        ApiKey.VOTE: (CLUSTER_ACTION,),
        ApiKey.BEGIN_QUORUM_EPOCH: (CLUSTER_ACTION,),
        ApiKey.END_QUORUM_EPOCH: (CLUSTER_ACTION,),
        ApiKey.FETCH_SNAPSHOT: (CLUSTER_ACTION,),
    },
    "brokers": {
        ApiKey.ALTER_PARTITION: (CLUSTER_ACTION,),
        ApiKey.BROKER_REGISTRATION: (CLUSTER_ACTION,),
        ApiKey.BROKER_HEARTBEAT: (CLUSTER_ACTION,),
        ApiKey.ALLOCATE_PRODUCER_IDS: (CLUSTER_ACTION,),
        ApiKey.CONTROLLER_REGISTRATION: (CLUSTER_ACTION,),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: (CLUSTER_ACTION,),
    },
    "voters": {
        ApiKey.UPDATE_RAFT_VOTER: (CLUSTER_ACTION,),
    },
    "envelopes": {
        ApiKey.ENVELOPE: (CLUSTER_ACTION,),
    },
    "api_versions": {
        ApiKey.API_VERSIONS: (),
    },
    "cluster": {
        ApiKey.DESCRIBE_QUORUM: (DESCRIBE_CLUSTER,),
        ApiKey.DESCRIBE_CLUSTER: (),
    },
}


def served_apis() -> tuple[ApiKey, ...]:
    """The APIs of the controller's listener, including administration, in the order of their keys."""
    return tuple(ApiKey(key) for key in sorted((*handler_specs(), *administration.controller_specs())))


def handler_specs() -> dict[int, HandlerSpec]:
    """The handlers of a controller's listener, by key; each gets the QuorumRole."""
    return {
        int(key): handler_spec(key, _PACKAGE + module, rights, ends_with_connection=key in _ENDING_WITH_CONNECTION)
        for module, rights_by_api in _APIS_BY_MODULE.items()
        for key, rights in rights_by_api.items()
    }
