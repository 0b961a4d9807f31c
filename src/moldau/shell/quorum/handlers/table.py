"""Which module serves which API on the controller's listener."""

from __future__ import annotations

from moldau.shell.network.dispatch import HandlerSpec, handler_spec
from moldau.wire.protocol.api_keys import ApiKey

_PACKAGE = "moldau.shell.quorum.handlers."
_ENDING_WITH_CONNECTION = (ApiKey.FETCH,)
"""It waits, and changes nothing."""

# the function is called as the API is: act_fetch_snapshot
_APIS_BY_MODULE: dict[str, tuple[ApiKey, ...]] = {
    "raft": (
        ApiKey.FETCH,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
    ),
    "brokers": (
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ),
    "voters": (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UPDATE_RAFT_VOTER),
    "envelopes": (ApiKey.ENVELOPE,),
    "api_versions": (ApiKey.API_VERSIONS,),
    "cluster": (ApiKey.DESCRIBE_QUORUM,),
}


def served_apis() -> tuple[ApiKey, ...]:
    """In the order of their keys."""
    return tuple(sorted(key for keys in _APIS_BY_MODULE.values() for key in keys))


def handler_specs() -> dict[int, HandlerSpec]:
    """The handlers of a controller's listener, by key; each gets the QuorumRole."""
    return {
        int(key): handler_spec(key, _PACKAGE + module, ends_with_connection=key in _ENDING_WITH_CONNECTION)
        for module, keys in _APIS_BY_MODULE.items()
        for key in keys
    }
