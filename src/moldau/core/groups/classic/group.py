"""One classic group: its members, its generation and its state.

    Empty -> PreparingRebalance          the first member joins
    PreparingRebalance -> CompletingRebalance   all members joined, or the time to join is over: a new generation
    PreparingRebalance -> Empty          no member is left
    CompletingRebalance -> Stable        the leader sent the assignments, and they are in the log
    CompletingRebalance, Stable -> PreparingRebalance   a member joins, leaves or falls silent

All of it is volatile. After a reload a group is rebuilt from its metadata record: Stable with the recorded members, or
Empty. (Kafka's ClassicGroup; KIP-62, 134, 345, 394, 559, 814.)
"""

from __future__ import annotations

import enum

import msgspec

from moldau.core.groups.classic.memory import MEMBER_BYTES, MemberMemory, protocols_bytes
from moldau.errors import invariant, kafka_error
from moldau.wire.protocol.consumer_protocol import subscribed_topics
from moldau.wire.protocol.messages.group_records import GroupMetadataValue
from moldau.wire.protocol.messages.groups_classic import JoinGroupRequestProtocol, JoinGroupResponseMember

CONSUMERS = "consumer"
"""The protocol type of Kafka's consumers, the only one whose subscriptions Moldau can read."""


class GroupState(enum.Enum):
    """The states. Clients see the values."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class Parked(msgspec.Struct, frozen=True):
    """A request that a later decision answers."""

    request_id: int
    api_version: int


class Member(msgspec.Struct):
    """One member. `protocols` in the member's order of preference. `client_host` as Kafka writes it, `/127.0.0.1`."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinGroupRequestProtocol, ...]
    assignment: bytes = b""
    awaiting_join: Parked | None = None
    awaiting_sync: Parked | None = None
    is_new: bool = False
    """The member was in no generation yet. It has no member id for heartbeats, so its parked join can time out."""
    session_deadline_ms: int = 0

    def held_bytes(self) -> int:
        """The memory of the member, see memory.py."""
        ids = len(self.member_id) + len(self.instance_id or "") + len(self.client_id) + len(self.client_host)
        return MEMBER_BYTES + ids + protocols_bytes(self.protocols) + len(self.assignment)

    def shares(self, metadata: bytes) -> bool:
        """Whether this object is metadata of the member."""
        return any(protocol.metadata is metadata for protocol in self.protocols)

    def protocol_names(self) -> tuple[str, ...]:
        """The names of the member's protocols, each name once."""
        return tuple(dict.fromkeys(protocol.name for protocol in self.protocols))

    def metadata(self, protocol_name: str) -> bytes:
        """The member's metadata for that protocol, which it must have listed."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        invariant(False, f"a member has no metadata for {protocol_name!r}")
        return b""


class Group(msgspec.Struct):
    """See the module. `members` are in the order of joining, which leaders see."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    state_timestamp_ms: int = -1
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = msgspec.field(default_factory=dict)
    static_members: dict[str, str] = msgspec.field(default_factory=dict)
    """Instance id to member id."""
    pending_members: dict[str, int] = msgspec.field(default_factory=dict)
    """Member ids that were sent with MEMBER_ID_REQUIRED and not used yet (KIP-394), and when each expires."""
    pending_sync: dict[str, None] = msgspec.field(default_factory=dict)
    """Members of this generation that have not sent SyncGroup yet."""
    protocol_counts: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of members that list a protocol."""
    awaiting_join_count: int = 0
    was_member_added: bool = False
    """A member joined during the initial delay, so the delay may be prolonged."""
    subscriptions: dict[str, bytes] | None = None
    """The consumers' subscriptions in the present generation, under its protocol, by member id; None before the
    first generation."""
    replacement: Member | None = None
    """The successor of a static member. It replaces the member when its record is in the log."""
    memory: MemberMemory = msgspec.field(default_factory=MemberMemory)
    held_bytes: int = 0
    """This group's share of `memory`."""
    former_bytes: int = 0
    """Part of `held_bytes`: subscriptions of the present generation that no member has any more."""

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Changes the state. `now_ms`: wall time, stored in the group's next record."""
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    # members

    def add(self, member: Member) -> None:
        """Adds a new member. The first becomes the leader. Raises InvariantError for a known member."""
        invariant(member.member_id not in self.members, "a member was added twice")
        if member.instance_id is not None:
            invariant(member.instance_id not in self.static_members, "a static member was added twice")
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self._hold(member.held_bytes())
        self.awaiting_join_count += member.awaiting_join is not None
        self._remove_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Removes a member, also a pending one. The oldest member follows a leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            self._let_go(member)
            self.awaiting_join_count -= member.awaiting_join is not None
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self._remove_pending(member_id)
        self.pending_sync.pop(member_id, None)

    def add_pending(self, member_id: str, until_ms: int) -> None:
        """Remembers a given member id until its owner joins or `until_ms` (steady time)."""
        self.pending_members[member_id] = until_ms
        self._hold(pending_member_bytes(member_id))

    def _remove_pending(self, member_id: str) -> None:
        if self.pending_members.pop(member_id, None) is not None:
            self._hold(-pending_member_bytes(member_id))

    def replace_static(self, old_member_id: str, new: Member) -> None:
        """`new` replaces the member with the same instance id, also as the leader. The sync phase waits for neither;
        the session of the new member begins now."""
        old = self.members.pop(old_member_id)
        self.pending_sync.pop(old_member_id, None)
        invariant(old.instance_id == new.instance_id, "a static member was replaced by another instance")
        self._count_protocols(old, -1)
        self._let_go(old, successor=new)
        if self.subscriptions is not None and old_member_id in self.subscriptions:
            self.subscriptions[new.member_id] = self.subscriptions.pop(old_member_id)
        self.awaiting_join_count -= old.awaiting_join is not None
        self.members[new.member_id] = new
        self._count_protocols(new, 1)
        self._hold(new.held_bytes())
        self.awaiting_join_count += new.awaiting_join is not None
        if self.leader_id == old_member_id:
            self.leader_id = new.member_id
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new.member_id

    def update(
        self,
        member: Member,
        protocols: tuple[JoinGroupRequestProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Takes new metadata from a member that joins again, and counts its protocols and bytes again."""
        if protocols != member.protocols:
            self._count_protocols(member, -1)
            self._let_go(member)
            member.protocols = protocols
            self._count_protocols(member, 1)
            self._hold(member.held_bytes())
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def assign(self, member: Member, assignment: bytes) -> None:
        """Keeps the member's assignment from the leader; its bytes count for the group's memory."""
        self._hold(len(assignment) - len(member.assignment))
        member.assignment = assignment

    def dissolve(self) -> None:
        """Removes the group and its members."""
        self._hold(-self.held_bytes)

    def _let_go(self, member: Member, successor: Member | None = None) -> None:
        """Call it before the member is removed or its protocols change."""
        self._hold(-member.held_bytes())
        subscribed = None if self.subscriptions is None else self.subscriptions.get(member.member_id)
        if subscribed is None or (successor is not None and successor.shares(subscribed)):
            return
        if member.shares(subscribed):
            # until the next generation begins
            self.former_bytes += len(subscribed)
            self._hold(len(subscribed))

    def _hold(self, change_bytes: int) -> None:
        self.held_bytes += change_bytes
        self.memory.used_bytes += change_bytes

    def park_join(self, member: Member, parked: Parked) -> Parked | None:
        """Returns the member's earlier parked join, if any."""
        earlier = member.awaiting_join
        member.awaiting_join = parked
        self.awaiting_join_count += earlier is None
        return earlier

    def unpark_join(self, member: Member) -> Parked | None:
        """The parked JoinGroup of this member, for the caller to answer; None if no join waits."""
        parked = member.awaiting_join
        member.awaiting_join = None
        self.awaiting_join_count -= parked is not None
        return parked

    def _count_protocols(self, member: Member, change: int) -> None:
        for name in member.protocol_names():
            count = self.protocol_counts.get(name, 0) + change
            if count:
                self.protocol_counts[name] = count
            else:
                del self.protocol_counts[name]

    # questions

    def is_empty(self) -> bool:
        """Whether the group is in the state Empty: no members, perhaps offsets."""
        return self.state is GroupState.EMPTY

    def is_of_consumers(self) -> bool:
        """Whether the members use Kafka's consumer protocol, whose metadata and assignments are readable."""
        return self.protocol_type == CONSUMERS

    def subscribed_topics(self) -> dict[str, None] | None:
        """The topics of the subscriptions in this generation. None: unknown, perhaps all."""
        if not self.is_of_consumers():
            return {}
        if self.subscriptions is None:
            return None
        topics: dict[str, None] = {}
        for metadata in self.subscriptions.values():
            names = subscribed_topics(metadata)
            if names is None:
                return None
            topics |= dict.fromkeys(names)
        return topics

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises 25 for an unknown member, 82 if another one has its instance id now."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                raise kafka_error("UNKNOWN_MEMBER_ID")
            if current != member_id:
                raise kafka_error("FENCED_INSTANCE_ID")
        if member_id not in self.members:
            raise kafka_error("UNKNOWN_MEMBER_ID")

    def supports(self, protocol_type: str, protocols: tuple[JoinGroupRequestProtocol, ...]) -> bool:
        """Whether a member with these protocols may join."""
        if self.state is GroupState.EMPTY:
            return protocol_type != "" and len(protocols) > 0
        return self.protocol_type == protocol_type and any(
            self.protocol_counts.get(protocol.name, 0) == len(self.members) for protocol in protocols
        )

    def has_all_members_joined(self) -> bool:
        """Whether every member's JoinGroup waits, and no given member id is unused."""
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin, because none is being prepared."""
        return self.state is not GroupState.PREPARING_REBALANCE

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Makes a joined member the leader. False if no member joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def begin_generation(self, now_ms: int) -> None:
        """Begins the next generation with the present members."""
        self.generation += 1
        self.pending_sync.clear()
        self._hold(-self.former_bytes)
        self.former_bytes = 0
        if self.members:
            name = self.protocol_name = select_protocol(tuple(self.members.values()))
            self.subscriptions = self._present_subscriptions(name)
            self.transition_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.subscriptions = {}
            self.transition_to(GroupState.EMPTY, now_ms)

    def _present_subscriptions(self, protocol_name: str) -> dict[str, bytes]:
        if not self.is_of_consumers():
            return {}
        return {member_id: member.metadata(protocol_name) for member_id, member in self.members.items()}


def pending_member_bytes(member_id: str) -> int:
    """The memory of an unused member id, in bytes."""
    return MEMBER_BYTES + len(member_id)


def select_protocol(members: tuple[Member, ...]) -> str:
    """The protocol with the most votes among those that every member lists. With equal votes, the first vote counts.

    Each member votes for the first one in its list. (Kafka breaks ties by the order of a Java hash map.)
    """
    counts: dict[str, int] = {}
    for member in members:
        for name in member.protocol_names():
            counts[name] = counts.get(name, 0) + 1
    votes: dict[str, int] = {}
    for member in members:
        vote = next((name for name in member.protocol_names() if counts[name] == len(members)), None)
        invariant(vote is not None, "members without a protocol in common are in one group")
        votes[vote or ""] = votes.get(vote or "", 0) + 1
    return max(votes, key=lambda name: votes[name])


def members_for_leader(protocol_name: str, members: tuple[Member, ...]) -> tuple[JoinGroupResponseMember, ...]:
    """Every member's metadata for the chosen protocol; the leader assigns by it."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata(protocol_name)
        )
        for member in members
    )


def group_from_record(group_id: str, value: GroupMetadataValue, memory: MemberMemory) -> Group:
    """The group of a metadata record, as after a reload, whatever its size."""
    group = Group(
        group_id=group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        state_timestamp_ms=value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader_id=value.leader,
        memory=memory,
    )
    for recorded in value.members:
        timeout_ms = recorded.session_timeout if recorded.rebalance_timeout == -1 else recorded.rebalance_timeout
        group.add(
            Member(
                member_id=recorded.member_id,
                instance_id=recorded.group_instance_id,
                client_id=recorded.client_id,
                client_host=recorded.client_host,
                rebalance_timeout_ms=timeout_ms,
                session_timeout_ms=recorded.session_timeout,
                protocols=(JoinGroupRequestProtocol(name=value.protocol or "", metadata=recorded.subscription),),
                assignment=recorded.assignment,
            )
        )
    group.subscriptions = {recorded.member_id: recorded.subscription for recorded in value.members}
    return group
