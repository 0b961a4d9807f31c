"""AlterConfigs and IncrementalAlterConfigs, as ConfigRecords in the metadata log (KIP-133, 226, 339).

Each resource of a request is checked alone: one may be rejected and another altered. The settings of a resource after
the request are checked as a whole, so contradictions are never written. Groups and this node's broker are checked
against the view of this node. This node does not know the file of another broker; that broker checks the request itself
before it forwards it.

Imported with the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TypeVar

import msgspec

from moldau.core.config.broker_alteration import (
    CORDONED_LOG_DIRS,
    REPLICATION_RATES,
    SettingLayers,
    check_alteration_of_another,
    check_broker_alteration,
    effective_broker_settings,
    invalid_request,
    row_of,
)
from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.group_settings import validate_client_metrics, validate_group_settings
from moldau.core.config.setting import invalid_config
from moldau.core.config.topic_settings import ROWS_BY_NAME as TOPIC_ROWS
from moldau.core.config.topic_settings import validate_topic_settings
from moldau.core.controller.configs import MIN_INSYNC_REPLICAS, clearing_eligible_leaders, setting_layers
from moldau.core.controller.topic_names import topic_name_fault
from moldau.core.metadata.batches import MAX_BATCH_RECORDS, batch_too_large
from moldau.core.metadata.features import ELIGIBLE_LEADER_REPLICAS, can_cordon
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import CLUSTER_DEFAULTS, ConfigResource, MetadataImage, ResourceType
from moldau.errors import KafkaError, kafka_error
from moldau.types import Pausing, each_of
from moldau.wire.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.protocol.messages.metadata_records import ConfigRecord
from moldau.wire.protocol.runtime import MAX_STRING_BYTES

MAX_MESSAGE_LENGTH = 1_000


class ConfigOperation:
    """The operations of IncrementalAlterConfigs on a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(msgspec.Struct, frozen=True):
    """A change of one setting."""

    operation: int
    name: str
    value: str | None


class Alteration(msgspec.Struct, frozen=True):
    """The changes of one resource. `is_whole`: other settings return to their defaults (AlterConfigs)."""

    resource: ConfigResource
    changes: tuple[Change, ...]
    is_whole: bool = False


Row = TypeVar("Row", AlterConfigsResourceResponse, IncrementalAlterConfigsResourceResponse)
View = Callable[[], BrokerSettings]
"""The settings in force, for the checks of topics, groups and brokers. Computed once for a request."""


def incremental_alter_configs(
    image: MetadataImage, static: BrokerSettings, request: IncrementalAlterConfigsRequest
) -> Pausing[tuple[list[MetadataRecord], IncrementalAlterConfigsResponse]]:
    """The records that change the named settings, and a result for each resource."""
    asked = (
        _asked(resource, ((config.config_operation, config.name, config.value) for config in resource.configs))
        for resource in request.resources
    )
    records, rows = yield from _alter(image, static, asked, IncrementalAlterConfigsResourceResponse)
    return [] if request.validate_only else records, IncrementalAlterConfigsResponse(responses=rows)


def alter_configs(
    image: MetadataImage, static: BrokerSettings, request: AlterConfigsRequest
) -> Pausing[tuple[list[MetadataRecord], AlterConfigsResponse]]:
    """The records that give each resource only the named settings, and a result for each."""
    asked = (
        _asked(resource, ((ConfigOperation.SET, one.name, one.value) for one in resource.configs), is_whole=True)
        for resource in request.resources
    )
    records, rows = yield from _alter(image, static, asked, AlterConfigsResourceResponse)
    return [] if request.validate_only else records, AlterConfigsResponse(responses=rows)


def _asked(
    resource: AlterConfigsResource | IncrementalAlterConfigsResource,
    changes: Iterable[tuple[int, str, str | None]],
    *,
    is_whole: bool = False,
) -> Pausing[Alteration]:
    found = yield from each_of(Change(*change) for change in changes)
    return Alteration(ConfigResource(resource.resource_type, resource.resource_name), found, is_whole)


def _code_and_message(error: KafkaError) -> tuple[int, str | None]:
    """The code and the message, cut to the size of a string: it may contain a setting of 32,767 bytes."""
    return error.code, (error.message or "")[:MAX_MESSAGE_LENGTH] or None


