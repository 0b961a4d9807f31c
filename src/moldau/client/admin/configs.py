"""Settings of topics, brokers, groups and loggers: their values, the sources of the values, and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client.admin.client import ClusterAdmin, ControllerAdmin
from moldau.client.admin.error_texts import error_of
from moldau.wire.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Types of resources, as the protocol numbers them."""

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

SOURCES: Final[dict[int, str]] = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""The source of a value, as Kafka's clients name it."""

DEFAULT_CONFIG = 5

Setting = DescribeConfigsResourceResult
Change = tuple[int, str, str | None]
"""The operation (SET, DELETE, APPEND, SUBTRACT), the setting's name, and its value."""


def describe_configs(
    admin: ClusterAdmin, resource_type: int, names: Sequence[str], *, synonyms: bool = True
) -> dict[str, tuple[Setting, ...]]:
    """All settings of each resource, in the broker's order. For settings of a broker, sends the request to that
    broker."""
    if resource_type in (BROKER, BROKER_LOGGER):
        found: dict[str, tuple[Setting, ...]] = {}
        for name in names:
            found.update(_describe(admin, resource_type, [name], synonyms, broker_id=int(name) if name else None))
        return found
    return _describe(admin, resource_type, names, synonyms, broker_id=None)


def _describe(
    admin: ClusterAdmin, resource_type: int, names: Sequence[str], synonyms: bool, *, broker_id: int | None
) -> dict[str, tuple[Setting, ...]]:
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)
            for name in names
        ),
        include_synonyms=synonyms,
    )
    if not names:
        return {}
    response = admin.ask(request) if broker_id is None else admin.ask_broker(broker_id, request)
    found: dict[str, tuple[Setting, ...]] = {}
    for row in response.results:
        if row.error_code:
            raise error_of(row.error_code, row.error_message)
        found[row.resource_name] = row.configs
    return found


def alter_configs(
    admin: ClusterAdmin, resource_type: int, name: str, changes: Sequence[Change], *, validate_only: bool = False
) -> None:
    """Applies all changes of one resource, or none. Raises the controller's error, such as INVALID_CONFIG or
    INVALID_REQUEST."""
    resource = IncrementalAlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=tuple(
            IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
            for operation, key, value in changes
        ),
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    # a controller accepts settings for every broker, but only its own loggers
    of_one_node = (BROKER_LOGGER,) if isinstance(admin, ControllerAdmin) else (BROKER, BROKER_LOGGER)
    is_of_one = resource_type in of_one_node and name
    response = admin.ask_broker(int(name), request) if is_of_one else admin.ask(request)
    for row in response.responses:
        if row.error_code:
            raise error_of(row.error_code, row.error_message)


def list_config_resources(admin: ClusterAdmin, resource_types: Sequence[int]) -> list[tuple[int, str]]:
    """The (type, name) of each resource with its own settings (KIP-1142)."""
    request = ListConfigResourcesRequest(resource_types=tuple(resource_types))
    response = admin.ask(request)
    if response.error_code:
        raise error_of(response.error_code)
    return [(row.resource_type, row.resource_name) for row in response.config_resources]


def as_changes(to_set: Mapping[str, str], to_delete: Sequence[str]) -> list[Change]:
    """Settings to set and to delete, in the form of IncrementalAlterConfigs."""
    return [
        *((SET, name, value) for name, value in to_set.items()),
        *((DELETE, name, None) for name in to_delete),
    ]
