"""Members of a classic consumer group. They join, share the partitions, read, commit, leave, and come back."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES
from moldau.simulation.checkers.group_ledger import Attempt, CommittedOffset, GroupLedger, KnownGeneration
from moldau.simulation.client import Client, UnansweredError
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.readers import EARLIEST, Consumer, Position, list_offset
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 8_000
JOIN_PATIENCE_S = 20.0
HEARTBEAT_S = 1.0
NEVER_COMMITTED = 1_000_000_000
"""An offset that only rejected commits contain."""

ILLEGAL_GENERATION = ERROR_CODES["ILLEGAL_GENERATION"]
UNKNOWN_MEMBER_ID = ERROR_CODES["UNKNOWN_MEMBER_ID"]
REBALANCE_IN_PROGRESS = ERROR_CODES["REBALANCE_IN_PROGRESS"]
GROUP_ID_NOT_FOUND = ERROR_CODES["GROUP_ID_NOT_FOUND"]
MEMBER_ID_REQUIRED = ERROR_CODES["MEMBER_ID_REQUIRED"]
FENCED_INSTANCE_ID = ERROR_CODES["FENCED_INSTANCE_ID"]
REJOIN = (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID)
STATIC_VERSIONS = {
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 3,
    ApiKey.LEAVE_GROUP: 3,
    ApiKey.OFFSET_COMMIT: 7,
}


def encode_assignment(partitions: tuple[int, ...]) -> bytes:
    """Data that the broker must return unchanged, without interpreting it."""
    return struct.pack(f">h{len(partitions)}i", len(partitions), *partitions)


def decode_assignment(data: bytes) -> tuple[int, ...]:
    if not data:
        return ()
    (count,) = struct.unpack_from(">h", data)
    return struct.unpack_from(f">{count}i", data, 2)


class GroupMember(Consumer):
    """One member. Keeps its generation until the broker rejects it, and commits the records that it has read."""

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic, group: GroupLedger) -> None:
        super().__init__(world, name, topic)
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.life = 0
        """The life of the group when this member sent JoinGroup."""
        self.instance_id = f"static-{name}" if self.random.random() < 0.2 else None
        self.positions = {}
        self.next_heartbeat = 0.0
        self.stale = world.random_of(f"client/{name}/older generations")

    async def step(self) -> None:
        client = await self.client()
        if self.generation < 0:
            await self.join(client)
            return
        now = self.world.loop.time()
        if now >= self.next_heartbeat:
            self.next_heartbeat = now + HEARTBEAT_S
            await self.heartbeat(client)
            return
        if self.positions and self.random.random() < 0.7:
            await self.fetch(client, max_wait_ms=self.random.choice((0, 50, 200)))
        elif self.positions and self.stale.random() < 0.1:
            await self.commit_as_before(client)
        elif self.positions:
            await self.commit(client)
        else:
            await asyncio.sleep(HEARTBEAT_S / 2)
        if self.random.random() < 0.01:
            await self.leave(client)
        elif self.instance_id is not None and self.random.random() < 0.01:
            self.forget()
            self.member_id = ""  # as after its own restart
        await self.pause()

    async def client(self) -> Client:
        client = await super().client()
        if self.instance_id is not None:
            for api_key, version in STATIC_VERSIONS.items():
                client.versions[api_key] = max(version, client.versions[api_key])
        return client

    # -- membership

    async def join(self, client: Client) -> None:
        if not await find_coordinator(self, client, self.group.group):
            return
        request = JoinGroupRequest(
            group_id=self.group.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol("range", b"\x00\x01"),),
        )
        known = self.group.asked_to_join()
        answer = await client.request(request, timeout_s=JOIN_PATIENCE_S)
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return
        if answer.error_code:
            await self.refused(answer.error_code, "JoinGroup")
            return
        self.member_id = answer.member_id
        plan = self.plan(answer) if answer.leader == answer.member_id and not answer.skip_assignment else {}
        if plan:
            self.group.planned(answer.generation_id, plan)
        await self.sync(client, answer, plan, known)

    def plan(self, answer: JoinGroupResponse) -> dict[str, tuple[int, ...]]:
        """Assigns partitions to the members in turn; some get none."""
        members = sorted(member.member_id for member in answer.members)
        partitions = range(self.topic.partitions)
        return {
            member: tuple(p for p in partitions if p % len(members) == index) for index, member in enumerate(members)
        }

    async def sync(
        self, client: Client, joined: JoinGroupResponse, plan: dict[str, tuple[int, ...]], known: KnownGeneration
    ) -> None:
        request = SyncGroupRequest(
            group_id=self.group.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(
                SyncGroupRequestAssignment(member, encode_assignment(partitions)) for member, partitions in plan.items()
            ),
        )

        def note(answer: SyncGroupResponse) -> None:
            if answer.error_code == 0:
                partitions = decode_assignment(answer.assignment)
                owner = self.instance_id or self.member_id
                is_planned = self.instance_id is None  # a static member comes back under another member id
                self.group.assigned(
                    joined.generation_id, self.topic.name, owner, partitions, known=known, is_planned=is_planned
                )
                self.world.trace.note("assigned", self.name, joined.generation_id, partitions)

        answer = await client.request(request, note=note)
        if answer.error_code:
            await self.refused(answer.error_code, "SyncGroup")
            return
        self.positions = {}
        partitions = decode_assignment(answer.assignment)
        committed = await fetch_offsets(self, client, self.group, self.topic, partitions)
        for partition in partitions:
            ledger = self.topic.ledger(self.world, partition)
            offset = committed.get(partition, -1)
            if offset < 0:
                offset = max(0, await list_offset(self, client, self.topic.name, partition, EARLIEST))
            self.positions[partition] = Position(ledger, offset)
            # the committed offset may be older than the last loss, so reading there again may legally fail
            self.positions[partition].legal_losses_seen = 0
        # a member without a known start position joins again
        self.generation, self.life = joined.generation_id, known.life
        self.next_heartbeat = self.world.loop.time() + HEARTBEAT_S

    async def heartbeat(self, client: Client) -> None:
        request = HeartbeatRequest(self.group.group, self.generation, self.member_id, self.instance_id)
        answer = await client.request(request)
        if answer.error_code:
            await self.refused(answer.error_code, "Heartbeat")

    async def leave(self, client: Client) -> None:
        if client.version_of(ApiKey.LEAVE_GROUP) >= 3:
            request = LeaveGroupRequest(self.group.group, members=(MemberIdentity(member_id=self.member_id),))
        else:
            request = LeaveGroupRequest(self.group.group, member_id=self.member_id)
        self.forget()
        self.member_id = ""
        answer = await client.request(request)
        if answer.error_code and answer.error_code != UNKNOWN_MEMBER_ID:
            self.must_be_retriable(answer.error_code, "LeaveGroup")
        await asyncio.sleep(self.random.uniform(0, 2))

    async def refused(self, error_code: int, what: str) -> None:
        """Joins again, with a new member id if the broker does not know the old one."""
        is_group_gone = error_code == GROUP_ID_NOT_FOUND and self.group.may_be_forgotten
        if error_code not in REJOIN and not is_group_gone:
            self.must_be_retriable(error_code, what)
        if error_code in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID):
            self.member_id = ""
        self.world.trace.note("rejoin", self.name, what, error_code)
        self.forget()
        await asyncio.sleep(self.random.uniform(0.01, 0.2))

    def forget(self) -> None:
        self.generation = -1
        self.positions = {}

    # -- offsets

    async def commit(self, client: Client) -> None:
        sent = {
            partition: position.offset
            for partition, position in self.positions.items()
            if position.ledger.legal_losses == position.legal_losses_seen or position.offset <= position.ledger.end
        }
        if not sent:
            return
        is_by_id = client.version_of(ApiKey.OFFSET_COMMIT) >= 10
        partitions = tuple(OffsetCommitRequestPartition(p, offset) for p, offset in sent.items())
        topic = OffsetCommitRequestTopic(
            name="" if is_by_id else self.topic.name,
            topic_id=self.topic.topic_id,
            partitions=partitions,
        )
        request = OffsetCommitRequest(
            self.group.group, self.generation, self.member_id, self.instance_id, topics=(topic,)
        )
        attempts: dict[int, tuple[CommittedOffset, Attempt, list[Attempt]]] = {}
        for partition, offset in sent.items():
            committed = self.group.offset(self.topic.name, partition)
            attempts[partition] = (committed, *committed.begin(offset))
        errors: list[int] = []

        def note(answer: OffsetCommitResponse) -> None:
            for topic_answer in answer.topics:
                for partition in topic_answer.partitions:
                    committed, attempt, outdated = attempts[partition.partition_index]
                    if partition.error_code == 0:
                        committed.acknowledged(attempt, outdated)
                    else:
                        errors.append(partition.error_code)
                        if partition.error_code in REJOIN:
                            committed.refused(attempt)
            self.world.trace.note("committed", self.name, sorted(sent.items()), errors)

        try:
            await client.request(request, note=note)
        finally:
            for _, attempt, _ in attempts.values():
                attempt.is_over = True
        if errors:
            await self.refused(errors[0], "OffsetCommit")

    async def commit_as_before(self, client: Client) -> None:
        """A commit of an older generation, or of an unknown member, must change nothing."""
        is_by_id = client.version_of(ApiKey.OFFSET_COMMIT) >= 10
        topic = OffsetCommitRequestTopic(
            name="" if is_by_id else self.topic.name,
            topic_id=self.topic.topic_id,
            partitions=tuple(OffsetCommitRequestPartition(p, NEVER_COMMITTED) for p in self.positions),
        )
        # after a loss of power the group may have an older generation again
        is_older = self.stale.random() < 0.5 and self.generation > 0 and self.life == self.group.lives
        request = OffsetCommitRequest(
            self.group.group,
            self.generation - 1 if is_older else self.generation,
            self.member_id if is_older else f"{self.member_id}-never",
            topics=(topic,),
        )

        def note(answer: OffsetCommitResponse) -> None:
            codes = [partition.error_code for topic in answer.topics for partition in topic.partitions]
            self.world.trace.note("older generation", self.name, self.generation, codes)
            if 0 in codes:
                raise ViolationError(
                    "only members of this generation commit",
                    f"{self.group.group}: generation {request.generation_id_or_member_epoch} of {request.member_id}",
                )

        await client.request(request, note=note)


async def find_coordinator(loop: ClientLoop, client: Client, key: str, key_type: int = 0) -> bool:
    """Whether this node is now the coordinator of the group or (`key_type` 1, from version 1 on) of the transactional
    id."""
    if client.version_of(ApiKey.FIND_COORDINATOR) >= 4:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
    else:
        request = FindCoordinatorRequest(key, key_type)
    answer = await client.request(request)
    error_code = answer.coordinators[0].error_code if answer.coordinators else answer.error_code
    if error_code:
        loop.must_be_retriable(error_code, "FindCoordinator")
        await asyncio.sleep(0.1)
        return False
    return True


async def fetch_offsets(
    loop: ClientLoop, client: Client, group: GroupLedger, topic: SimulatedTopic, partitions: tuple[int, ...]
) -> dict[int, int]:
    """Fetches the committed offsets of these partitions and checks them against the ledger. Raises UnansweredError for
    a transient error."""
    committed: dict[int, int] = {}
    errors: list[int] = []

    def note(answer: OffsetFetchResponse) -> None:
        errors.extend([answer.error_code, *[one.error_code for one in answer.groups]])
        for partition in fetched_offsets(answer):
            errors.append(partition.error_code)
            if partition.error_code == 0 and not any(errors):
                group.offset(topic.name, partition.partition_index).read(partition.committed_offset)
                committed[partition.partition_index] = partition.committed_offset

    await client.request(offset_fetch_request(client, group.group, topic, partitions), note=note)
    for error_code in errors:
        if error_code:
            loop.must_be_retriable(error_code, "OffsetFetch")
            await asyncio.sleep(0.1)
            raise UnansweredError(f"OffsetFetch refused with {error_code}")
    return committed


def offset_fetch_request(
    client: Client,
    group: str,
    topic: SimulatedTopic,
    partitions: tuple[int, ...],
    *,
    require_stable: bool = False,
) -> OffsetFetchRequest:
    """The request in the form of the connection's version. `require_stable`: from version 7 on."""
    version = client.version_of(ApiKey.OFFSET_FETCH)
    if version < 8:
        wanted_before = (OffsetFetchRequestTopic(topic.name, partitions),)
        return OffsetFetchRequest(group_id=group, topics=wanted_before, require_stable=require_stable)
    is_by_id = version >= 10
    wanted = OffsetFetchRequestTopics(
        name="" if is_by_id else topic.name, topic_id=topic.topic_id, partition_indexes=partitions
    )
    group_row = OffsetFetchRequestGroup(group, topics=(wanted,))
    return OffsetFetchRequest(groups=(group_row,), require_stable=require_stable)


def fetched_offsets(
    answer: OffsetFetchResponse,
) -> list[OffsetFetchResponsePartition | OffsetFetchResponsePartitions]:
    """The partitions in a response of any version."""
    found: list[OffsetFetchResponsePartition | OffsetFetchResponsePartitions] = []
    for group in answer.groups:
        found += [partition for topic in group.topics for partition in topic.partitions]
    return found + [partition for topic in answer.topics for partition in topic.partitions]
