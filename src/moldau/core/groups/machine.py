"""The group coordinator of one partition of `__consumer_offsets`, as a state machine.

Requests and responses: requests.py. Records: records.py (`decode_group_record` and `encode_group_record`). Durable and
volatile state: state.py. Steady time ends sessions and rebalances, wall time goes into records.

Every rejection is a reply with Kafka's error code; `decide` raises no KafkaError. A request id gets a second reply only
if the append of the first failed.
"""

from __future__ import annotations

from typing import assert_never

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.coordination.machine import Decision, Now
from moldau.core.groups.classic.group import Parked
from moldau.core.groups.classic.join import group_not_made, join
from moldau.core.groups.classic.membership import heartbeat, leave, session_expired
from moldau.core.groups.classic.memory import MemberMemory
from moldau.core.groups.classic.rebalance import join_phase_over, prepare
from moldau.core.groups.classic.sync import group_not_written, sync, sync_phase_over
from moldau.core.groups.describe import describe_group, list_groups
from moldau.core.groups.draft import Draft, GroupDecision
from moldau.core.groups.expiry import (
    continue_deletion,
    delete_group,
    delete_offsets,
    deletion_not_begun,
    expire,
    forget_topics,
    topics_not_forgotten,
)
from moldau.core.groups.offsets import commit_in_transaction, commit_offsets, fetch_offsets
from moldau.core.groups.records import GroupRecord
from moldau.core.groups.requests import (
    AnyGroupRequest,
    CommitInTransaction,
    ContinueDeletion,
    ContinueOffsetDeletion,
    DeleteGroup,
    DeletionNotBegun,
    DescribeGroup,
    EndTransaction,
    ExpireOffsets,
    FetchOffsets,
    ForgetTopics,
    GroupNotMade,
    GroupNotWritten,
    GroupRequest,
    GroupResponse,
    JoinPhaseOver,
    SessionExpired,
    SyncPhaseOver,
    TopicsNotForgotten,
    TransactionEnded,
)
from moldau.core.groups.state import GroupsState, fold_record, fold_transaction_end, topic_ids, topics_with_offsets
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.ports import Random
from moldau.types import ZERO_UUID, Offset, Pausing, ProducerEpoch, ProducerId
from moldau.wire.protocol.messages.group_admin import OffsetDeleteRequest
from moldau.wire.protocol.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from moldau.wire.protocol.messages.offsets import OffsetCommitRequest


