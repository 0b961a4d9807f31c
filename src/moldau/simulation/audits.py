"""Clients that check a group, or the administrator's topics, once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.simulation.checkers.group_ledger import GroupLedger
from moldau.simulation.workloads.client_loop import ClientLoop, FiniteLoop
from moldau.simulation.workloads.group_members import GROUP_ID_NOT_FOUND, fetch_offsets, find_coordinator
from moldau.simulation.workloads.topic_admin import TopicAdmin
from moldau.wire.protocol.messages.groups_classic import DescribeGroupsRequest

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic


class OffsetAuditor(FiniteLoop):
    """Reads the committed offsets of a group once."""

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic, group: GroupLedger) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.group = group

    async def step(self) -> None:
        client = await self.client()
        if await find_coordinator(self, client, self.group.group):
            await fetch_offsets(self, client, self.group, self.topic, tuple(range(self.topic.partitions)))
            self.is_finished = True


class GroupDescriber(ClientLoop):
    """Describes a group once: its state, and its members with their assignments."""

    def __init__(self, world: ClientWorld, name: str, group: str) -> None:
        super().__init__(world, name)
        self.group = group
        self.described: tuple[str, str, tuple[tuple[str, bytes], ...]] | None = None

    @property
    def is_stable(self) -> bool:
        return self.described is not None and self.described[0] == "Stable"

    def is_done(self) -> bool:
        return self.described is not None

    async def step(self) -> None:
        client = await self.client()
        answer = await client.request(DescribeGroupsRequest((self.group,)))
        group = answer.groups[0]
        if group.error_code not in (0, GROUP_ID_NOT_FOUND):
            self.must_be_retriable(group.error_code, "DescribeGroups")
            await asyncio.sleep(0.1)
            return
        members = tuple(sorted((member.member_id, member.member_assignment) for member in group.members))
        self.described = (group.group_state, group.protocol_data, members)
        self.world.trace.note("described", self.described)


class TopicAudit(FiniteLoop):
    """Checks once more whether the admin's topics are in the expected state."""

    def __init__(self, admin: TopicAdmin, name: str) -> None:
        super().__init__(admin.world, name)
        self.admin = admin

    async def step(self) -> None:
        client = await self.client()
        await self.admin.verify(client)
        for topic in self.admin.topics.values():
            if topic.may_exist and not topic.may_be_absent and topic.configs is not None:
                await self.admin.describe(client, topic)
        self.is_finished = True
