"""A consumer with a fetch session (KIP-227). It sends only changes, and the broker remembers the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES
from moldau.simulation.client import Client, UnansweredError
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.readers import EARLIEST, FIRST_TOPIC_ID_VERSION, Position, list_offset, take_partition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

FIRST_SESSION_VERSION = 7
SESSION_ERRORS = tuple(
    ERROR_CODES[name]
    for name in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR")
)
Key = tuple[str, int]


class SessionReader(ClientLoop):
    """Reads several topics in one session. At the end it must have all records, which fails if the broker forgets a
    partition."""

    def __init__(self, world: ClientWorld, name: str, topics: tuple[SimulatedTopic, ...]) -> None:
        super().__init__(world, name)
        self.topics = {topic.name: topic for topic in topics}
        self.positions: dict[Key, Position] = {}
        for topic in topics:
            for partition in range(topic.partitions):
                ledger = topic.ledger(world, partition)
                self.positions[topic.name, partition] = Position(ledger, ledger.log_start_offset)
        self.session_id = 0
        self.epoch = 0
        self.told: dict[Key, tuple[int, int]] = {}
        """The session's state at the broker: (offset, maximum bytes)."""
        self.left_out: tuple[Key, ...] = ()
        """Partitions that are not read for a while."""
        self.asked_by: Client | None = None

    def is_done(self) -> bool:
        return self.world.is_draining and all(
            position.offset >= position.ledger.end for position in self.positions.values()
        )

    async def step(self) -> None:
        client = await self.client()
        client.versions[ApiKey.FETCH] = max(FIRST_SESSION_VERSION, client.versions[ApiKey.FETCH])
        if client is not self.asked_by or self.random.random() < 0.02:
            self.asked_by = client
            self.forget_session()
        if self.random.random() < 0.1 or self.world.is_draining:
            is_reading_all = self.world.is_draining or self.random.random() < 0.5
            self.left_out = () if is_reading_all else (self.random.choice(list(self.positions)),)
        await self.fetch(client)
        await self.pause()

    def forget_session(self) -> None:
        """Makes the next request begin a new session."""
        self.session_id, self.epoch = 0, 0
        self.told.clear()

    async def fetch(self, client: Client) -> None:
        max_bytes = self.random.choice((500, 4_000, 1 << 20))
        asked = {key: position.offset for key, position in self.positions.items() if key not in self.left_out}
        asked_s = self.world.loop.time()
        if self.epoch == 0:
            self.told.clear()
        changed = [key for key, offset in asked.items() if self.told.get(key, (-1, 0))[0] != offset]
        forgotten = [key for key in self.told if key not in asked]
        request = FetchRequest(
            max_wait_ms=self.random.choice((0, 50, 300)),
            min_bytes=1,
            max_bytes=self.random.choice((1_000, 1 << 22)),
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=self.wanted(client, changed, asked, max_bytes),
            forgotten_topics_data=self.forgotten(client, forgotten),
        )
        for key in forgotten:
            del self.told[key]
        for key in changed:
            self.told[key] = (asked[key], max_bytes)
        was_full = self.epoch == 0

        def note(answer: FetchResponse) -> None:
            self.take(answer, client, asked, asked_s, was_full=was_full)

        try:
            await client.request(request, note=note)
        except UnansweredError:
            self.forget_session()
            raise
        await self.handle_errors(client)

    def wanted(self, client: Client, keys: list[Key], asked: dict[Key, int], max_bytes: int) -> tuple[FetchTopic, ...]:
        topics = []
        for topic in self.topics.values():
            partitions = tuple(
                FetchPartition(partition=partition, fetch_offset=asked[name, partition], partition_max_bytes=max_bytes)
                for name, partition in keys
                if name == topic.name
            )
            if partitions and client.version_of(ApiKey.FETCH) >= FIRST_TOPIC_ID_VERSION:
                topics.append(FetchTopic(topic_id=topic.topic_id, partitions=partitions))
            elif partitions:
                topics.append(FetchTopic(topic=topic.name, partitions=partitions))
        return tuple(topics)

    def forgotten(self, client: Client, keys: list[Key]) -> tuple[ForgottenTopic, ...]:
        is_by_id = client.version_of(ApiKey.FETCH) >= FIRST_TOPIC_ID_VERSION
        return tuple(
            ForgottenTopic(topic_id=self.topics[name].topic_id, partitions=(partition,))
            if is_by_id
            else ForgottenTopic(topic=name, partitions=(partition,))
            for name, partition in keys
        )

    def take(
        self, answer: FetchResponse, client: Client, asked: dict[Key, int], asked_s: float, *, was_full: bool
    ) -> None:
        """Handles the response at the moment of its arrival."""
        self.world.trace.note("session", self.name, answer.session_id, self.epoch, answer.error_code)
        if answer.error_code in SESSION_ERRORS:
            self.forget_session()
            return
        if answer.error_code:
            self.must_be_retriable(answer.error_code, "Fetch")
        self.session_id = answer.session_id
        self.epoch = self.epoch + 1 if answer.session_id else 0
        answered = 0
        for topic_answer in answer.responses:
            name = topic_answer.topic or next(
                topic.name for topic in self.topics.values() if topic.topic_id == topic_answer.topic_id
            )
            for partition in topic_answer.partitions:
                key = (name, partition.partition_index)
                if key not in asked:
                    raise ViolationError("a session answers what it was asked", f"{self.name}: {key}")
                take_partition(self.positions[key], partition, client, asked[key], asked_s)
                answered += 1
        if was_full and not answer.error_code and answer.throttle_time_ms == 0 and answered != len(asked):
            raise ViolationError("a full fetch is answered in full", f"{self.name}: {answered} of {len(asked)}")

    async def handle_errors(self, client: Client) -> None:
        is_refused = False
        for (topic, partition), position in list(self.positions.items()):
            if position.is_out_of_range:
                asked_s = self.world.loop.time()
                start = await list_offset(self, client, topic, partition, EARLIEST)
                if start >= 0:
                    position.ledger.log_start_seen(start, asked_s=asked_s, seen_s=self.world.loop.time())
                    self.positions[topic, partition] = Position(position.ledger, start)
            elif position.error_code:
                self.must_be_retriable(position.error_code, f"Fetch of {position.ledger.name}")
                position.error_code = 0
                is_refused = True
        if is_refused:
            await asyncio.sleep(self.random.uniform(0.02, 0.3))