class GroupMachine:
    """`Machine[GroupsState, AnyGroupRequest, GroupResponse, GroupRecord]`. The state is an argument."""

    def __init__(self, settings: BrokerSettings, random: Random, memory: MemberMemory) -> None:
        self._settings = settings
        self._random = random
        self._memory = memory

    def new_state(self) -> GroupsState:
        return GroupsState(memory=self._memory)

    def decide(
        self, state: GroupsState, request_id: int, request: AnyGroupRequest, now: Now
    ) -> GroupDecision | Pausing[GroupDecision]:
        if isinstance(request, EndTransaction):
            return _end_transaction(request_id, request)
        draft = Draft(state, self._settings, self._random, now)
        if isinstance(request, GroupRequest):
            work = _decide_message(draft, Parked(request_id, request.api_version), request)
            if work is not None:
                return _decided(draft, work)
        elif isinstance(request, SessionExpired):
            session_expired(draft, request)
        elif isinstance(request, JoinPhaseOver):
            join_phase_over(draft, request)
        elif isinstance(request, SyncPhaseOver):
            sync_phase_over(draft, request)
        elif isinstance(request, ForgetTopics):
            forget_topics(draft, request)
        elif isinstance(request, TopicsNotForgotten):
            topics_not_forgotten(draft, request)
        elif isinstance(request, ExpireOffsets):
            expire(draft, request)
        elif isinstance(request, ContinueDeletion):
            continue_deletion(draft, request)
        elif isinstance(request, ContinueOffsetDeletion):
            return _decided(draft, delete_offsets(draft, request.parked, request.message, request.done))
        elif isinstance(request, DeletionNotBegun):
            deletion_not_begun(draft, request)
        elif isinstance(request, GroupNotWritten):
            group_not_written(draft, request)
        elif isinstance(request, GroupNotMade):
            group_not_made(draft, request)
        else:
            assert_never(request)
        return draft.decision()

    def decide_loaded(self, state: GroupsState, image: MetadataImage, now: Now) -> GroupDecision:
        """Every recorded member gets one session timeout. Old offsets end at the first check, offsets of missing topics
        now."""
        draft = Draft(state, self._settings, self._random, now)
        state.is_loaded = True
        draft.arm_expiry(self._settings.offsets_retention_check_interval_ms, ExpireOffsets())
        for group in state.groups.values():
            for member in group.members.values():
                draft.arm_session(group, member)
            if len(group.members) > self._settings.group_max_size:
                # the bound was lowered since: the last members to join again are rejected
                prepare(draft, group)
        gone = [name for name in topics_with_offsets(state) if image.topic(name) is None]
        if gone:
            forget_topics(draft, ForgetTopics(topic_ids(state, gone)))
        return draft.decision()

    def decide_metadata(
        self, state: GroupsState, image: MetadataImage, delta: MetadataDelta, now: Now
    ) -> GroupDecision:
        """A new topic with the name of a deleted one begins without committed offsets."""
        draft = Draft(state, self._settings, self._random, now)
        deleted = delta.deleted_topics.values()
        gone = tuple((topic.name, topic_id) for topic in deleted for topic_id in (topic.topic_id, ZERO_UUID))
        if gone:
            forget_topics(draft, ForgetTopics(gone))
        return draft.decision()

    def apply(
        self,
        state: GroupsState,
        offset: Offset,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        record: GroupRecord,
    ) -> None:
        fold_record(state, offset, producer_id, record)

    def apply_end_transaction(
        self, state: GroupsState, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> Pausing[None]:
        return fold_transaction_end(state, producer_id, committed)


def _end_transaction(request_id: int, request: EndTransaction) -> GroupDecision:
    """Writes the marker, even if the producer has committed nothing: it fences late commits of an earlier epoch."""
    return Decision(
        replies=((request_id, TransactionEnded()),),
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        marker=request.marker,
        transaction_version=request.transaction_version,
    )


def _decided(draft: Draft, work: Pausing[None]) -> Pausing[GroupDecision]:
    yield from work
    return draft.decision()


def _reply(draft: Draft, parked: Parked, work: Pausing[GroupResponse]) -> Pausing[None]:
    draft.reply(parked, (yield from work))


def _decide_message(draft: Draft, parked: Parked, request: GroupRequest) -> Pausing[None] | None:
    """Decides the message. Returns the rest of the work if the message may name many things."""
    message = request.message
    if isinstance(message, HeartbeatRequest):
        heartbeat(draft, parked, message)
    elif isinstance(message, OffsetCommitRequest):
        return commit_offsets(draft, parked, message)
    elif isinstance(message, CommitInTransaction):
        return commit_in_transaction(draft, parked, message)
    elif isinstance(message, FetchOffsets):
        return _reply(draft, parked, fetch_offsets(draft.state, message))
    elif isinstance(message, JoinGroupRequest):
        join(draft, parked, request, message)
    elif isinstance(message, SyncGroupRequest):
        return sync(draft, parked, message)
    elif isinstance(message, LeaveGroupRequest):
        return leave(draft, parked, message)
    elif isinstance(message, DescribeGroup):
        draft.reply(parked, describe_group(draft.state, message.group_id, parked.api_version))
    elif isinstance(message, ListGroupsRequest):
        draft.reply(parked, list_groups(draft.state, message))
    elif isinstance(message, DeleteGroup):
        delete_group(draft, parked, message)
    elif isinstance(message, OffsetDeleteRequest):
        return delete_offsets(draft, parked, message)
    else:
        assert_never(message)
    return None