def _alter(
    image: MetadataImage, static: BrokerSettings, asked: Iterable[Pausing[Alteration]], row: type[Row]
) -> Pausing[tuple[list[MetadataRecord], tuple[Row, ...]]]:
    alterations: list[Alteration] = []
    counts: dict[ConfigResource, int] = {}
    for asking in asked:
        alteration = yield from asking
        alterations.append(alteration)
        counts[alteration.resource] = counts.get(alteration.resource, 0) + 1
        yield
    records: list[MetadataRecord] = []
    rows: list[Row] = []
    changes = 0
    view = cache(lambda: _view(image, static))
    alterations.reverse()
    while alterations:
        # one by one, because freeing thousands at the end would block the loop
        alteration = alterations.pop()
        resource, code, message = alteration.resource, 0, None
        try:
            if counts[resource] > 1:
                raise invalid_request("Each resource must appear at most once.")
            del counts[resource]
            changed = yield from _records_of(image, static, view, alteration)
            changes += len(changed)
            if changes <= MAX_BATCH_RECORDS:
                records += changed
        except KafkaError as refused:
            code, message = _code_and_message(refused)
        rows.append(row(code, message, resource.resource_type, resource.name))
        yield
    if changes > MAX_BATCH_RECORDS:
        records, code_and_message = [], _code_and_message(batch_too_large())
        rows = list((yield from each_of(row(*code_and_message, one.resource_type, one.resource_name) for one in rows)))
    return records, tuple(rows)


def _records_of(
    image: MetadataImage, static: BrokerSettings, view: View, alteration: Alteration
) -> Pausing[list[MetadataRecord]]:
    """The records of one resource: for the changed settings, and those that follow from them. Raises KafkaError."""
    resource, current = alteration.resource, image.configs.get(alteration.resource, {})
    yield from _check_form(alteration.changes)
    _check_resource(resource, image, static)
    after = {} if alteration.is_whole else dict(current)
    for change in alteration.changes:
        _apply(resource, after, change)
        yield
    _check_result(image, static, view, alteration, after)
    removed = [name for name in current if name not in after]
    changed = [name for name, text in after.items() if current.get(name) != text]
    records = [
        *(ConfigRecord(resource.resource_type, resource.name, name, None) for name in removed),
        *(ConfigRecord(resource.resource_type, resource.name, name, after[name]) for name in changed),
    ]
    has_elr = image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0
    return [*records, *(clearing_eligible_leaders(records) if has_elr else ())]


def _check_form(changes: Sequence[Change]) -> Pausing[None]:
    names: dict[str, None] = {}
    for change in changes:
        names[change.name] = None
        yield
    if len(names) < len(changes):
        raise invalid_request("Error due to duplicate config keys")
    nulls = []
    for change in changes:
        if not ConfigOperation.SET <= change.operation <= ConfigOperation.SUBTRACT:
            raise invalid_request(f"Unknown config operation {change.operation} for {change.name}")
        if change.value is None and change.operation != ConfigOperation.DELETE:
            nulls.append(change.name)
        yield
    if nulls:
        raise invalid_request(f"Null value not supported for : {', '.join(nulls)}")


def _check_resource(resource: ConfigResource, image: MetadataImage, static: BrokerSettings) -> None:
    """Raises INVALID_REQUEST for an impossible resource. As in Kafka, the existence of a topic is checked later."""
    name = resource.name
    match resource.resource_type:
        case ResourceType.TOPIC:
            if name == "":
                raise invalid_request("Default topic resources are not allowed.")
        case ResourceType.GROUP:
            if name == "":
                raise invalid_request("Default group resources are not allowed.")
        case ResourceType.CLIENT_METRICS:
            if name == "":
                raise invalid_request("Subscription name can't be empty")
        case ResourceType.BROKER:
            if name != "":
                _check_broker_id(name, image, static.node_id)
        case _:
            raise invalid_request(f"Unknown resource type {resource.resource_type}")


def _check_broker_id(name: str, image: MetadataImage, node_id: int) -> None:
    """Raises INVALID_REQUEST unless the broker is registered or is the deciding node `node_id`."""
    digits = name[1:] if name[:1] in ("-", "+") else name
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise invalid_request(f"Node id must be an integer, but it is: {name}")
    # "01" would be the same broker, but another resource in the log
    if name != str(node_id) and name not in map(str, image.brokers):
        raise invalid_request(f"Unexpected broker id, expected {node_id}, but received {name}")


