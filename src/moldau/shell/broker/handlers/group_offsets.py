"""OffsetCommit, TxnOffsetCommit and OffsetFetch: a group's committed offsets, kept by the group's coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from moldau.core.groups.offset_topics import (
    FIRST_COMMIT_WITH_TOPIC_IDS,
    join_commit,
    join_fetch,
    plan_commit,
    plan_fetch,
)
from moldau.core.groups.refusals import refusal
from moldau.core.groups.requests import CommitInTransaction, GroupRequest
from moldau.core.metadata.image import MetadataImage
from moldau.core.transactions.requests import AddPartitions, VerifyPartitions
from moldau.core.transactions.state import TRANSACTIONS_V2
from moldau.errors import ERROR_CODES
from moldau.shell.broker.handlers.groups import ask_group, group_request
from moldau.shell.network.context import RequestContext, throttled
from moldau.shell.network.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC, READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID
from moldau.types import Pausing, ProducerEpoch, ProducerId, TopicPartition, Uuid, all_of, each_of
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from moldau.wire.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

COORDINATOR_LOAD_IN_PROGRESS = ERROR_CODES["COORDINATOR_LOAD_IN_PROGRESS"]
COORDINATOR_NOT_AVAILABLE = ERROR_CODES["COORDINATOR_NOT_AVAILABLE"]
INVALID_GROUP_ID = ERROR_CODES["INVALID_GROUP_ID"]
INVALID_PRODUCER_EPOCH = ERROR_CODES["INVALID_PRODUCER_EPOCH"]
INVALID_PRODUCER_ID_MAPPING = ERROR_CODES["INVALID_PRODUCER_ID_MAPPING"]
INVALID_TXN_STATE = ERROR_CODES["INVALID_TXN_STATE"]
PRODUCER_FENCED = ERROR_CODES["PRODUCER_FENCED"]
TRANSACTION_ABORTABLE = ERROR_CODES["TRANSACTION_ABORTABLE"]

FIRST_WITH_TOPIC_IDS = 6
FIRST_THAT_JOINS = 5
FIRST_THAT_MAY_ABORT = 4
FIRST_THAT_WAITS_FOR_LOADING = 2
"""Versions of TxnOffsetCommit."""

_AS_OFFSET_COMMIT = 8
"""TxnOffsetCommit by topic name is handled as this version of OffsetCommit; by topic id, as the first with topic
ids."""


class ImageLookup:
    """Looks up topics in the metadata."""

    __slots__ = ("_image",)

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def name_of(self, topic_id: Uuid) -> str | None:
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def id_of(self, name: str) -> Uuid | None:
        topic = self._image.topics_by_name.get(name)
        return None if topic is None else topic.topic_id

    def has_partition(self, name: str, partition: int) -> bool:
        topic = self._image.topics_by_name.get(name)
        return topic is not None and partition in topic.partitions


async def act_offset_commit(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Versions 2-10. v6 leader epoch (KIP-320), v7 static members (KIP-345), v8 flexible, v9 member epoch (KIP-848),
    v10 topic ids (KIP-516).

    Ignored on purpose: nothing; an empty group id gets 24, where Kafka accepts it.
    """
    throttle_time_ms = context.throttle()
    return throttled(await _commit(broker, context, request), throttle_time_ms)


async def _commit(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    whole = group_request(context, request)
    if not context.authorize(READ_GROUP, request.group_id):
        return cast(OffsetCommitResponse, await context.finish(refusal(whole, READ_GROUP.refusal)))
    if request.group_id == "":
        return cast(OffsetCommitResponse, await context.finish(refusal(whole, INVALID_GROUP_ID)))

    def may_read(name: str) -> bool:
        return context.authorize(READ_TOPIC, name)

    plan = await context.finish(plan_commit(request, context.api_version, ImageLookup(broker.image), may_read))
    answer = OffsetCommitResponse()
    if plan.accepted.topics or not plan.refused:
        asked = group_request(context, plan.accepted)
        answer = cast(OffsetCommitResponse, await context.wait(broker.coordination.groups.ask(request.group_id, asked)))
    return await context.finish(join_commit(request, plan, answer)) if plan.refused else answer


async def act_txn_offset_commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Versions 0-6. KIP-98; v2 leader epoch (KIP-320), v3 members (KIP-447) and flexible, v4 TRANSACTION_ABORTABLE, v5
    the group's partition joins the transaction by itself (both KIP-890), v6 topic ids, and 69 for a generation of a
    missing group (KIP-1319).

    Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    commit = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=await context.finish(all_of(_plain_topic(topic) for topic in request.topics)),
    )
    answer = context.keep(await _commit_in_transaction(broker, context, request, commit))
    topics = await context.finish(all_of(_txn_topic(topic) for topic in answer.topics))
    return TxnOffsetCommitResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _plain_topic(topic: TxnOffsetCommitRequestTopic) -> Pausing[OffsetCommitRequestTopic]:
    rows = yield from each_of(OffsetCommitRequestPartition(*msgspec.structs.astuple(row)) for row in topic.partitions)
    return OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=rows)


def _txn_topic(topic: OffsetCommitResponseTopic) -> Pausing[TxnOffsetCommitResponseTopic]:
    rows = yield from each_of(
        TxnOffsetCommitResponsePartition(row.partition_index, row.error_code) for row in topic.partitions
    )
    return TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, rows)


