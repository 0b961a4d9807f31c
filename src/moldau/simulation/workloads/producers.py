"""Producers: an idempotent one that gives up a batch only for a reason, and one that sends each record once."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, cast

import msgspec

from moldau.errors import ERROR_CODES
from moldau.simulation.checkers.ledger import KEYS, TOMBSTONE_EVERY, VALUE_HEADER, PartitionLedger, SentTimes, Value
from moldau.simulation.client import BrokerClient, Client
from moldau.simulation.kinds import has_kind
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.records.builder import build_batch

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

MAX_IN_FLIGHT = 5
MAX_TIMESTAMP_JITTER_MS = 300
AHEAD_SHARE = 0.003
AHEAD_MS = 60_000
FIRST_TOPIC_ID_VERSION = 13
FIRST_ZSTD_VERSION = 7
OLD_CODECS = ("gzip", "snappy", "lz4")
NO_COMPRESSION_WEIGHT = 8
OutgoingRecord = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
SEQUENCE_ERRORS = (45, 46, 47, 59)
MAY_BE_APPENDED = tuple(
    ERROR_CODES[name]
    for name in (
        "KAFKA_STORAGE_ERROR",
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "REQUEST_TIMED_OUT",
    )
)


class Batch(msgspec.Struct):
    """One batch in flight. It is repeated with the same sequence until it is acknowledged."""

    base_sequence: int
    values: list[Value]
    data: bytes
    times_sent: int = 0
    is_in_doubt: bool = False
    """Rejected with an error that may have occurred after the append; if repeated, it is accepted as a repeat."""


class Lane:
    """One partition from the view of an idempotent producer: its unacknowledged batches, oldest first."""

    def __init__(self, ledger: PartitionLedger) -> None:
        self.ledger = ledger
        self.next_number = 0
        self.next_sequence = 0
        self.unacknowledged: deque[Batch] = deque()
        self.legal_losses_seen = 0
        self.is_refused = False


class Producer(ClientLoop):
    """The common part of both producers: batches of unique values, and the requests for them."""

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.timestamps = world.random_of(f"client/{name}/timestamps")
        rules = topic.ledger(world, 0).rules
        # in other topics a record from the future would delay retention and cleaning
        self.is_ahead_at_times = has_kind(world.seed, "times") and not rules.may_expire and not rules.is_compacted

    def make_batch(
        self,
        partition: int,
        values: list[Value],
        *,
        codecs: tuple[str, ...] = OLD_CODECS,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
    ) -> bytes:
        now_ms = self.world.clock.now_ms()
        sent = self.topic.ledger(self.world, partition).sent
        padding, codec = self.draw_padding(len(values)), self.draw_codec(codecs)
        return build_batch(
            [self.to_record(value, padding, self.timestamp_of(sent, value, now_ms)) for value in values],
            compression=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )

    def draw_padding(self, count: int) -> int:
        """The number of additional bytes of each of `count` values."""
        padding = self.random.choice((0, 0, 10, 100, 3_000 if count <= 3 else 300))
        if count == 1 and self.random.random() < 0.02:
            padding = 35_000  # longer than the connection's carry-over: it gets its own frame
        return padding

    def draw_codec(self, codecs: tuple[str, ...]) -> str:
        """A codec that the request may use, or none."""
        return self.random.choice(("none",) * NO_COMPRESSION_WEIGHT + codecs)

    def timestamp_of(self, sent: SentTimes, value: Value, now_ms: int) -> int:
        """A slightly shifted time, so that the timestamps of a batch are not ordered. In the topic of time searches
        sometimes far ahead, so that the latest is not in the last segment."""
        timestamp_ms = now_ms - self.timestamps.randrange(MAX_TIMESTAMP_JITTER_MS)
        if self.is_ahead_at_times and self.timestamps.random() < AHEAD_SHARE:
            timestamp_ms += AHEAD_MS
        sent.sent(value, timestamp_ms, now_ms)
        return timestamp_ms

    def to_record(self, value: Value, padding: int, timestamp_ms: int) -> OutgoingRecord:
        """The record of a value. In a compacted topic it has a key, and sometimes a null value."""
        if not self.topic.is_compacted:
            return None, value.encode(padding), timestamp_ms, ()
        key = b"key %d" % value.key
        if value.is_tombstone:
            return key, None, timestamp_ms, ((VALUE_HEADER, value.encode()),)
        return key, value.encode(padding), timestamp_ms, ()

    def make_request(self, client: Client, batches: dict[int, bytes], acks: int) -> ProduceRequest:
        data = tuple(PartitionProduceData(partition, batch) for partition, batch in batches.items())
        if client.version_of(ApiKey.PRODUCE) >= FIRST_TOPIC_ID_VERSION:
            topic = TopicProduceData(topic_id=self.topic.topic_id, partition_data=data)
        else:
            topic = TopicProduceData(name=self.topic.name, partition_data=data)
        return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=(topic,))


class IdempotentProducer(Producer):
    """Has up to five batches of each partition in flight, and repeats them in order until they are acknowledged.

    The broker may reject a sequence only if a crash of the machine legally lost records. Then the producer starts again
    with another producer id, and the outcome of the batches in flight stays unknown.
    """

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic) -> None:
        super().__init__(world, name, topic)
        self.producer_id = -1
        self.producer_epoch = -1
        self.lanes = {partition: Lane(topic.ledger(world, partition)) for partition in range(topic.partitions)}
        self.acknowledged = 0

    def is_done(self) -> bool:
        return self.world.is_draining and all(not lane.unacknowledged for lane in self.lanes.values())

    async def step(self) -> None:
        client = await self.client()
        if self.producer_id < 0:
            await self.begin_life(client)
            return
        self.fill_lanes()
        answers: list[asyncio.Future[msgspec.Struct]] = []
        depth = max((len(lane.unacknowledged) for lane in self.lanes.values()), default=0)
        for index in range(depth):
            sent = {p: lane.unacknowledged[index] for p, lane in self.lanes.items() if index < len(lane.unacknowledged)}
            for batch in sent.values():
                batch.times_sent += 1
            request = self.make_request(client, {p: batch.data for p, batch in sent.items()}, -1)
            answers.append(client.send(request, partial(self.answered, sent)))
        was_refused = False
        for answer in answers:
            await client.answer_in_time(answer)
        for lane in self.lanes.values():
            was_refused |= lane.is_refused
            lane.is_refused = False
        if was_refused:
            await asyncio.sleep(self.random.uniform(0.02, 0.3))
        elif not self.world.is_draining:
            await self.pause()

    async def begin_life(self, client: Client) -> None:
        answer = await client.request(InitProducerIdRequest(transactional_id=None))
        if answer.error_code:
            self.must_be_retriable(answer.error_code, "InitProducerId")
            await asyncio.sleep(0.1)
            return
        self.world.producer_id_given(answer.producer_id, answer.producer_epoch)
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        for lane in self.lanes.values():
            lane.next_sequence = 0
            lane.unacknowledged.clear()
            lane.legal_losses_seen = lane.ledger.legal_losses

    def most_in_flight(self, lane: Lane) -> int:
        """The maximum number of batches in flight to one partition."""
        return MAX_IN_FLIGHT

    def fill_lanes(self) -> None:
        if self.world.is_draining:
            return
        for lane in self.lanes.values():
            wanted = min(self.random.choice((0, 1, 1, 1, 2, MAX_IN_FLIGHT)), self.most_in_flight(lane))
            while len(lane.unacknowledged) < wanted:
                count = self.random.choice((1, 1, 3, 20))
                values = [Value(self.name, lane.next_number + index, True) for index in range(count)]
                data = self.make_batch(
                    lane.ledger.partition,
                    values,
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                    base_sequence=lane.next_sequence,
                )
                lane.unacknowledged.append(Batch(lane.next_sequence, values, data))
                lane.next_number += count
                lane.next_sequence += count

    def answered(self, sent: dict[int, Batch], answer: msgspec.Struct) -> None:
        """Handles one response at the moment of its arrival."""
        for topic in cast(ProduceResponse, answer).responses:
            for response in topic.partition_responses:
                self.partition_answered(self.lanes[response.index], sent[response.index], response)

    def partition_answered(self, lane: Lane, batch: Batch, response: PartitionProduceResponse) -> None:
        code = response.error_code
        head = lane.unacknowledged[0] if lane.unacknowledged else None
        if code == 0:
            lane.ledger.acknowledged(response.base_offset, batch.values)
            self.acknowledged += len(batch.values)
            self.world.trace.note("acked", self.name, lane.ledger.partition, response.base_offset, len(batch.values))
            before = takewhile(lambda other: other is not batch, lane.unacknowledged)
            if head is not batch and head is not None and all(other.is_in_doubt for other in before):
                lane.unacknowledged = deque(other for other in lane.unacknowledged if other is not batch)
                return
            if head is not batch:
                is_new_life = lane.ledger.rules.is_compacted and self.producer_id < 0
                if lane.ledger.legal_losses == lane.legal_losses_seen and not is_new_life:
                    raise ViolationError(
                        "sequences have no gap",
                        f"{lane.ledger.name}: sequence {batch.base_sequence} was taken before "
                        f"{head.base_sequence if head else None} of producer {self.producer_id}",
                    )
                self.producer_id = -1
                return
            lane.unacknowledged.popleft()
            if self.producer_id >= 0:  # otherwise another partition was rejected in the meantime, and this life is over
                lane.ledger.last_sequences[self.producer_id] = batch.base_sequence + len(batch.values) - 1
            return
        lane.is_refused = True
        batch.is_in_doubt |= code in MAY_BE_APPENDED
        if code not in SEQUENCE_ERRORS:
            self.must_be_retriable(code, f"Produce to {lane.ledger.name}")
        elif head is batch:
            # A start cannot recover batches that compaction removed. As in Apache Kafka, the producer snapshot has only
            # the last one, and a repeat of an older one gets error 45.
            is_forgotten = lane.ledger.rules.is_compacted and batch.times_sent > 1
            if lane.ledger.legal_losses == lane.legal_losses_seen and not is_forgotten:
                raise ViolationError(
                    "idempotent batches are taken",
                    f"{lane.ledger.name}: error {code} for the first unacknowledged sequence {batch.base_sequence} "
                    f"of producer {self.producer_id} epoch {self.producer_epoch}, sent {batch.times_sent} times",
                )
            self.world.trace.note("new life", self.name, code)
            self.producer_id = -1


class PlainProducer(Producer):
    """Sends without idempotence, with any acks, and never repeats, so each value occurs at most once.

    Records sent on one connection keep their order. A request on a lost connection may still be executed after those on
    the next one.
    """

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic) -> None:
        super().__init__(world, name, topic)
        self.next_number = 0
        self.lives = 0
        self.sent_by: Client | None = None

    async def step(self) -> None:
        client = await self.client()
        acks = self.random.choice((-1, -1, 1, 0))
        sent: dict[int, list[Value]] = {}
        batches: dict[int, bytes] = {}
        partitions = range(self.topic.partitions)
        for partition in self.random.sample(partitions, self.random.randint(1, self.topic.partitions)):
            values = sent[partition] = self.take_values(client, self.random.choice((1, 2, 10)))
            codecs = (*OLD_CODECS, "zstd") if client.version_of(ApiKey.PRODUCE) >= FIRST_ZSTD_VERSION else OLD_CODECS
            batches[partition] = self.make_batch(partition, values, codecs=codecs)
        request = self.make_request(client, batches, acks)
        if acks == 0:
            cast(BrokerClient, client).send_unanswered(request)
        else:
            await client.request(request, note=lambda answer: self.answered(sent, answer))
        await self.pause()

    def take_values(self, client: Client, count: int) -> list[Value]:
        """The values for one batch. Each connection counts as a separate producer."""
        life = self.life_of(client)
        return [Value(f"{self.name}/{life}", self.take_number(), True) for _ in range(count)]

    def life_of(self, client: Client) -> int:
        """A different number for each connection, because requests on an older one may still be executed."""
        if client is not self.sent_by:
            self.sent_by = client
            self.lives += 1
        return self.lives

    def take_number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    def answered(self, sent: dict[int, list[Value]], answer: ProduceResponse) -> None:
        """Handles one response at the moment of its arrival."""
        for topic in answer.responses:
            for response in topic.partition_responses:
                ledger = self.topic.ledger(self.world, response.index)
                if response.error_code:
                    self.must_be_retriable(response.error_code, f"Produce to {ledger.name}")
                    continue
                ledger.acknowledged(response.base_offset, sent[response.index])
                self.world.trace.note("acked", self.name, response.index, response.base_offset)


class LateProducer(PlainProducer):
    """Writes only values of one key, so the last records of the others are left to the cleaner."""

    def take_number(self) -> int:
        number = super().take_number() * KEYS
        return self.take_number() if number % TOMBSTONE_EVERY == 0 else number
