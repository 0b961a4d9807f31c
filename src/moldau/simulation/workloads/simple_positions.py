"""A group without members: commits, deletions of the group and of its offsets, and reads of both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from moldau.errors import ERROR_CODES
from moldau.simulation.checkers.group_ledger import NOTHING, Attempt, CommittedOffset, GroupLedger
from moldau.simulation.client import Client
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.group_members import fetch_offsets, find_coordinator
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.wire.protocol.schema import Request

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

GROUP_ID_NOT_FOUND = ERROR_CODES["GROUP_ID_NOT_FOUND"]
FIRST_TOPIC_ID_VERSION = 10
Answer = TypeVar("Answer", bound=msgspec.Struct)


class Change:
    """Attempts to commit new offsets for partitions, all in one request."""

    def __init__(self, group: GroupLedger, topic: str, positions: dict[int, int]) -> None:
        self._attempts: dict[int, tuple[CommittedOffset, Attempt, list[Attempt]]] = {}
        for partition, offset in positions.items():
            committed = group.offset(topic, partition)
            self._attempts[partition] = (committed, *committed.begin(offset))

    def done(self, partition: int) -> None:
        committed, attempt, outdated = self._attempts[partition]
        committed.acknowledged(attempt, outdated)

    def refused(self, partition: int) -> None:
        committed, attempt, _ = self._attempts[partition]
        committed.refused(attempt)

    def all_done(self) -> None:
        for partition in self._attempts:
            self.done(partition)

    def all_refused(self) -> None:
        for partition in self._attempts:
            self.refused(partition)

    def is_over(self) -> None:
        """The response to the commit came, or never will."""
        for _, attempt, _ in self._attempts.values():
            attempt.is_over = True


class SimplePositions(ClientLoop):
    """Commits offsets of one topic in a group that no member joins."""

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic, group: GroupLedger) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.group = group
        self.next_offset = 0

    async def step(self) -> None:
        client = await self.client()
        if await find_coordinator(self, client, self.group.group):
            await self.random.choice((self.commit, self.commit, self.read, self.read, self.delete, self.forget))(client)
        await self.pause()

    async def read(self, client: Client) -> None:
        await fetch_offsets(self, client, self.group, self.topic, tuple(range(self.topic.partitions)))

    async def commit(self, client: Client) -> None:
        self.next_offset += 1
        positions = dict.fromkeys(range(self.topic.partitions), self.next_offset)
        change = Change(self.group, self.topic.name, positions)

        def note(answer: OffsetCommitResponse) -> None:
            for partition in answer.topics[0].partitions:
                self.taken(partition.error_code, "OffsetCommit", change, partition.partition_index)

        await self.change(client, commit_request(client, self.group.group, self.topic, positions), change, note)

    async def delete(self, client: Client) -> None:
        """Deletes the whole group."""
        change = self.deletion()

        def note(answer: DeleteGroupsResponse) -> None:
            error_code = answer.results[0].error_code
            self.world.trace.note("group deleted", self.name, error_code)
            if error_code == GROUP_ID_NOT_FOUND:
                change.all_refused()
            elif error_code:
                self.must_be_retriable(error_code, "DeleteGroups")
            else:
                change.all_done()

        request = DeleteGroupsRequest((self.group.group,))
        await self.change(client, request, change, note)

    async def forget(self, client: Client) -> None:
        """Deletes the committed offsets of the group, which continues to exist."""
        change = self.deletion()
        partitions = tuple(OffsetDeleteRequestPartition(p) for p in range(self.topic.partitions))

        def note(answer: OffsetDeleteResponse) -> None:
            if answer.error_code == GROUP_ID_NOT_FOUND:
                change.all_refused()
            elif answer.error_code:
                self.must_be_retriable(answer.error_code, "OffsetDelete")
            else:
                for partition in answer.topics[0].partitions:
                    self.taken(partition.error_code, "OffsetDelete", change, partition.partition_index)

        request = OffsetDeleteRequest(self.group.group, (OffsetDeleteRequestTopic(self.topic.name, partitions),))
        await self.change(client, request, change, note)

    def deletion(self) -> Change:
        return Change(self.group, self.topic.name, dict.fromkeys(range(self.topic.partitions), NOTHING))

    def taken(self, error_code: int, what: str, change: Change, partition: int) -> None:
        self.world.trace.note(what, self.name, partition, error_code)
        if error_code == 0:
            change.done(partition)
        else:
            self.must_be_retriable(error_code, what)

    async def change(
        self, client: Client, request: Request[Answer], change: Change, note: Callable[[Answer], None]
    ) -> None:
        try:
            await client.request(request, note=note)
        finally:
            change.is_over()


def commit_request(client: Client, group: str, topic: SimulatedTopic, positions: dict[int, int]) -> OffsetCommitRequest:
    """A commit for a group without members. `positions`: the offset of each partition."""
    is_by_id = client.version_of(ApiKey.OFFSET_COMMIT) >= FIRST_TOPIC_ID_VERSION
    rows = tuple(OffsetCommitRequestPartition(partition, offset) for partition, offset in positions.items())
    wanted = OffsetCommitRequestTopic("" if is_by_id else topic.name, topic.topic_id, rows)
    return OffsetCommitRequest(group, topics=(wanted,))


class ExpiryAuditor(SimplePositions):
    """Reads the committed offsets of a group once. With `is_expired`, all of them must be gone."""

    def __init__(
        self, world: ClientWorld, name: str, topic: SimulatedTopic, group: GroupLedger, *, is_expired: bool
    ) -> None:
        super().__init__(world, name, topic, group)
        self.is_expired = is_expired
        self.is_finished = False

    def is_done(self) -> bool:
        return self.is_finished

    async def step(self) -> None:
        client = await self.client()
        if not await find_coordinator(self, client, self.group.group):
            await asyncio.sleep(0.1)
            return
        if self.is_expired:
            change = self.deletion()
            change.all_done()
        await self.read(client)
        self.is_finished = True