async def _commit_in_transaction(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest, commit: OffsetCommitRequest
) -> OffsetCommitResponse:
    producer_id, producer_epoch = ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)
    has_topic_ids = context.api_version >= FIRST_WITH_TOPIC_IDS
    version = FIRST_COMMIT_WITH_TOPIC_IDS if has_topic_ids else _AS_OFFSET_COMMIT

    def asked_for(some: OffsetCommitRequest) -> GroupRequest:
        message = CommitInTransaction(some, producer_id, producer_epoch)
        return GroupRequest(message, version, context.client_id, context.session.client_address)

    code = _missing_right(context, request)
    if code:
        return cast(OffsetCommitResponse, await context.finish(refusal(asked_for(commit), code)))

    def may_read(name: str) -> bool:
        return context.authorize(READ_TOPIC, name)

    async def verify(partition: TopicPartition) -> int:
        return await _verify(broker, context, request, partition)

    plan = await context.finish(plan_commit(commit, version, ImageLookup(broker.image), may_read))
    answer = OffsetCommitResponse()
    if plan.accepted.topics:
        asked, group_id = asked_for(plan.accepted), request.group_id
        if group_id == "" or producer_id < 0:
            # without a producer the offsets would be committed at once
            code = INVALID_GROUP_ID if group_id == "" else INVALID_PRODUCER_ID_MAPPING
            answer = cast(OffsetCommitResponse, await context.finish(refusal(asked, code)))
        else:
            asking = broker.coordination.groups.ask_in_transaction(group_id, asked, producer_id, producer_epoch, verify)
            answer = cast(OffsetCommitResponse, await context.wait(asking))
    return await context.finish(join_commit(commit, plan, answer)) if plan.refused else answer


def _missing_right(context: RequestContext, request: TxnOffsetCommitRequest) -> int:
    """The code that rejects the whole request; 0: none."""
    if not context.authorize(WRITE_TRANSACTIONAL_ID, request.transactional_id):
        return WRITE_TRANSACTIONAL_ID.refusal
    return 0 if context.authorize(READ_GROUP, request.group_id) else READ_GROUP.refusal


async def _verify(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest, partition: TopicPartition
) -> int:
    """0 if the group's partition is in the producer's transaction or joins it now; else an error code that this version
    knows."""
    version = context.api_version
    joins = version >= FIRST_THAT_JOINS
    if not joins and not broker.settings.transaction_partition_verification_enable:
        return 0
    place = request.transactional_id, request.producer_id, request.producer_epoch, (partition,)
    asked = AddPartitions(*place, TRANSACTIONS_V2) if joins else VerifyPartitions(*place)
    code = (await context.wait(broker.coordination.transactions.ask_coordinator(asked)))[partition]
    if code == PRODUCER_FENCED:
        return INVALID_PRODUCER_EPOCH
    if code == TRANSACTION_ABORTABLE and version < FIRST_THAT_MAY_ABORT:
        return INVALID_TXN_STATE
    if code == COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_THAT_WAITS_FOR_LOADING:
        return COORDINATOR_NOT_AVAILABLE
    return code


async def act_offset_fetch(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Versions 1-10. v2 all topics and an error of the whole (KIP-88), v5 leader epoch (KIP-320), v7 require stable
    (KIP-447), v8 many groups (KIP-709), v9 member epoch (KIP-848), v10 topic ids (KIP-516).

    A group that is asked for all topics more than once is answered once: a short request would get a long answer.
    Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()

    # versions 0 and 1 have no error of the whole request: each partition gets the group's, even without a right to the
    # topic
    is_refused = context.api_version < 2 and not context.authorize(DESCRIBE_GROUP, request.group_id)

    def may_describe(name: str) -> bool:
        return is_refused or context.authorize(DESCRIBE_TOPIC, name)

    groups = await _once_each(context, request.groups)
    found: list[OffsetFetchResponseGroup] = []
    response = OffsetFetchResponse()
    # versions from 8 on have a list of groups; earlier ones ask for one group, which the request itself names
    for group in groups or (None,):
        some = () if group is None else (group,)
        asked = request if some == request.groups else msgspec.structs.replace(request, groups=some)
        plans = await context.finish(plan_fetch(asked, context.api_version, ImageLookup(broker.image), may_describe))
        answers = []
        for plan in plans:
            group_id = plan.request.group.group_id
            answer = await ask_group(broker, context, DESCRIBE_GROUP, group_id, plan.request)
            answers.append(cast(OffsetFetchResponseGroup, answer))
        lookup = ImageLookup(broker.image)
        response = await context.finish(join_fetch(plans, tuple(answers), context.api_version, lookup, may_describe))
        found += response.groups
        await context.pause()
    if len(groups) > 1:
        response = OffsetFetchResponse(groups=tuple(found))
    return throttled(response, throttle_time_ms)


async def _once_each(
    context: RequestContext, groups: tuple[OffsetFetchRequestGroup, ...]
) -> Sequence[OffsetFetchRequestGroup]:
    if len(groups) < 2:
        return groups
    wanted: dict[str, None] = {}
    kept = []
    for group in groups:
        await context.pause()
        if group.topics is None:
            if group.group_id in wanted:
                continue
            wanted[group.group_id] = None
        kept.append(group)
    return kept
