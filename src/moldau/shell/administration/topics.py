"""CreateTopics and DeleteTopics: answered by the active controller."""

from __future__ import annotations

import msgspec

from moldau.core.controller.requests import STRICT_FROM, metered
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.shell.administration.asking import Administered
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_TOPIC,
)
from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

TOPIC_IDS_FROM = 6
UNKNOWN_TOPIC_OR_PARTITION = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]
TOPIC_DELETION_DISABLED = ERROR_CODES["TOPIC_DELETION_DISABLED"]


async def act_create_topics(
    node: Administered, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Versions 2-7. v4 default counts (KIP-464), v5 configs in the answer (KIP-525), v6 throttling (KIP-599), v7 topic
    ids (KIP-516).

    Answers once the records are committed and this broker serves the partitions. Ignored on purpose: the timeout beyond
    its sign (one node decides at once).
    """
    may_create_any = context.authorize(CREATE_CLUSTER)
    allowed: list[CreatableTopic] = []
    refused: dict[str, CreatableTopicResult] = {}
    for topic in request.topics:
        if may_create_any or context.authorize(CREATE_TOPIC, topic.name):
            allowed.append(topic)
        else:
            refused[topic.name] = CreatableTopicResult(
                topic.name,
                error_code=CREATE_TOPIC.refusal,
                error_message="Authorization failed.",
                configs=(),
            )
        await context.pause()
    results = list(refused.values())
    quota, mutation_ms = context.mutation_quota(STRICT_FROM[ApiKey.CREATE_TOPICS]), 0
    if allowed:
        try:
            forward = msgspec.structs.replace(request, topics=tuple(allowed))
            answer: CreateTopicsResponse = await context.wait(node.submit(metered(forward, quota), context))
            mutation_ms = answer.throttle_time_ms
            made: list[CreatableTopicResult] = []
            for result in answer.topics:
                made.append(_shown(context, result))
                await context.pause()
            results = [*made, *results]
        except KafkaError as error:
            names = dict.fromkeys(topic.name for topic in allowed)
            results = [
                *(CreatableTopicResult(name, ZERO_UUID, error.code, error.message) for name in names),
                *results,
            ]
    return CreateTopicsResponse(throttle_time_ms=context.throttle(mutation_ms=mutation_ms), topics=tuple(results))


def _shown(context: RequestContext, topic: CreatableTopicResult) -> CreatableTopicResult:
    """The topic without its counts and configs, for a client that may not describe them."""
    if topic.error_code or context.authorize(DESCRIBE_CONFIGS_TOPIC, topic.name):
        return topic
    return msgspec.structs.replace(
        topic,
        topic_config_error_code=DESCRIBE_CONFIGS_TOPIC.refusal,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )


async def act_delete_topics(
    node: Administered, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Versions 1-6. v4 flexible (KIP-482), v5 error message (KIP-599), v6 by topic id (KIP-516).

    Ignored on purpose: the timeout beyond its sign (one node decides at once).
    """
    states = request.topics
    if context.api_version < TOPIC_IDS_FROM:
        states = tuple(DeleteTopicState(name=name) for name in request.topic_names)
    allowed: list[DeleteTopicState] = []
    results: list[DeletableTopicResult] = []
    counts: dict[DeleteTopicState, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
        await context.pause()
    may_delete_any = context.authorize(DELETE_CLUSTER)
    for state in states:
        refusal = _refusal(node, context, state, is_repeated=counts[state] > 1, may_delete_any=may_delete_any)
        if refusal is None:
            allowed.append(state)
        else:
            results.append(refusal)
        await context.pause()
    quota, mutation_ms = context.mutation_quota(STRICT_FROM[ApiKey.DELETE_TOPICS]), 0
    if allowed:
        try:
            forward = msgspec.structs.replace(request, topics=tuple(allowed), topic_names=())
            answer: DeleteTopicsResponse = await context.wait(node.submit(metered(forward, quota), context))
            mutation_ms = answer.throttle_time_ms
            results = [*answer.responses, *results]
        except KafkaError as error:
            results = [
                *(DeletableTopicResult(state.name, state.topic_id, error.code, error.message) for state in allowed),
                *results,
            ]
    return DeleteTopicsResponse(throttle_time_ms=context.throttle(mutation_ms=mutation_ms), responses=tuple(results))


def _refusal(
    node: Administered, context: RequestContext, state: DeleteTopicState, *, is_repeated: bool, may_delete_any: bool
) -> DeletableTopicResult | None:
    """None: the controller answers. As in Kafka, a client that names a topic also needs the right to describe it; with
    its id it does not, and a client that may delete from the cluster needs neither right. Faults of the request itself
    are reported without any right."""
    name, topic_id = state.name, state.topic_id
    if not node.settings.delete_topic_enable:
        return _refused(name, topic_id, TOPIC_DELETION_DISABLED)
    if is_repeated or (name is None) == (topic_id == ZERO_UUID) or may_delete_any:
        return None
    if name is None:
        topic = node.image.topics_by_id.get(topic_id)
        if topic is None or context.authorize(DELETE_TOPIC, topic.name):
            return None
        shown = topic.name if context.authorize(DESCRIBE_TOPIC, topic.name) else None
        return _refused(shown, topic_id, DELETE_TOPIC.refusal)
    if not context.authorize(DESCRIBE_TOPIC, name):
        return _refused(name, topic_id, DESCRIBE_TOPIC.refusal)
    if context.authorize(DELETE_TOPIC, name):
        return None
    is_known = name in node.image.topics_by_name
    return _refused(name, topic_id, DELETE_TOPIC.refusal if is_known else UNKNOWN_TOPIC_OR_PARTITION)


def _refused(name: str | None, topic_id: Uuid, code: int) -> DeletableTopicResult:
    text = DELETE_TOPIC.refusal_text if code == DELETE_TOPIC.refusal else kafka_error(code).message
    return DeletableTopicResult(name, topic_id, code, text)
