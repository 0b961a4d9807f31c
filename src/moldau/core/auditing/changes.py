"""The rows of the audit log for a request that changes something.

A request gives one row for each thing that it names, made from the request and its response. Values of settings, salts
and passwords are left out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from moldau.core.metadata.image import ResourceType
from moldau.wire.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.sasl_tokens import SCRAM_NUMBERS

MAX_NAMES: Final = 20
"""The most settings, partitions or quotas that one row names."""


class Change(msgspec.Struct, frozen=True):
    """One changed thing. `error_code`: 0 if the change was made."""

    resource_type: str
    resource: str
    error_code: int
    detail: str = ""


Rows = Iterator[Change]


def changes_of(api_key: int, request: Any, response: Any, about: str = "") -> Rows | None:
    """The rows, one by one. None if the API changes nothing that is audited, or the request only validates. `about`:
    the name of a thing that the request names by a secret, such as a token by its HMAC; "" if unknown."""
    if api_key in _ROWS_OF_TOKENS:
        return _ROWS_OF_TOKENS[api_key](about, request, response)
    rows = _ROWS.get(api_key)
    return None if rows is None or getattr(request, "validate_only", False) else rows(request, response)


def is_change(api_key: int) -> bool:
    """Whether requests of this API are audited."""
    return api_key in _ROWS or api_key in _ROWS_OF_TOKENS


def _created_topics(request: Any, response: Any) -> Rows:
    asked = {topic.name: topic for topic in request.topics}
    for row in response.topics:
        topic = asked.get(row.name)
        detail = ""
        if topic is not None:
            names = _names(config.name for config in topic.configs)
            detail = f"partitions {topic.num_partitions}, replication factor {topic.replication_factor}"
            detail += f", {names}" if names else ""
        yield Change("topic", row.name, row.error_code, detail)


def _deleted_topics(request: Any, response: Any) -> Rows:
    for row in response.responses:
        yield Change("topic", row.name or "", row.error_code, f"id {row.topic_id}" if row.name is None else "")


def _created_partitions(request: Any, response: Any) -> Rows:
    counts = {topic.name: topic.count for topic in request.topics}
    for row in response.results:
        yield Change("topic", row.name, row.error_code, f"partitions {counts.get(row.name, '')}")


def _altered_configs(request: Any, response: Any) -> Rows:
    asked = {(each.resource_type, each.resource_name): each for each in request.resources}
    for row in response.responses:
        resource = asked.get((row.resource_type, row.resource_name))
        names = () if resource is None else resource.configs
        detail = _names(f"{_verb(config)} {config.name}" for config in names)
        yield Change(_word(ResourceType, row.resource_type), row.resource_name, row.error_code, detail)


def _verb(config: Any) -> str:
    verbs = ("set", "delete", "append", "subtract")
    operation = getattr(config, "config_operation", 0)
    return verbs[operation] if 0 <= operation < len(verbs) else str(operation)


def _created_acls(request: Any, response: Any) -> Rows:
    for acl, row in zip(request.creations, response.results, strict=False):
        pattern = acl.resource_type, acl.resource_name, acl.resource_pattern_type
        yield _acl(pattern, acl, row.error_code)


def _deleted_acls(request: Any, response: Any) -> Rows:
    for one, result in zip(request.filters, response.filter_results, strict=False):
        if result.error_code or not result.matching_acls:
            pattern = one.resource_type_filter, one.resource_name_filter or "", one.pattern_type_filter
            detail = f"filter, no ACL: principal {one.principal_filter}, host {one.host_filter}"
            yield Change(_word(AclResourceType, pattern[0]), pattern[1], result.error_code, detail)
        for acl in result.matching_acls:
            yield _acl((acl.resource_type, acl.resource_name, acl.pattern_type), acl, acl.error_code)


def _acl(pattern: tuple[int, str, int], acl: Any, code: int) -> Change:
    kind, name, pattern_type = pattern
    said = f"{_word(AclPermission, acl.permission_type)} {_word(AclOperation, acl.operation)} to {acl.principal}"
    detail = f"{said} from {acl.host}, {_word(AclPatternType, pattern_type)}"
    return Change(_word(AclResourceType, kind), name, code, detail)


def _altered_quotas(request: Any, response: Any) -> Rows:
    for entry, row in zip(request.entries, response.entries, strict=False):
        entity = ", ".join(f"{each.entity_type} {each.entity_name or '<default>'}" for each in entry.entity[:MAX_NAMES])
        detail = _names(f"remove {op.key}" if op.remove else f"set {op.key}={op.value:g}" for op in entry.ops)
        yield Change("quota", entity, row.error_code, detail)


def _altered_users(request: Any, response: Any) -> Rows:
    asked: dict[str, list[str]] = {}
    for deletion in request.deletions:
        asked.setdefault(deletion.name, []).append(f"delete {_mechanism(deletion.mechanism)}")
    for upsertion in request.upsertions:
        said = f"set {_mechanism(upsertion.mechanism)}, {upsertion.iterations} iterations"
        asked.setdefault(upsertion.name, []).append(said)
    for row in response.results:
        yield Change("user", row.user, row.error_code, _names(iter(asked.get(row.user, ()))))


def _created_token(request: Any, response: Any) -> Rows:
    owner = f"{response.principal_type}:{response.principal_name}"
    renewers = _names(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
    detail = f"owner {owner}" + (f", renewers {renewers}" if renewers else "")
    yield Change("delegation token", response.token_id, response.error_code, detail)


def _renewed_token(token_id: str, request: Any, response: Any) -> Rows:
    yield Change("delegation token", token_id, response.error_code, f"renew, expires at {response.expiry_timestamp_ms}")


def _expired_token(token_id: str, request: Any, response: Any) -> Rows:
    what = "remove" if request.expiry_time_period_ms < 0 else f"expires at {response.expiry_timestamp_ms}"
    yield Change("delegation token", token_id, response.error_code, what)


def _mechanism(code: int) -> str:
    return next((name for name, number in SCRAM_NUMBERS.items() if number == code), str(code))


def _features(request: Any, response: Any) -> Rows:
    codes = {row.feature: row.error_code for row in response.results}
    for update in request.feature_updates:
        code = response.error_code or codes.get(update.feature, 0)
        yield Change("feature", update.feature, code, f"level {update.max_version_level}")


def _elected_leaders(request: Any, response: Any) -> Rows:
    if response.error_code or not response.replica_election_results:
        yield Change("cluster", "", response.error_code, "no election")
    kind = "unclean" if request.election_type else "preferred"
    for topic in response.replica_election_results:
        for partition in topic.partition_result:
            name = f"{topic.topic}-{partition.partition_id}"
            yield Change("partition", name, partition.error_code, f"{kind} leader")


def _reassigned(request: Any, response: Any) -> Rows:
    asked = {
        (topic.name, partition.partition_index): partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }
    if response.error_code:
        yield Change("cluster", "", response.error_code)
    for topic in response.responses:
        for partition in topic.partitions:
            replicas = asked.get((topic.name, partition.partition_index))
            detail = "cancel" if replicas is None else f"replicas {_names(map(str, replicas))}"
            yield Change("partition", f"{topic.name}-{partition.partition_index}", partition.error_code, detail)


def _unregistered_broker(request: Any, response: Any) -> Rows:
    yield Change("broker", str(request.broker_id), response.error_code)


def _unregistered_controller(request: Any, response: Any) -> Rows:
    yield Change("controller", str(request.controller_id), response.error_code)


def _voter(request: Any, response: Any) -> Rows:
    yield Change("voter", str(request.voter_id), response.error_code)


def _deleted_records(request: Any, response: Any) -> Rows:
    asked = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    for topic in response.topics:
        for partition in topic.partitions:
            offset = asked.get((topic.name, partition.partition_index), "")
            name = f"{topic.name}-{partition.partition_index}"
            yield Change("partition", name, partition.error_code, f"before offset {offset}")


def _deleted_groups(request: Any, response: Any) -> Rows:
    for row in response.results:
        yield Change("group", row.group_id, row.error_code)


def _deleted_offsets(request: Any, response: Any) -> Rows:
    if response.error_code:
        yield Change("group", request.group_id, response.error_code)
    for topic in response.topics:
        for partition in topic.partitions:
            detail = f"offset of {topic.name}-{partition.partition_index}"
            yield Change("group", request.group_id, partition.error_code, detail)


def _moved_replicas(request: Any, response: Any) -> Rows:
    for topic in response.results:
        for partition in topic.partitions:
            yield Change("partition", f"{topic.topic_name}-{partition.partition_index}", partition.error_code)


_ROWS: Final[dict[int, Callable[[Any, Any], Rows]]] = {
    ApiKey.CREATE_TOPICS: _created_topics,
    ApiKey.DELETE_TOPICS: _deleted_topics,
    ApiKey.CREATE_PARTITIONS: _created_partitions,
    ApiKey.ALTER_CONFIGS: _altered_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _altered_configs,
    ApiKey.CREATE_ACLS: _created_acls,
    ApiKey.DELETE_ACLS: _deleted_acls,
    ApiKey.ALTER_CLIENT_QUOTAS: _altered_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _altered_users,
    ApiKey.CREATE_DELEGATION_TOKEN: _created_token,
    ApiKey.UPDATE_FEATURES: _features,
    ApiKey.ELECT_LEADERS: _elected_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassigned,
    ApiKey.UNREGISTER_BROKER: _unregistered_broker,
    ApiKey.UNREGISTER_CONTROLLER: _unregistered_controller,
    ApiKey.ADD_RAFT_VOTER: _voter,
    ApiKey.REMOVE_RAFT_VOTER: _voter,
    ApiKey.DELETE_RECORDS: _deleted_records,
    ApiKey.DELETE_GROUPS: _deleted_groups,
    ApiKey.OFFSET_DELETE: _deleted_offsets,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _moved_replicas,
}
_ROWS_OF_TOKENS: Final[dict[int, Callable[[str, Any, Any], Rows]]] = {
    ApiKey.RENEW_DELEGATION_TOKEN: _renewed_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expired_token,
}
"""A request names a token by its HMAC, which is a secret. The row has the token's id instead."""


def _names(names: Iterator[str]) -> str:
    """The names, separated by commas. Beyond MAX_NAMES only the first ones, with a remark that more follow."""
    found: list[str] = []
    for name in names:
        if len(found) == MAX_NAMES:
            return ", ".join(found) + ", ..."
        found.append(name)
    return ", ".join(found)


def _word(kind: type[enum.IntEnum], code: int) -> str:
    return kind(code).name.lower() if code in kind._value2member_map_ else str(code)
