"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, TypeVar, cast

import msgspec

from moldau.core.config.broker_alteration import invalid_request
from moldau.core.config.describing import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_topic,
)
from moldau.core.config.setting import Source
from moldau.core.controller.config_alterations import ConfigOperation, alter_configs, incremental_alter_configs
from moldau.core.controller.configs import setting_layers
from moldau.core.controller.topic_names import topic_name_fault
from moldau.core.metadata.image import ConfigResource, ResourceType
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.shell.administration.asking import Administered
from moldau.shell.administration.loggers import broker_loggers, check_level, set_level
from moldau.shell.administration.tls_stores import check_stores
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import (
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    CLUSTER_NAME,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    Right,
)
from moldau.types import Pausing, each_of
from moldau.wire.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListedConfigResource,
)

UNSUPPORTED_VERSION = ERROR_CODES["UNSUPPORTED_VERSION"]
_TO_DESCRIBE = (DESCRIBE_CONFIGS_TOPIC, DESCRIBE_CONFIGS_GROUP, DESCRIBE_CONFIGS_CLUSTER)
_TO_ALTER = (ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_CLUSTER)
MAX_MESSAGE_LENGTH = 1_000
MAX_SETTINGS_PER_RESPONSE = 400_000
"""All settings of 12,000 topics: about 40 MB, encoded in less than a second."""

_Entry = TypeVar("_Entry", AlterConfigsResourceResponse, IncrementalAlterConfigsResourceResponse)
_Resource = TypeVar("_Resource", AlterConfigsResource, IncrementalAlterConfigsResource)


# -- reading


