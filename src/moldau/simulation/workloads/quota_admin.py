"""Quotas: an administrator who sets and removes them, and a producer that exceeds them (KIP-13, 546)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.simulation.checkers.group_ledger import NOTHING, CommittedOffset
from moldau.simulation.checkers.ledger import Value
from moldau.simulation.client import LIMITED, Client
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import FiniteLoop
from moldau.simulation.workloads.producers import PlainProducer
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaFilterComponent,
)
from moldau.wire.protocol.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from moldau.simulation.client_world import SimulatedTopic
    from moldau.simulation.world import World

CLIENT_ID = "client-id"
EXACT = 0
OTHERS = ("nobody-1", "nobody-2")
"""Client ids with quotas that no client uses."""
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
RATES = (300, 5_000, 50_000)
RULE = "only who passes a quota waits"
MAX_WINDOWS = 12
"""One more than the maximum of `quota.window.num`: the quota of this many seconds may be used at once."""


class QuotaValue(CommittedOffset):
    """The possible values of a quota; NOTHING: no quota."""

    def read(self, offset: int) -> None:
        try:
            super().read(offset)
        except ViolationError as violation:
            raise ViolationError("quotas are what was acknowledged", violation.detail) from violation

    @property
    def sure(self) -> int | None:
        """The quota in force; None while a change is in flight."""
        return None if self.attempts else self.known


class QuotaAdmin(FiniteLoop):
    """Sets, removes and describes quotas. At the end removes those that would delay others."""

    world: World

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.values = {
            (client_id, key): QuotaValue(f"{client_id} {key}", is_flushed=True)
            for client_id in (LIMITED, *OTHERS)
            for key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
        }
        self.changed_s = 0.0
        """The time of the last change of the limited producer's quota."""

    @property
    def limit(self) -> QuotaValue:
        return self.values[LIMITED, PRODUCER_BYTE_RATE]

    async def step(self) -> None:
        client = await self.client()
        client_id, key = self.random.choice(list(self.values))
        if self.world.is_draining:
            await self.alter(client, LIMITED, PRODUCER_BYTE_RATE, NOTHING)
            self.is_finished = self.limit.sure == NOTHING
        elif self.random.random() < 0.5:
            await self.alter(client, client_id, key, self.random.choice((NOTHING, *RATES)))
        else:
            await self.describe(client, client_id)
        await asyncio.sleep(self.random.choice((0.05, 0.5, 2.0)))

    async def alter(self, client: Client, client_id: str, key: str, wanted: int) -> None:
        value = self.values[client_id, key]
        operation = AlterQuotaOperation(key, float(max(wanted, 0)), remove=wanted == NOTHING)
        entry = AlterQuotaEntry((AlterQuotaEntity(CLIENT_ID, client_id),), (operation,))
        attempt, outdated = value.begin(wanted)
        if client_id == LIMITED:
            self.changed_s = self.world.loop.time()

        def note(answer: AlterClientQuotasResponse) -> None:
            error_code = answer.entries[0].error_code
            self.world.trace.note("quota", client_id, key, wanted, error_code)
            if error_code:
                self.must_be_retriable(error_code, f"AlterClientQuotas of {client_id}")
            else:
                value.acknowledged(attempt, outdated)
                self.changed_s = self.world.loop.time()

        try:
            await client.request(AlterClientQuotasRequest((entry,)), note=note)
        finally:
            attempt.is_over = True

    async def describe(self, client: Client, client_id: str) -> None:
        request = DescribeClientQuotasRequest((QuotaFilterComponent(CLIENT_ID, EXACT, client_id),), strict=True)

        def note(answer: DescribeClientQuotasResponse) -> None:
            if answer.error_code:
                self.must_be_retriable(answer.error_code, "DescribeClientQuotas")
                return
            found = {value.key: int(value.value) for entry in answer.entries or () for value in entry.values}
            for (owner, key), value in self.values.items():
                if owner == client_id:
                    value.read(found.get(key, NOTHING))

        await client.request(request, note=note)


class QuotaAuditor(QuotaAdmin):
    """Describes all quotas once."""

    def __init__(self, admin: QuotaAdmin, name: str) -> None:
        super().__init__(admin.world, name)
        self.values = admin.values

    async def step(self) -> None:
        client = await self.client()
        for client_id in (LIMITED, *OTHERS):
            await self.describe(client, client_id)
        self.is_finished = True


class LimitedProducer(PlainProducer):
    """Ignores its quota when sending. The broker must delay it if it has exceeded the quota, and only then."""

    world: World

    def __init__(self, world: World, topic: SimulatedTopic, admin: QuotaAdmin) -> None:
        super().__init__(world, LIMITED, topic)
        self.admin = admin
        self.used: list[tuple[float, int]] = []
        """The time of the response and the bytes of batches for each request, in this life of the broker and of the
        quota."""
        self.life = (-1, -1.0)

    def make_request(self, client: Client, batches: dict[int, bytes], acks: int) -> ProduceRequest:
        life = (self.world.broker.boots, self.admin.changed_s)
        if life != self.life:
            self.life = life
            self.used = []
        self.used.append((self.world.loop.time(), sum(map(len, batches.values()))))
        return super().make_request(client, batches, acks)

    def answered(self, sent: dict[int, list[Value]], answer: ProduceResponse) -> None:
        super().answered(sent, answer)
        now_s = self.world.loop.time()
        limit = self.admin.limit.sure
        is_settled = self.life == (self.world.broker.boots, self.admin.changed_s)
        if limit is None or not is_settled:
            return
        self.world.trace.note("throttled", self.name, limit, answer.throttle_time_ms)
        if limit == NOTHING and answer.throttle_time_ms and now_s - self.admin.changed_s > MAX_WINDOWS:
            raise ViolationError(RULE, f"{answer.throttle_time_ms} ms without a quota")
        recent = [size for at_s, size in self.used if now_s - at_s < 1.0]
        windows = int(self.world.settings["quota.window.num"]) + 1
        if limit > 0 and sum(recent) > limit * windows and not answer.throttle_time_ms:
            raise ViolationError(RULE, f"{sum(recent)} bytes in a second, allowed are {limit}, and no wait")
