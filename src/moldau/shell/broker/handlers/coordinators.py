"""FindCoordinator: the broker that coordinates a group or a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, Right
from moldau.wire.protocol.messages.coordinators import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from moldau.shell.broker.coordination.shards import Shards
    from moldau.shell.broker.role import Broker

GROUP = 0
TRANSACTION = 1
SHARE = 2
MANY_KEYS_FROM = 4
SHARE_FROM = 6
COORDINATOR_NOT_AVAILABLE = ERROR_CODES["COORDINATOR_NOT_AVAILABLE"]
INVALID_GROUP_ID = ERROR_CODES["INVALID_GROUP_ID"]
INVALID_REQUEST = ERROR_CODES["INVALID_REQUEST"]
NO_NODE = -1


async def act_find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Versions 0-6. v1 key types (KIP-98), v3 flexible, v4 many keys (KIP-699), v5 TRANSACTION_ABORTABLE (KIP-890),
    v6 share groups (KIP-932).

    Share groups get 15, an unknown type 42. The first question creates `__consumer_offsets` or `__transaction_state`
    and waits for it (Kafka answers 15 meanwhile, which costs the client a backoff). Ignored on purpose: nothing.
    """
    once: dict[str, Coordinator] = {}
    for key in request.coordinator_keys if context.api_version >= MANY_KEYS_FROM else (request.key,):
        if key not in once:
            once[key] = _find(context, request.key_type, key)
        await context.pause()
    found = list(once.values())
    if any(not coordinator.error_code for coordinator in found):
        try:
            both = broker.coordination
            owner: Shards[Any] = both.transactions if request.key_type == TRANSACTION else both.groups
            await context.wait(owner.ensure_topic())
            for index, one in enumerate(found):
                found[index] = _located(broker, context, owner, one)
                await context.pause()
        except KafkaError:
            found = [_failed(one.key, one.error_code or COORDINATOR_NOT_AVAILABLE) for one in found]
    return _response(context, found)


def _find(context: RequestContext, key_type: int, key: str) -> Coordinator:
    if key_type not in (GROUP, TRANSACTION, SHARE) or (key_type == SHARE and context.api_version < SHARE_FROM):
        return _failed(key, INVALID_REQUEST)
    if key_type == GROUP and not context.authorize(DESCRIBE_GROUP, key):
        return _unauthorized(context, key, DESCRIBE_GROUP)
    if key_type == TRANSACTION and not context.authorize(DESCRIBE_TRANSACTIONAL_ID, key):
        return _unauthorized(context, key, DESCRIBE_TRANSACTIONAL_ID)
    if key_type == SHARE and not _is_share_key(key):
        return _failed(key, INVALID_REQUEST)
    if key_type == SHARE:
        return _failed(key, COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key, NO_NODE, "", NO_NODE, 0, "")


def _located(broker: Broker, context: RequestContext, owner: Shards[Any], found: Coordinator) -> Coordinator:
    """The leader of the key's partition; COORDINATOR_NOT_AVAILABLE while this client reaches none."""
    if found.error_code:
        return found
    leader = owner.leader_for(found.key)
    address = broker.addresses.of(leader, context)
    if address is None:
        return _failed(found.key, COORDINATOR_NOT_AVAILABLE)
    return Coordinator(found.key, leader, *address, 0, "")


def _is_share_key(key: str) -> bool:
    """group:topicId:partition"""
    parts = key.rsplit(":", 2)
    return len(parts) == 3 and all(parts) and parts[2].isdigit()


def _failed(key: str, code: int) -> Coordinator:
    return Coordinator(key, NO_NODE, "", NO_NODE, code, None)


def _unauthorized(context: RequestContext, key: str, right: Right) -> Coordinator:
    """The error, with Apache Kafka's text: none in versions with many keys."""
    text = "" if context.api_version >= MANY_KEYS_FROM else right.refusal_text
    return Coordinator(key, NO_NODE, "", NO_NODE, right.refusal, text)


def _response(context: RequestContext, found: list[Coordinator]) -> FindCoordinatorResponse:
    throttle_time_ms = context.throttle()
    if context.api_version >= MANY_KEYS_FROM:
        return FindCoordinatorResponse(throttle_time_ms=throttle_time_ms, coordinators=tuple(found))
    one = found[0]
    return FindCoordinatorResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=one.error_code,
        error_message="NONE" if one.error_code == 0 else one.error_message,  # the name of code 0, as Kafka gives it
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )
