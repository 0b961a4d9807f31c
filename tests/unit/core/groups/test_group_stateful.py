"""Invariants in any order of requests, time, failed appends and reloads."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from moldau.core.coordination.host import LoadedTransactionEnd
from moldau.core.groups.classic.group import GroupState, pending_member_bytes
from moldau.core.groups.classic.join import NEW_MEMBER_JOIN_TIMEOUT_MS
from moldau.core.groups.requests import DeleteGroup
from moldau.core.groups.state import GroupsState, fold_record, fold_transaction_end
from moldau.errors import MoldauError
from moldau.types import whole
from moldau.wire.protocol.messages.group_admin import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.protocol.messages.groups_classic import JoinGroupResponse, SyncGroupResponse

SESSION_MS = 10_000
REBALANCE_MS = 20_000
RETENTION_MS = 60_000
CHECK_MS = 12_000
LONGEST_PARKED_MS = max(REBALANCE_MS + 1_000, NEW_MEMBER_JOIN_TIMEOUT_MS)

members = st.integers(0, 5)
instances = st.sampled_from([None, None, "i1", "i2"])
protocol_lists = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",)])


class GroupLife(RuleBasedStateMachine):
    """One group. Clients are not well-behaved: they join, sync and leave at any time."""

    def __init__(self, shard_class: Any) -> None:
        super().__init__()
        self.shard = shard_class(
            group_initial_rebalance_delay_ms=3_000,
            offsets_retention_minutes=RETENTION_MS // 60_000,
            offsets_retention_check_interval_ms=CHECK_MS,
        )
        self.known: list[tuple[str, str | None]] = []
        self.requests: dict[int, tuple[str, int, str]] = {}
        """By request: kind, generation, member."""
        self.seen = 0
        self.group: object = None
        self.assigned: dict[tuple[int, str], bytes] = {}
        self.generations: dict[int, tuple[str, str | None]] = {}
        self.unhindered_ms = 0
        """Since when no broken log and no open transaction has prevented the expiry of offsets."""

    def _member(self, pick: int) -> tuple[str, str | None]:
        return self.known[-1 - pick % len(self.known)] if self.known else ("nobody", None)

    @rule(instance=instances, names=protocol_lists, version=st.sampled_from([3, 4, 9]))
    def a_client_comes(self, instance: str | None, names: tuple[str, ...], version: int) -> None:
        self._join("", instance, names, max(version, 5) if instance else version)

    @rule(pick=members, names=protocol_lists)
    def a_member_comes_again(self, pick: int, names: tuple[str, ...]) -> None:
        member_id, instance = self._member(pick)
        self._join(member_id, instance, names, 9)

    def _join(self, member_id: str, instance: str | None, names: tuple[str, ...], version: int) -> None:
        message = self.shard.joining(
            member_id,
            instance_id=instance,
            protocols=self.shard.protocols(*names),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        request_id = self.shard.post(message, version)
        self.requests[request_id] = ("join", 0, instance or "")

    @rule(pick=members, everybody=st.booleans(), is_stale=st.booleans())
    def a_member_syncs(self, pick: int, everybody: bool, is_stale: bool) -> None:
        group = self.shard.state.groups.get("g")
        member_id, instance = self._member(pick)
        generation = (group.generation if group else 0) - is_stale
        chosen = list(group.members) if group else []
        plan = {member: f"{generation}/{member}".encode() for member in (chosen if everybody else chosen[:1])}
        name = group.protocol_name if group and group.protocol_name else "range"
        message = self.shard.syncing(member_id, generation, plan, instance_id=instance, protocol_name=name)
        request_id = self.shard.post(message, 5)
        self.requests[request_id] = ("sync", generation, member_id)

    @rule(pick=members)
    def a_member_beats(self, pick: int) -> None:
        group = self.shard.state.groups.get("g")
        member_id, instance = self._member(pick)
        self.shard.post(self.shard.beating(member_id, group.generation if group else 0, instance_id=instance), 4)

    @rule(pick=members)
    def a_member_leaves(self, pick: int) -> None:
        self.shard.post(self.shard.leaving(self._member(pick)), 5)

    @rule(pick=members, offset=st.integers(0, 9), simple=st.booleans())
    def somebody_commits(self, pick: int, offset: int, simple: bool) -> None:
        group = self.shard.state.groups.get("g")
        member_id, instance = ("", None) if simple else self._member(pick)
        generation = -1 if simple or group is None else group.generation
        message = self.shard.committing(
            offset, member_id=member_id, generation=generation, instance_id=instance, partition=offset % 3
        )
        self.shard.post(message, 9)

    @rule(pick=members, offset=st.integers(0, 9), simple=st.booleans(), producer_id=st.integers(0, 2))
    def a_transaction_commits(self, pick: int, offset: int, simple: bool, producer_id: int) -> None:
        group = self.shard.state.groups.get("g")
        member_id, instance = ("", None) if simple else self._member(pick)
        generation = -1 if simple or group is None else group.generation
        message = self.shard.committing(
            offset, member_id=member_id, generation=generation, instance_id=instance, partition=offset % 3
        )
        self.shard.post(self.shard.in_transaction(producer_id, message), 3)

    @rule(producer_id=st.integers(0, 2), is_commit=st.booleans())
    def a_transaction_ends(self, producer_id: int, is_commit: bool) -> None:
        self.shard.end(producer_id, is_commit=is_commit)
        self.unhindered_ms = self.shard.now_ms
        if not self.shard.is_append_failing:
            assert producer_id not in self.shard.state.pending.by_producer

    @rule()
    def somebody_deletes_the_group(self) -> None:
        self._look()
        group = self.shard.state.groups.get("g")
        may_go = group is not None and group.state is GroupState.EMPTY
        reply = self.shard.reply(self.shard.post(DeleteGroup("g"), 2))
        if not isinstance(reply, MoldauError):
            assert reply.error_code == (0 if may_go else 69 if group is None else 68)
        if may_go and not self.shard.is_append_failing:
            assert "g" not in self.shard.state.groups
            assert "g" not in self.shard.state.offsets
            assert "g" not in self.shard.state.pending.producers
        self._look()

    @rule(partition=st.integers(0, 3))
    def somebody_deletes_a_position(self, partition: int) -> None:
        topics = (OffsetDeleteRequestTopic("t", (OffsetDeleteRequestPartition(partition),)),)
        reply = self.shard.reply(self.shard.post(OffsetDeleteRequest("g", topics), 0))
        if isinstance(reply, MoldauError) or reply.error_code:
            return
        if reply.topics[0].partitions[0].error_code == 0:
            assert partition not in self.shard.state.offsets.get("g", {}).get("t", {})
            assert not self.shard.state.pending.has("g", "t", partition)

    @rule(delay_ms=st.sampled_from([1, 500, 3_000, 9_000, 25_000]))
    def time_passes(self, delay_ms: int) -> None:
        self.shard.wait(delay_ms)

    @rule(breaks=st.sampled_from([False, False, True]))
    def the_log_breaks_or_heals(self, breaks: bool) -> None:
        self.shard.is_append_failing = breaks
        self.unhindered_ms = self.shard.now_ms

    @rule(newcomers=st.integers(0, 2), instance=instances)
    def everybody_does_its_duty(self, newcomers: int, instance: str | None) -> None:
        """A well-behaved round: without it hardly any group ever becomes stable."""
        for _ in range(newcomers):
            self._join("", None, ("range",), 3)
        if instance:
            self._join("", instance, ("range",), 9)
        self._look()
        group = self.shard.state.groups.get("g")
        for member in list(group.members.values()) if group else ():
            names = tuple(protocol.name for protocol in member.protocols)
            self._join(member.member_id, member.instance_id, names, 9)
        self.shard.wait(3_000)
        self._look()
        for position in range(len(group.members) if group else 0):
            self._sync_in_turn(position)

    def _sync_in_turn(self, position: int) -> None:
        group = self.shard.state.groups["g"]
        members_now = list(group.members.values())
        if position < len(members_now):
            member = members_now[position]
            plan = {other: f"{group.generation}/{other}".encode() for other in group.members}
            message = self.shard.syncing(
                member.member_id,
                group.generation,
                plan,
                instance_id=member.instance_id,
                protocol_name=group.protocol_name or "range",
            )
            request_id = self.shard.post(message, 5)
            self.requests[request_id] = ("sync", group.generation, member.member_id)

    @rule()
    def the_broker_restarts(self) -> None:
        self._look()
        self.shard.is_append_failing = False
        self.shard.reload()
        self.requests.clear()
        # a generation that was never recorded may repeat, with other members
        group = self.shard.state.groups.get("g")
        last = group.generation if group else 0
        self.generations = {key: value for key, value in self.generations.items() if key <= last}
        self.assigned = {key: value for key, value in self.assigned.items() if key[0] <= last}

    def _notice_a_new_group(self) -> None:
        """A group that ended and was created again counts its generations from 1."""
        group = self.shard.state.groups.get("g")
        if group is not self.group and (group is None or group.generation <= 1):
            self.generations.clear()
            self.assigned.clear()
        self.group = group

    def _look(self) -> None:
        """Takes the replies since the last look."""
        for request_id in list(self.requests):
            reply = self.shard.reply(request_id)
            if reply is None:
                continue
            kind, generation, who = self.requests.pop(request_id)
            if isinstance(reply, MoldauError):
                continue
            if isinstance(reply, JoinGroupResponse) and kind == "join":
                self._joined(reply, who or None)
            elif isinstance(reply, SyncGroupResponse) and reply.error_code == 0:
                present = self.assigned.setdefault((generation, who), reply.assignment)
                assert present == reply.assignment, "a member was given two assignments in one generation"
                assert reply.assignment in (b"", f"{generation}/{who}".encode()) or who.startswith(("i1-", "i2-"))

    def _joined(self, reply: JoinGroupResponse, instance: str | None) -> None:
        if reply.error_code in (0, 79) and (reply.member_id, instance) not in self.known:
            self.known.append((reply.member_id, instance))
        if reply.error_code == 0:
            assert reply.protocol_name
            agreed = self.generations.setdefault(reply.generation_id, (reply.leader, reply.protocol_name))
            assert agreed[1] == reply.protocol_name, "two protocols in one generation"
            if instance is None and not agreed[0].startswith(("i1-", "i2-")):
                assert agreed[0] == reply.leader, "two leaders in one generation"
            assert not reply.members or reply.member_id == reply.leader

    @invariant()
    def replies_agree(self) -> None:
        self._notice_a_new_group()
        self._look()

    @invariant()
    def nothing_outlives_its_time(self) -> None:
        """Only a reader keeps a committed offset longer than its retention and two checks."""
        group = self.shard.state.groups.get("g")
        if group is None or group.state is not GroupState.EMPTY or self.shard.is_append_failing:
            return
        since_ms = group.state_timestamp_ms if group.protocol_type is not None else None
        if "g" in self.shard.state.pending.producers:
            return
        for partitions in self.shard.state.offsets.get("g", {}).values():
            for offset in partitions.values():
                begin_ms = offset.commit_timestamp if since_ms is None else since_ms
                age_ms = self.shard.now_ms - max(begin_ms, self.unhindered_ms)
                assert age_ms <= RETENTION_MS + 2 * CHECK_MS

    @invariant()
    def folding_the_log_gives_the_durable_state(self) -> None:
        folded = GroupsState()
        for item in self.shard.loaded():
            if isinstance(item, LoadedTransactionEnd):
                whole(fold_transaction_end(folded, item.producer_id, item.committed))
            else:
                fold_record(folded, item.offset, item.producer_id, item.record)
        state = self.shard.state
        assert folded.offsets == state.offsets
        assert folded.pending == state.pending
        for groups in (state.offsets, state.pending.producers):
            assert set(groups) <= set(state.groups), "positions without a group: nothing would ever end them"
        for group_id, group in state.groups.items():
            if group.state is GroupState.STABLE:
                assert {one.member_id: one.assignment for one in folded.groups[group_id].members.values()} == {
                    one.member_id: one.assignment for one in group.members.values()
                }

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        for since_ms in self.shard.parked.values():
            assert self.shard.now_ms - since_ms <= LONGEST_PARKED_MS

    def teardown(self) -> None:
        """At the end all waiting requests are answered, and the group expires."""
        self.shard.is_append_failing = False
        for producer_id in range(3):
            self.shard.end(producer_id, is_commit=False)
        self.shard.wait(LONGEST_PARKED_MS)
        assert self.shard.parked == {}
        self.shard.wait(LONGEST_PARKED_MS)
        group = self.shard.state.groups.get("g")
        assert group is None or (group.state is GroupState.EMPTY and not group.pending_members)

    @invariant()
    def the_group_is_whole(self) -> None:
        group = self.shard.state.groups.get("g")
        if group is None:
            return
        waiting = [member for member in group.members.values() if member.awaiting_join is not None]
        assert group.awaiting_join_count == len(waiting)
        assert (group.leader_id in group.members) == bool(group.members)
        statics = {member.instance_id: member.member_id for member in group.members.values() if member.instance_id}
        assert group.static_members == statics
        assert set(group.pending_sync) <= set(group.members)
        counts: dict[str, int] = {}
        for member in group.members.values():
            for name in member.protocol_names():
                counts[name] = counts.get(name, 0) + 1
        assert group.protocol_counts == counts
        held = sum(member.held_bytes() for member in group.members.values())
        held += sum(map(pending_member_bytes, group.pending_members))
        assert group.held_bytes == held + group.former_bytes
        assert group.former_bytes >= 0
        assert self.shard.memory.used_bytes == sum(one.held_bytes for one in self.shard.state.groups.values())
        if group.state in (GroupState.STABLE, GroupState.EMPTY):
            assert not waiting
            assert bool(group.members) == (group.state is GroupState.STABLE)
        if group.state is GroupState.STABLE:
            recorded = self.shard.recorded("g")
            assert recorded.generation == group.generation
            assert {member.member_id: member.assignment for member in recorded.members} == {
                member.member_id: member.assignment for member in group.members.values()
            }


def test_a_group_survives_any_order_of_events(shard_class: Any) -> None:
    run_state_machine_as_test(
        lambda: GroupLife(shard_class), settings=settings(max_examples=120, stateful_step_count=40)
    )
