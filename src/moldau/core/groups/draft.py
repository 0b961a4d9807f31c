"""The draft of a decision: a group machine collects records, replies and timers in it."""

from __future__ import annotations

from collections.abc import Hashable

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.coordination.machine import Decision, Now, Timer
from moldau.core.groups.classic.group import Group, Member, Parked
from moldau.core.groups.records import GroupMetadataRecord, GroupRecord, OffsetRecord
from moldau.core.groups.requests import (
    AnyGroupRequest,
    ContinueDeletion,
    ContinueOffsetDeletion,
    DeletionNotBegun,
    ExpireOffsets,
    ForgetTopics,
    GroupResponse,
    JoinPhaseOver,
    SessionExpired,
    SyncPhaseOver,
)
from moldau.core.groups.state import GroupsState
from moldau.ports import Random
from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.wire.protocol.messages.group_records import GroupMetadataKey, OffsetCommitKey

GroupDecision = Decision[AnyGroupRequest, GroupResponse, GroupRecord]


class Draft:
    """The draft of one decision, passed through the deciding functions. The last setting of a timer counts."""

    __slots__ = (
        "_timers",
        "counts",
        "ended_characters",
        "if_refused",
        "now_ms",
        "producer_epoch",
        "producer_id",
        "random",
        "records",
        "replies",
        "settings",
        "state",
        "wall_ms",
    )

    def __init__(self, state: GroupsState, settings: BrokerSettings, random: Random, now: Now) -> None:
        self.state = state
        self.settings = settings
        self.random = random
        self.now_ms = now.steady_ms
        """For deadlines: never goes back."""
        self.wall_ms = now.wall_ms
        """For records: wall time, since the epoch."""
        self.records: list[GroupRecord] = []
        self.replies: list[tuple[int, GroupResponse]] = []
        self.if_refused: list[AnyGroupRequest] = []
        self.ended_characters = 0
        """The length of the names in the tombstones, because clients choose the length of a group id."""
        self.counts: dict[str, int] = {}
        """By the name of the counter, see counters.py."""
        self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        """The producer whose transaction the records belong to."""
        self._timers: dict[Hashable, Timer[AnyGroupRequest]] = {}

    def decision(self) -> GroupDecision:
        """The draft as one value for the runtime."""
        timers = tuple(self._timers.values())
        return Decision(
            tuple(self.records),
            tuple(self.replies),
            timers,
            tuple(self.if_refused),
            self.producer_id,
            self.producer_epoch,
            counts=tuple(self.counts.items()),
        )

    def reply(self, parked: Parked, response: GroupResponse) -> None:
        """Answers a waiting request after the draft's records are committed."""
        self.replies.append((parked.request_id, response))

    def end_position(self, key: OffsetCommitKey, counter: str) -> None:
        """Writes a tombstone for the committed offset. `counter`: of the reason."""
        self.records.append(OffsetRecord(key, None))
        self.ended_characters += len(key.group) + len(key.topic)
        self.count(counter)

    def end_group(self, group: Group) -> None:
        """Writes a tombstone for the group, whose offsets have ended before."""
        self.records.append(GroupMetadataRecord(GroupMetadataKey(group=group.group_id), None))
        self.ended_characters += len(group.group_id)

    def count(self, counter: str) -> None:
        """Counts one, after the draft's records are in the log."""
        self.counts[counter] = self.counts.get(counter, 0) + 1

    # timers

    def arm_session(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """The member must send a request within `timeout_ms` (default: its session timeout)."""
        delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_deadline_ms = self.now_ms + delay_ms
        self.arm_pending_session(group, member.member_id, delay_ms)

    def arm_pending_session(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """A member id expires unless a member joins with it within `timeout_ms`."""
        key = ("session", group.group_id, member_id)
        self._timers[key] = Timer(key, self.now_ms + timeout_ms, SessionExpired(group.group_id, member_id))

    def cancel_session(self, group: Group, member_id: str) -> None:
        """The session of the member, or its unused member id, no longer expires."""
        self._cancel(("session", group.group_id, member_id))

    def arm_join(self, group: Group, delay_ms: int, firing: JoinPhaseOver) -> None:
        """The join phase ends in `delay_ms`, unless all members join before."""
        key = ("join", group.group_id)
        self._timers[key] = Timer(key, self.now_ms + delay_ms, firing)

    def cancel_join(self, group: Group) -> None:
        """Cancels the timer of the join phase."""
        self._cancel(("join", group.group_id))

    def arm_sync(self, group: Group) -> None:
        """The sync phase ends after the group's rebalance timeout. Members without a SyncGroup are removed then."""
        key = ("sync", group.group_id)
        firing = SyncPhaseOver(group.group_id, group.generation)
        self._timers[key] = Timer(key, self.now_ms + group.rebalance_timeout_ms(), firing)

    def cancel_sync(self, group: Group) -> None:
        """Cancels the timer of the sync phase."""
        self._cancel(("sync", group.group_id))

    def continue_forgetting(self, firing: ForgetTopics, delay_ms: int = 0) -> None:
        """Continues in another decision, because one decision is one batch of bounded size."""
        key = ("forget", firing.topics)
        self._timers[key] = Timer(key, self.now_ms + delay_ms, firing)

    def arm_expiry(self, delay_ms: int, firing: ExpireOffsets) -> None:
        """Checks offsets and empty groups in `delay_ms`."""
        key = ("expire",)
        self._timers[key] = Timer(key, self.now_ms + delay_ms, firing)

    def continue_deletion(self, firing: ContinueDeletion | ContinueOffsetDeletion, *, is_first: bool) -> None:
        """As `continue_forgetting`; the first request stays parked. `is_first`: this is the first batch. If its append
        fails, the request gets the error and nothing continues."""
        key = ("delete", firing.parked.request_id)
        self._timers[key] = Timer(key, self.now_ms, firing)
        if is_first:
            self.if_refused.append(DeletionNotBegun(firing.parked))

    def end_deletion(self, parked: Parked) -> None:
        """The deletion of this request does not continue."""
        self._cancel(("delete", parked.request_id))

    def _cancel(self, key: Hashable) -> None:
        self._timers[key] = Timer(key, None)
