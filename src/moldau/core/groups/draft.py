"""The draft of a decision: what a group machine collects while it decides, that is records, replies and timers."""

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
    """The draft of one decision, which is handed through the functions that decide. A timer that is set twice has the
    last setting."""

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
        """Of the names in the tombstones: clients choose how long a group id is."""
        self.counts: dict[str, int] = {}
        """By name of the counter: see counters.py."""
        self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        """Whose transaction the records belong to."""
        self._timers: dict[Hashable, Timer[AnyGroupRequest]] = {}

    def decision(self) -> GroupDecision:
        """What was collected, as one value for the runtime."""
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
        """Answers a request that waits; the answer is sent once the draft's records are committed."""
        self.replies.append((parked.request_id, response))

    def end_position(self, key: OffsetCommitKey, counter: str) -> None:
        """Writes that the group has no position there any more; `counter` is of the reason."""
        self.records.append(OffsetRecord(key, None))
        self.ended_characters += len(key.group) + len(key.topic)
        self.count(counter)

    def end_group(self, group: Group) -> None:
        """Writes that the group is no more; its positions have ended before."""
        self.records.append(GroupMetadataRecord(GroupMetadataKey(group=group.group_id), None))
        self.ended_characters += len(group.group_id)

    def count(self, counter: str) -> None:
        """One more, once the draft's records stand in the log."""
        self.counts[counter] = self.counts.get(counter, 0) + 1

    # timers

    def arm_session(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """The member must be heard of within `timeout_ms` (default: its session timeout)."""
        delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_deadline_ms = self.now_ms + delay_ms
        self.arm_pending_session(group, member.member_id, delay_ms)

    def arm_pending_session(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """A member id that was given out ends if nobody joins with it within `timeout_ms`."""
        key = ("session", group.group_id, member_id)
        self._timers[key] = Timer(key, self.now_ms + timeout_ms, SessionExpired(group.group_id, member_id))

    def cancel_session(self, group: Group, member_id: str) -> None:
        """The member's session, or its unused member id, no longer ends by time."""
        self._cancel(("session", group.group_id, member_id))

    def arm_join(self, group: Group, delay_ms: int, firing: JoinPhaseOver) -> None:
        """The join phase is over in `delay_ms`, unless all members have joined before."""
        key = ("join", group.group_id)
        self._timers[key] = Timer(key, self.now_ms + delay_ms, firing)

    def cancel_join(self, group: Group) -> None:
        """The join phase no longer ends by time."""
        self._cancel(("join", group.group_id))

    def arm_sync(self, group: Group) -> None:
        """The sync phase is over after the group's rebalance timeout; members that have not synced are removed then."""
        key = ("sync", group.group_id)
        firing = SyncPhaseOver(group.group_id, group.generation)
        self._timers[key] = Timer(key, self.now_ms + group.rebalance_timeout_ms(), firing)

    def cancel_sync(self, group: Group) -> None:
        """The sync phase no longer ends by time."""
        self._cancel(("sync", group.group_id))

    def continue_forgetting(self, firing: ForgetTopics, delay_ms: int = 0) -> None:
        """Goes on with a decision of its own: one decision is one batch, and batches have a size."""
        key = ("forget", firing.topics)
        self._timers[key] = Timer(key, self.now_ms + delay_ms, firing)

    def arm_expiry(self, delay_ms: int, firing: ExpireOffsets) -> None:
        """Offsets and empty groups are looked through in `delay_ms`."""
        key = ("expire",)
        self._timers[key] = Timer(key, self.now_ms + delay_ms, firing)

    def continue_deletion(self, firing: ContinueDeletion | ContinueOffsetDeletion, *, is_first: bool) -> None:
        """As `continue_forgetting`; the request that began it stays parked. `is_first`: this is the first batch, and
        nothing goes on where it is refused, for the request has the error then."""
        key = ("delete", firing.parked.request_id)
        self._timers[key] = Timer(key, self.now_ms, firing)
        if is_first:
            self.if_refused.append(DeletionNotBegun(firing.parked))

    def end_deletion(self, parked: Parked) -> None:
        """The deletion that this request began does not go on."""
        self._cancel(("delete", parked.request_id))

    def _cancel(self, key: Hashable) -> None:
        self._timers[key] = Timer(key, None)