def _apply(resource: ConfigResource, settings: dict[str, str], change: Change) -> None:
    """Changes `settings` as requested. Raises error 40 for a list operation on a setting that is no list."""
    name, value = change.name, change.value
    if change.operation == ConfigOperation.DELETE or value is None:
        settings.pop(name, None)
        return
    if change.operation == ConfigOperation.SET:
        settings[name] = value
        return
    kind, default = _kind_and_default(resource, name)
    is_append = change.operation == ConfigOperation.APPEND
    if kind != "list":
        raise _no_list(resource, name, is_append)
    parts = [part for part in settings.get(name, default or "").split(",") if part]
    if is_append:
        parts += [part for part in value.split(",") if part not in parts]
    else:
        subtracted = value.split(",")
        parts = [part for part in parts if part not in subtracted]
    listed = ",".join(dict.fromkeys(parts))
    if len(listed.encode()) > MAX_STRING_BYTES:
        raise invalid_config(f"The list {name} would be over {MAX_STRING_BYTES} bytes.")
    settings[name] = listed


def _kind_and_default(resource: ConfigResource, name: str) -> tuple[str, str | None]:
    if resource.resource_type == ResourceType.TOPIC:
        row = TOPIC_ROWS.get(name)
        return ("", None) if row is None else (row[1], row[2])
    if resource.resource_type == ResourceType.BROKER:
        broker_row = row_of(name)
        return ("", None) if broker_row is None else (broker_row[1], broker_row[2])
    # in Kafka, groups and client metrics have no list settings
    return "", None


def _no_list(resource: ConfigResource, name: str, is_append: bool) -> KafkaError:
    if resource.resource_type == ResourceType.BROKER:
        if row_of(name) is None or name in REPLICATION_RATES:
            return invalid_config(f"Unknown config name: {name}")
        verb = "append" if is_append else "subtract"
        return invalid_config(f"Config value {verb} is not allowed for config key: {name}")
    return invalid_config(f"Can't {'APPEND' if is_append else 'SUBTRACT'} to key {name} because its type is not LIST.")


def _check_result(
    image: MetadataImage, static: BrokerSettings, view: View, alteration: Alteration, after: Mapping[str, str]
) -> None:
    """Checks the settings of the resource after the change. Raises KafkaError."""
    resource = alteration.resource
    match resource.resource_type:
        case ResourceType.TOPIC:
            _check_topic(image, view, resource.name, after)
        case ResourceType.BROKER:
            _check_broker(image, static, view, alteration, after)
        case ResourceType.GROUP:
            validate_group_settings(after, view())
        case ResourceType.CLIENT_METRICS:
            validate_client_metrics(after)


def _check_topic(image: MetadataImage, view: View, name: str, after: Mapping[str, str]) -> None:
    fault = topic_name_fault(name)
    if fault is not None:
        raise kafka_error("INVALID_TOPIC_EXCEPTION", fault)
    validate_topic_settings(after, view())
    if name not in image.topics_by_name:
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"The topic '{name}' does not exist.")


def _check_broker(
    image: MetadataImage, static: BrokerSettings, view: View, alteration: Alteration, after: Mapping[str, str]
) -> None:
    if not can_cordon(image.features) and any(change.name == CORDONED_LOG_DIRS for change in alteration.changes):
        raise invalid_config(
            f"{CORDONED_LOG_DIRS} cannot be altered below metadata.version 4.3: the controller would not know"
        )
    current = image.configs.get(alteration.resource, {})
    is_cluster_wide = alteration.resource == CLUSTER_DEFAULTS
    changes = {name: text for name, text in after.items() if current.get(name) != text}
    if is_cluster_wide or alteration.resource.name == str(static.node_id):
        layers = setting_layers(image, static)
        layers = SettingLayers(
            layers.broker if is_cluster_wide else after, after if is_cluster_wide else layers.cluster, layers.static
        )
        check_broker_alteration(view(), layers, changes, is_cluster_wide=is_cluster_wide)
    else:
        check_alteration_of_another(view(), changes)
    if image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0:
        names = [change.name for change in alteration.changes]
        _check_min_insync_replicas(names, current, after, is_cluster_wide=is_cluster_wide)


def _check_min_insync_replicas(
    names: Sequence[str], current: Mapping[str, str], after: Mapping[str, str], *, is_cluster_wide: bool
) -> None:
    """With ELR the minimum is one value for the whole cluster, because brokers must not disagree on it (KIP-966)."""
    if not is_cluster_wide and MIN_INSYNC_REPLICAS in names:
        raise invalid_config("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    is_removed = MIN_INSYNC_REPLICAS in (*names, *current) and MIN_INSYNC_REPLICAS not in after
    if is_cluster_wide and is_removed:
        raise invalid_config("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")


def _view(image: MetadataImage, static: BrokerSettings) -> BrokerSettings:
    layers = setting_layers(image, static)
    return effective_broker_settings(static, layers.cluster, layers.broker)[0]
