"""Maps the topics in offset requests to those that the group coordinator knows, and back.

The coordinator keeps offsets by topic name and has no metadata. These functions sort the topics of a request by the
metadata (unknown id 100, unknown name or partition 3, no access 29), and join the coordinator's response with the
rejected ones. The handlers of OffsetCommit and OffsetFetch use them. Pure, with pauses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from moldau.core.groups.refusals import refused_commit_topic, refused_fetch_topic
from moldau.core.groups.requests import FetchOffsets
from moldau.errors import ERROR_CODES
from moldau.types import ZERO_UUID, Pausing, Uuid, all_of, each_of
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FIRST_COMMIT_WITH_TOPIC_IDS = 10
FIRST_FETCH_WITH_TOPIC_IDS = 10
FIRST_FETCH_OF_MANY_GROUPS = 8

_UNKNOWN_TOPIC_OR_PARTITION = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]
_TOPIC_AUTHORIZATION_FAILED = ERROR_CODES["TOPIC_AUTHORIZATION_FAILED"]
_UNKNOWN_TOPIC_ID = ERROR_CODES["UNKNOWN_TOPIC_ID"]

_OLD_FIELDS = len(OffsetFetchResponsePartition.__struct_fields__)
"""The number of fields before v8. Later versions add theirs after these."""


class TopicLookup(Protocol):
    """The topics in the committed metadata."""

    def name_of(self, topic_id: Uuid) -> str | None:
        """The name of a topic; None for an unknown id."""

    def id_of(self, name: str) -> Uuid | None:
        """The id of a topic; None for an unknown name."""

    def has_partition(self, name: str, partition: int) -> bool:
        """Whether the topic exists and has this partition."""


class CommitPlan(msgspec.Struct, frozen=True):
    """`accepted`: the request to the coordinator, if any topics are left. `refused`: by index in the request."""

    accepted: OffsetCommitRequest
    refused: dict[int, OffsetCommitResponseTopic]


def plan_commit(
    message: OffsetCommitRequest, api_version: int, lookup: TopicLookup, may_read: Callable[[str], bool]
) -> Pausing[CommitPlan]:
    """Sorts the topics of an OffsetCommit. A topic with existing and missing partitions is both accepted and
    rejected."""
    accepted: list[OffsetCommitRequestTopic] = []
    refused: dict[int, OffsetCommitResponseTopic] = {}
    for position, topic in enumerate(message.topics):
        uses_ids = api_version >= FIRST_COMMIT_WITH_TOPIC_IDS
        name = lookup.name_of(topic.topic_id) if uses_ids else topic.name
        if name is None:
            refused[position] = yield from refused_commit_topic(topic, topic.name, _UNKNOWN_TOPIC_ID)
        elif not may_read(name):
            refused[position] = yield from refused_commit_topic(topic, name, _TOPIC_AUTHORIZATION_FAILED)
        else:
            known: list[OffsetCommitRequestPartition] = []
            unknown: list[OffsetCommitRequestPartition] = []
            for item in topic.partitions:
                (known if lookup.has_partition(name, item.partition_index) else unknown).append(item)
                yield
            if unknown:
                rest = OffsetCommitRequestTopic(name=name, topic_id=topic.topic_id, partitions=tuple(unknown))
                refused[position] = yield from refused_commit_topic(rest, name, _UNKNOWN_TOPIC_OR_PARTITION)
            if known:
                topic_id = lookup.id_of(name) or ZERO_UUID
                accepted.append(OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=tuple(known)))
    return CommitPlan(msgspec.structs.replace(message, topics=tuple(accepted)), refused)


def join_commit(
    message: OffsetCommitRequest, plan: CommitPlan, response: OffsetCommitResponse
) -> Pausing[OffsetCommitResponse]:
    """The response to `message`: each topic once, in the order of the request, its partitions too. If nothing was
    rejected, it is `response`."""
    answered = iter(response.topics)
    topics: list[OffsetCommitResponseTopic] = []
    for position, topic in enumerate(message.topics):
        yield
        refused = plan.refused.get(position)
        if not topic.partitions:
            # as in Kafka, a topic without partitions is left out
            continue
        if refused is None:
            topics.append(next(answered))
        elif len(refused.partitions) == len(topic.partitions):
            topics.append(refused)
        else:
            taken = next(answered)
            merged = yield from _in_order(topic, (*taken.partitions, *refused.partitions))
            topics.append(OffsetCommitResponseTopic(name=taken.name, topic_id=taken.topic_id, partitions=merged))
    return OffsetCommitResponse(throttle_time_ms=response.throttle_time_ms, topics=tuple(topics))


def _in_order(
    topic: OffsetCommitRequestTopic, partitions: tuple[OffsetCommitResponsePartition, ...]
) -> Pausing[tuple[OffsetCommitResponsePartition, ...]]:
    by_index: dict[int, list[OffsetCommitResponsePartition]] = {}
    for partition in partitions:
        by_index.setdefault(partition.partition_index, []).append(partition)
        yield
    ordered: list[OffsetCommitResponsePartition] = []
    for asked in topic.partitions:
        ordered += by_index.pop(asked.partition_index, ())
        yield
    return tuple(ordered)


class FetchPlan(msgspec.Struct, frozen=True):
    """The request to the coordinator of one group, and the topics that were rejected before."""

    request: FetchOffsets
    refused: tuple[OffsetFetchResponseTopics, ...]


def plan_fetch(
    message: OffsetFetchRequest, api_version: int, lookup: TopicLookup, may_describe: Callable[[str], bool]
) -> Pausing[tuple[FetchPlan, ...]]:
    """One plan for each group, in the order of the request. Before v8 a request has one group."""
    return all_of(
        _plan_group(group, api_version, message.require_stable, lookup, may_describe)
        for group in _groups_of(message, api_version)
    )


def _groups_of(message: OffsetFetchRequest, api_version: int) -> tuple[OffsetFetchRequestGroup, ...]:
    if api_version >= FIRST_FETCH_OF_MANY_GROUPS:
        return message.groups
    topics = message.topics
    if topics is not None:
        named = tuple(
            OffsetFetchRequestTopics(name=item.name, partition_indexes=item.partition_indexes) for item in topics
        )
        return (OffsetFetchRequestGroup(group_id=message.group_id, topics=named),)
    return (OffsetFetchRequestGroup(group_id=message.group_id, topics=None),)


def _plan_group(
    group: OffsetFetchRequestGroup,
    api_version: int,
    require_stable: bool,
    lookup: TopicLookup,
    may_describe: Callable[[str], bool],
) -> Pausing[FetchPlan]:
    if group.topics is None:
        return FetchPlan(FetchOffsets(group, require_stable), ())
    accepted: list[OffsetFetchRequestTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    for topic in group.topics:
        uses_ids = api_version >= FIRST_FETCH_WITH_TOPIC_IDS
        name = lookup.name_of(topic.topic_id) if uses_ids else topic.name
        if name is None:
            refused.append((yield from refused_fetch_topic(topic, "", _UNKNOWN_TOPIC_ID)))
        elif not may_describe(name):
            refused.append((yield from refused_fetch_topic(topic, name, _TOPIC_AUTHORIZATION_FAILED)))
        else:
            # also if the client names the topic, because an offset may be of a deleted topic of that name
            topic_id = topic.topic_id if uses_ids else lookup.id_of(name) or ZERO_UUID
            accepted.append(
                OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=topic.partition_indexes)
            )
            yield
    asked = msgspec.structs.replace(group, topics=tuple(accepted))
    return FetchPlan(FetchOffsets(asked, require_stable), tuple(refused))


def join_fetch(
    plans: tuple[FetchPlan, ...],
    answers: tuple[OffsetFetchResponseGroup, ...],
    api_version: int,
    lookup: TopicLookup,
    may_describe: Callable[[str], bool],
) -> Pausing[OffsetFetchResponse]:
    """The response for `api_version`; `answers` has one for each plan, in order.

    A request for all topics leaves out those that the client may not see, and since v10 those without an id.
    """
    groups = yield from all_of(
        _join_group(plan, answer, api_version, lookup, may_describe)
        for plan, answer in zip(plans, answers, strict=True)
    )
    if api_version >= FIRST_FETCH_OF_MANY_GROUPS:
        return OffsetFetchResponse(groups=groups)
    topics = yield from all_of(_old_topic(topic) for topic in groups[0].topics)
    return OffsetFetchResponse(topics=topics, error_code=groups[0].error_code)


def _join_group(
    plan: FetchPlan,
    answer: OffsetFetchResponseGroup,
    api_version: int,
    lookup: TopicLookup,
    may_describe: Callable[[str], bool],
) -> Pausing[OffsetFetchResponseGroup]:
    if answer.error_code:
        return answer
    if plan.request.group.topics is not None:
        return msgspec.structs.replace(answer, topics=(*answer.topics, *plan.refused))
    seen: list[OffsetFetchResponseTopics] = []
    for topic in answer.topics:
        topic_id = lookup.id_of(topic.name)
        has_place = api_version < FIRST_FETCH_WITH_TOPIC_IDS or topic_id is not None
        if has_place and may_describe(topic.name):
            seen.append(msgspec.structs.replace(topic, topic_id=topic_id or ZERO_UUID))
        yield
    return msgspec.structs.replace(answer, topics=tuple(seen))


def _old_topic(topic: OffsetFetchResponseTopics) -> Pausing[OffsetFetchResponseTopic]:
    rows = yield from each_of(
        OffsetFetchResponsePartition(*msgspec.structs.astuple(partition)[:_OLD_FIELDS])
        for partition in topic.partitions
    )
    return OffsetFetchResponseTopic(name=topic.name, partitions=rows)