async def act_describe_configs(
    node: Administered, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Versions 1-4. v1 sources and synonyms (KIP-226), v3 types and documentation (KIP-569), v4 flexible (KIP-482).

    Resource types 2 topic, 4 broker, 8 broker logger (KIP-412), 16 client metrics (KIP-714), 32 group (KIP-1043). Each
    resource is described as it is at that moment. Better than Kafka: a response has a bound (44 above it), even if a
    request repeats the same topic. Ignored on purpose: the texts of Kafka's documentation; a setting has our own
    remark, or none.
    """
    results: list[DescribeConfigsResult] = []
    settings = looked_at = 0
    for resource in request.resources:
        if settings < MAX_SETTINGS_PER_RESPONSE:
            result, looked_at = _describe_or_refuse(node, context, request, resource)
        else:
            code, message = _code_and_message(
                kafka_error("POLICY_VIOLATION", "Too many settings for one response: ask for fewer resources.")
            )
            result = DescribeConfigsResult(code, message, resource.resource_type, resource.resource_name)
        settings += len(result.configs)
        results.append(result)
        await context.pause(1 + looked_at)
    return DescribeConfigsResponse(throttle_time_ms=context.throttle(), results=tuple(results))


def _describe_or_refuse(
    node: Administered, context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> tuple[DescribeConfigsResult, int]:
    """The result, and the number of settings read for it."""
    kind, name = resource.resource_type, resource.resource_name
    try:
        _check_right(context, _TO_DESCRIBE, kind, name)
        described = _describe(node, kind, name)
    except KafkaError as error:
        message = (error.message or "")[:MAX_MESSAGE_LENGTH]
        return DescribeConfigsResult(error.code, message, kind, name), 0
    wanted = set(resource.configuration_keys or ())
    entries = tuple(
        _entry(item, request.include_synonyms, request.include_documentation)
        for item in described
        if not wanted or item.name in wanted
    )
    return DescribeConfigsResult(resource_type=kind, resource_name=name, configs=entries), len(described)


def _entry(item: Described, has_synonyms: bool, has_documentation: bool) -> DescribeConfigsResourceResult:
    synonyms = item.synonyms if has_synonyms else ()
    return DescribeConfigsResourceResult(
        name=item.name,
        value=item.value,
        read_only=item.is_read_only,
        config_source=item.source,
        is_sensitive=item.is_sensitive,
        synonyms=tuple(DescribeConfigsSynonym(synonym.name, synonym.value, synonym.source) for synonym in synonyms),
        config_type=item.type_code,
        documentation=item.note or None if has_documentation else None,
    )


def _describe(node: Administered, kind: int, name: str) -> list[Described]:
    """The settings of a resource. Raises KafkaError if it does not exist or its name is invalid."""
    image = node.image
    layers = setting_layers(image, node.static_settings)
    overrides = image.configs.get(ConfigResource(kind, name), {})
    match kind:
        case ResourceType.TOPIC:
            fault = topic_name_fault(name)
            if fault is not None:
                raise kafka_error("INVALID_TOPIC_EXCEPTION", fault)
            if name not in image.topics_by_name:
                raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION")
            return describe_topic(overrides, node.settings, layers)
        case ResourceType.BROKER if name == "":
            return describe_cluster_defaults(layers)
        case ResourceType.BROKER:
            _check_broker_id(name, node.node_id, " or empty string,")
            return describe_broker(node.settings, layers)
        case ResourceType.BROKER_LOGGER:
            if name == "":
                raise invalid_request("Broker id must not be empty")
            _check_broker_id(name, node.node_id, "")
            return [Described(key, level, Source.BROKER_LOGGER, 0) for key, level in broker_loggers().items()]
        case ResourceType.CLIENT_METRICS:
            if name == "":
                raise invalid_request("Client metrics subscription name must not be empty")
            return describe_client_metrics(overrides)
        case ResourceType.GROUP:
            if name == "":
                raise invalid_request("Group name must not be empty")
            return describe_group(overrides, node.settings, layers)
    raise kafka_error("INVALID_REQUEST", f"Unknown resource type {kind}")


def _check_broker_id(name: str, node_id: int, alternative: str) -> None:
    digits = name[1:] if name[:1] in ("-", "+") else name
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise invalid_request(f"Broker id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise invalid_request(f"Unexpected broker id, expected {node_id}{alternative} but received {int(name)}")


async def act_list_config_resources(
    node: Administered, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Versions 0-1. v0 client metrics subscriptions only (KIP-714, 1000), v1 the requested types, or all (KIP-1142).

    All topics and brokers are listed, even without settings of their own; groups and subscriptions only with settings.
    Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    if not context.authorize(DESCRIBE_CONFIGS_CLUSTER):
        return ListConfigResourcesResponse(throttle_time_ms, DESCRIBE_CONFIGS_CLUSTER.refusal)
    types = set(request.resource_types if context.api_version >= 1 else (int(ResourceType.CLIENT_METRICS),))
    if not types <= set(ResourceType):
        return ListConfigResourcesResponse(throttle_time_ms, UNSUPPORTED_VERSION)
    listed: list[ListedConfigResource] = []
    for kind in sorted(ResourceType, reverse=True):
        if not types or kind in types:
            listed += [ListedConfigResource(name, kind) for name in _names_of(node, kind)]
    return ListConfigResourcesResponse(throttle_time_ms, 0, tuple(listed))


def _names_of(node: Administered, kind: int) -> list[str]:
    if kind == ResourceType.TOPIC:
        return sorted(node.image.topics_by_name)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(node.image.brokers)]
    return sorted(resource.name for resource in node.image.configs if resource.resource_type == kind)


# -- changing


async def act_incremental_alter_configs(
    node: Administered, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Versions 0-1. Set, delete, append, subtract (KIP-339); v1 flexible (KIP-482); broker loggers (KIP-412).

    Answers once the records are committed and the logs use them. Log levels belong to this process and are not stored.
    Better than Kafka: an unknown operation gets 42, not -1. Ignored on purpose: nothing; a setting without an effect is
    rejected, unless its row says why it does not matter here.
    """
    answers: list[IncrementalAlterConfigsResourceResponse | None] = []
    asked: list[IncrementalAlterConfigsResource] = []
    repeated = await _repeated(context, request.resources)
    for resource in request.resources:
        await context.pause()
        kind, name = resource.resource_type, resource.resource_name
        error: KafkaError | None = None
        try:
            _check_right(context, _TO_ALTER, kind, name)
            if kind != ResourceType.BROKER_LOGGER or (kind, name) in repeated:
                refusal = await _refusal_of_own(node, context, request, resource, repeated)
                if refusal is None:
                    asked.append(resource)
                answers.append(refusal)
                continue
            context.run_to_end()
            _alter_loggers(node, resource, request.validate_only)
        except KafkaError as refusal:
            error = refusal
        answers.append(IncrementalAlterConfigsResourceResponse(*_code_and_message(error), kind, name))
    forwarded = await _forwarded(node, context, request, asked, IncrementalAlterConfigsResourceResponse)
    return IncrementalAlterConfigsResponse(context.throttle(), await context.finish(_merged(answers, forwarded)))


async def act_alter_configs(
    node: Administered, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Versions 0-2. Replaces all settings of each resource (KIP-133); v2 flexible (KIP-482).

    Answers once the records are committed and the logs use them. Broker loggers are rejected, as in Kafka.
    Ignored on purpose: nothing, as IncrementalAlterConfigs.
    """
    answers: list[AlterConfigsResourceResponse | None] = []
    asked = []
    repeated = await _repeated(context, request.resources)
    for resource in request.resources:
        await context.pause()
        kind, name = resource.resource_type, resource.resource_name
        try:
            _check_right(context, _TO_ALTER, kind, name)
            refusal = await _refusal_of_own(node, context, request, resource, repeated)
            if refusal is None:
                asked.append(resource)
            answers.append(refusal)
        except KafkaError as refusal:
            answers.append(AlterConfigsResourceResponse(*_code_and_message(refusal), kind, name))
    forwarded = await _forwarded(node, context, request, asked, AlterConfigsResourceResponse)
    return AlterConfigsResponse(context.throttle(), await context.finish(_merged(answers, forwarded)))


async def _forwarded(
    node: Administered,
    context: RequestContext,
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    asked: Sequence[_Resource],
    entry: type[_Entry],
) -> tuple[_Entry, ...]:
    """The controller's answers for these resources of the request, in order."""
    if not asked:
        return ()
    try:
        answer = await context.wait(node.submit(msgspec.structs.replace(request, resources=tuple(asked)), context))
        return cast(tuple[_Entry, ...], answer.responses)
    except KafkaError as failed:
        return await context.finish(_refused(entry(*_code_and_message(failed)), asked))


def _refused(as_: _Entry, resources: Sequence[_Resource]) -> Pausing[tuple[_Entry, ...]]:
    return each_of(
        msgspec.structs.replace(as_, resource_type=one.resource_type, resource_name=one.resource_name)
        for one in resources
    )


def _merged(answers: list[_Entry | None], forwarded: tuple[_Entry, ...]) -> Pausing[tuple[_Entry, ...]]:
    """`answers`, with the controller's answers in the open places, in the order of the request."""
    rest = iter(forwarded)
    return each_of(next(rest) if answer is None else answer for answer in answers)


async def _refusal_of_own(
    node: Administered,
    context: RequestContext,
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    resource: AlterConfigsResource | IncrementalAlterConfigsResource,
    repeated: Container[tuple[int, str]],
) -> Any:
    """The answer that rejects a change of this node's own settings; None: forward it. Changes of other resources, and
    of resources that the request repeats, are also forwarded. The check runs here, because the controller may be
    another node, which does not know the settings that this node was started with."""
    place = resource.resource_type, resource.resource_name
    if place != (ResourceType.BROKER, str(node.node_id)) or place in repeated:
        return None
    alone = msgspec.structs.replace(request, resources=(resource,))
    alone = msgspec.structs.replace(alone, validate_only=False)  # to get its records
    decided: Any  # the records, and the answer of either type
    if isinstance(alone, IncrementalAlterConfigsRequest):
        decided = await context.finish(incremental_alter_configs(node.image, node.static_settings, alone))
    else:
        decided = await context.finish(alter_configs(node.image, node.static_settings, alone))
    records, answer = decided
    row = answer.responses[0]
    if not row.error_code:
        try:
            check_stores(node.image, node.static_settings, records)
        except KafkaError as error:
            code, message = _code_and_message(error)
            return msgspec.structs.replace(row, error_code=code, error_message=message)
    return row if row.error_code else None


async def _repeated(
    context: RequestContext, resources: Sequence[AlterConfigsResource | IncrementalAlterConfigsResource]
) -> dict[tuple[int, str], None]:
    """Resources that the request names more than once."""
    named: dict[tuple[int, str], None] = {}
    repeated: dict[tuple[int, str], None] = {}
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        if key in named:
            repeated[key] = None
        named[key] = None
        await context.pause()
    return repeated


def _code_and_message(error: KafkaError | None) -> tuple[int, str | None]:
    return (0, None) if error is None else (error.code, (error.message or "")[:MAX_MESSAGE_LENGTH] or None)


def _alter_loggers(node: Administered, resource: IncrementalAlterConfigsResource, validate_only: bool) -> None:
    """Sets log levels: all in the request or none. Raises the error of the first fault."""
    names = [config.name for config in resource.configs]
    if len(dict.fromkeys(names)) < len(names):
        raise invalid_request("Error due to duplicate config keys")
    _check_logger_broker(resource.resource_name, node.node_id)
    levels: dict[str, str | None] = {}
    for config in resource.configs:
        if config.config_operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            verb = "APPEND" if config.config_operation == ConfigOperation.APPEND else "SUBTRACT"
            raise invalid_request(f"{verb} operation is not allowed for the BROKER_LOGGER resource")
        if config.config_operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            raise invalid_request(f"Unknown config operation {config.config_operation} for {config.name}")
        is_set = config.config_operation == ConfigOperation.SET
        if is_set and config.value is None:
            raise invalid_request(f"Null value not supported for : {config.name}")
        levels[config.name] = config.value if is_set else None
        check_level(config.name, levels[config.name])
    if not validate_only:
        for name, level in levels.items():
            set_level(name, level)


def _check_logger_broker(name: str, node_id: int) -> None:
    digits = name[1:] if name[:1] in ("-", "+") else name
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise invalid_request(f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise invalid_request(f"Unexpected node id. Expected {node_id}, but received {int(name)}")


# -- rights


def _check_right(context: RequestContext, rights: tuple[Right, Right, Right], kind: int, name: str) -> None:
    """`rights`: to the settings of a topic, of a group and of the cluster; the last applies to all other resources.
    Raises TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED."""
    of_topics, of_groups, of_cluster = rights
    if kind == ResourceType.TOPIC:
        right = of_topics
    elif kind == ResourceType.GROUP:
        right = of_groups
    else:
        right, name = of_cluster, CLUSTER_NAME
    if not context.authorize(right, name):
        raise kafka_error(right.refusal, right.refusal_text)
