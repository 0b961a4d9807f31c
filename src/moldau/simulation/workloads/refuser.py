"""Sends requests that must be rejected, in every served version, and checks that none of them changes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from moldau.errors import ERROR_CODES
from moldau.simulation.client import PORT, Client, UnansweredError
from moldau.simulation.kinds import CROWD, CROWD_LIMIT, directory_path
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import FiniteLoop
from moldau.simulation.workloads.refusals.case import (
    COMPACTED,
    GROUP,
    PACKED,
    PLAIN,
    POSITION,
    Case,
    FrameCase,
    Ground,
    refusals_in,
    topics_to_create,
)
from moldau.simulation.workloads.refusals.frame_cases import CrowdCase, frame_cases
from moldau.simulation.workloads.refusals.group_cases import commit
from moldau.simulation.workloads.refusals.looks import LOOKS
from moldau.simulation.workloads.refusals.record_cases import produce
from moldau.simulation.workloads.refusals.scenes import Scene, all_scenes
from moldau.simulation.workloads.refusals.table import all_cases, batches_to_write
from moldau.types import Uuid
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, api_key_of
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.offsets import OffsetCommitRequestPartition
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.topics import CreateTopicsRequest

if TYPE_CHECKING:
    from moldau.simulation.network import End
    from moldau.simulation.world import World

KIND = "refusals"
CASES_PER_SEED = 250
SCENE_SHARE = 0.6
LOOK_EVERY = 40
"""The number of requests between two checks of the state."""
FRAME_PATIENCE_S = 10.0
CODE_RULE = "what cannot be is refused with its error code"
STATE_RULE = "what is refused changes nothing"
CROWD_RULE = "an address has only as many connections as it may have"
FRAME_RULE = "bytes that are no request close the connection"
TRANSIENT = (
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "PREFERRED_LEADER_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "BROKER_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_CONTROLLER",
    "KAFKA_STORAGE_ERROR",
)
"""Errors of a node that starts, stops, or has lost its disk, for any request."""

Shown = dict[str, object]
AnyCase = Case | FrameCase | CrowdCase | Scene


class Refuser(FiniteLoop):
    """Creates its own topics, records, producers and group. Then sends a selection of all cases, each until it is
    answered.

    No other client changes them, so they must always look the same.
    """

    world: World

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.ground: Ground | None = None
        self.producer_ids: list[int] = []
        self.written = 0
        """The number of acknowledged batches."""
        self.cases: list[AnyCase] = []
        self.shown: Shown | None = None
        self.attempts = 0
        """The number of attempts at scenes. Each attempt uses other names."""
        self.since_look = 0
        self.prepared_for: Client | None = None
        """The connection on which the existence of the group was checked."""

    async def step(self) -> None:
        client = await self.client()
        if self.ground is None:
            await self.prepare(client)
        elif client is not self.prepared_for:
            # a loss of power may have removed the group, because its committed offsets are not flushed
            if await self.take_position(client):
                self.prepared_for = client
        elif self.shown is None or self.since_look >= LOOK_EVERY or not self.cases:
            await self.look(client)
            self.is_finished = not self.cases
        else:
            await self.try_case(client, self.cases[-1])
        if not self.world.is_draining:
            await asyncio.sleep(self.random.choice((0.01, 0.05, 0.1)))

    # -- the ground

    async def prepare(self, client: Client) -> None:
        """Creates the objects for the cases. Starts again after a missing response."""
        client.versions[ApiKey.CREATE_TOPICS] = 7
        client.versions[ApiKey.PRODUCE] = 12
        client.versions[ApiKey.METADATA] = 12
        created = await client.request(CreateTopicsRequest(topics_to_create()))
        for row in created.topics:
            if row.error_code not in (0, ERROR_CODES["TOPIC_ALREADY_EXISTS"]):
                self.must_be_retriable(row.error_code, f"CreateTopics of {row.name}")
                return
        while len(self.producer_ids) < 2:
            begun = await client.request(InitProducerIdRequest(None))
            if begun.error_code:
                self.must_be_retriable(begun.error_code, "InitProducerId")
                return
            self.world.producer_id_given(begun.producer_id, begun.producer_epoch)
            self.producer_ids.append(begun.producer_id)
        if await self.write(client):
            await self.learn(client)

    async def write(self, client: Client) -> bool:
        """Whether all records are written."""
        first, second = self.producer_ids
        batches = batches_to_write((first, second), self.world.clock.now_ms())
        for batch in batches[self.written :]:
            request = produce(PLAIN, Uuid(bytes(16)), (0, batch))
            answer = await client.request(request)
            error_code = answer.responses[0].partition_responses[0].error_code
            if error_code:
                self.must_be_retriable(error_code, f"Produce to {PLAIN}")
                return False
            self.written += 1
        return True

    async def take_position(self, client: Client) -> bool:
        """Whether the group has a committed offset."""
        row = OffsetCommitRequestPartition(0, POSITION)
        client.versions[ApiKey.OFFSET_COMMIT] = 9
        request = commit(GROUP, PLAIN, Uuid(bytes(16)), row)
        answer = await client.request(request)
        error_code = answer.topics[0].partitions[0].error_code
        if error_code:
            self.must_be_retriable(error_code, f"OffsetCommit of {GROUP}")
        return not error_code

    async def learn(self, client: Client) -> None:
        """Reads the ids of the topics, after which all cases are known."""
        metadata = await client.request(MetadataRequest(None))
        ids = {topic.name or "": topic.topic_id for topic in metadata.topics}
        first, second = self.producer_ids
        now_ms = self.world.clock.now_ms()
        ground = self.ground = Ground(
            {name: ids[name] for name in (PLAIN, COMPACTED, PACKED)}, (first, second), now_ms, directory_path(0)
        )
        cases: list[AnyCase] = [*all_cases(ground), *frame_cases(self.random)]
        self.cases = self.random.sample(cases, min(CASES_PER_SEED, len(cases)))
        longer: list[AnyCase] = [CrowdCase(), *all_scenes()]
        for case in longer:
            if self.random.random() < SCENE_SHARE:
                self.cases.insert(self.random.randrange(len(self.cases) + 1), case)

    # -- the cases

    async def try_case(self, client: Client, case: AnyCase) -> None:
        """Sends one case. It is finished unless the node answers with a transient error."""
        if isinstance(case, FrameCase):
            await self.try_frame(case)
        elif isinstance(case, CrowdCase):
            await self.try_crowd(case)
        elif isinstance(case, Scene):
            await self.play(client, case)
        elif await self.ask(client, case) is None:
            return
        self.cases.pop()
        self.since_look += 1

    async def play(self, client: Client, scene: Scene) -> None:
        """Runs all steps of the scene. After an UnansweredError it starts again."""
        self.attempts += 1
        self.world.trace.note("scene", scene.name, self.attempts)
        steps = scene.begin(cast(Ground, self.ground), self.attempts)
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            answer = None
            if isinstance(step, float):
                await asyncio.sleep(step)
                continue
            while answer is None:
                answer = await self.ask(client, step)

    async def ask(self, client: Client, case: Case) -> Any:
        """Sends the case, and returns its correct response; None for a transient error."""
        api_key = api_key_of(case.request)
        row = API_VERSIONS[api_key]
        low, high = max(case.versions[0], row.min_version), min(case.versions[1], row.max_version)
        version = client.versions[api_key] = self.random.randint(low, high)
        self.world.trace.note("case", case.name, version)
        answer: Any = await client.request(case.request)
        found = refusals_in(answer)
        is_expected = found in (case.refusals, case.otherwise)
        if not is_expected and any(name in TRANSIENT for name in found):
            self.world.trace.note("not now", case.name, found)
            await asyncio.sleep(self.random.uniform(0.02, 0.3))
            return None
        if not is_expected:
            expected = f"expected {_short(case.refusals)}, got {_short(found)}"
            raise ViolationError(CODE_RULE, f"{case.name}, v{version}: {expected}")
        fault = case.fault(answer)
        if fault:
            raise ViolationError(CODE_RULE, f"{case.name}, v{version}: {fault}")
        return answer

    async def try_frame(self, case: FrameCase) -> None:
        """Sends the bytes on a separate connection. Raises UnansweredError if trouble may have delayed them."""
        self.world.trace.note("case", case.name)
        was_up = self.world.broker.boots
        sender = await self.send_bytes(self.name, case.data)
        try:
            async with asyncio.timeout(FRAME_PATIENCE_S):
                await sender.until(
                    lambda: sender.is_lost or (not case.is_closed and len(sender.data) >= len(case.answer))
                )
        except TimeoutError as error:
            if self.world.is_draining and self.world.broker.boots == was_up:
                raise ViolationError(FRAME_RULE, f"{case.name}: it stays open after {bytes(sender.data)!r}") from error
            raise UnansweredError(f"{case.name}: neither closed nor answered") from error
        finally:
            sender.close()
        answer = bytes(sender.data)
        # trouble may have cut the connection in the middle of the response
        is_cut_short = case.answer.startswith(answer) and not self.world.is_draining
        if answer != case.answer and not is_cut_short:
            raise ViolationError(FRAME_RULE, f"{case.name}: answered {answer!r}, expected {case.answer!r}")

    async def try_crowd(self, case: CrowdCase) -> None:
        """Opens one connection after the other. Raises UnansweredError if trouble may have closed a served one."""
        self.world.trace.note("case", CROWD)
        senders: list[BytesSender] = []
        try:
            async with asyncio.timeout(FRAME_PATIENCE_S):
                for _ in range(CROWD_LIMIT + 1):
                    sender = await self.send_bytes(CROWD, case.data)
                    senders.append(sender)
                    await sender.until(lambda sender=sender: sender.is_lost or bool(sender.data))  # type: ignore[misc]
            if any(sender.is_lost for sender in senders[:CROWD_LIMIT]):
                raise UnansweredError("a connection of the crowd was closed")
        except TimeoutError as error:
            raise UnansweredError("a connection of the crowd is neither closed nor served") from error
        finally:
            for sender in senders:
                sender.close()
        if senders[CROWD_LIMIT].data:
            raise ViolationError(CROWD_RULE, f"{len(senders)} of {CROWD} are served, allowed are {CROWD_LIMIT}")

    async def send_bytes(self, address: str, data: bytes) -> BytesSender:
        """A separate connection that has sent `data`. Raises UnansweredError if no broker listens."""
        sender = BytesSender()
        try:
            sender.end = await self.world.network.connect(address, self.world.broker.host, PORT, sender)
        except (ConnectionRefusedError, TimeoutError) as error:
            raise UnansweredError(str(error)) from error
        sender.end.write(data)
        return sender

    # -- what must not change

    async def look(self, client: Client) -> None:
        """Compares the visible state with that at the beginning."""
        shown = await self.show(client)
        if shown is None:
            return
        self.since_look = 0
        if self.shown is None:
            self.shown = shown
            return
        for name, before in self.shown.items():
            if shown[name] != before:
                raise ViolationError(STATE_RULE, f"{name} was {before}, and is {shown[name]}")

    async def show(self, client: Client) -> Shown | None:
        """Everything that a rejected request might have changed; None after a transient error."""
        shown: Shown = {}
        for name, version, request, look in LOOKS:
            client.versions[api_key_of(request)] = version
            answer: Any = await client.request(request)
            if refusals_in(answer):
                self.world.trace.note("not now", name, refusals_in(answer))
                for refusal in refusals_in(answer):
                    self.must_be_retriable(ERROR_CODES[refusal], name)
                await asyncio.sleep(self.random.uniform(0.02, 0.3))
                return None
            shown[name] = look(answer)
        return shown


class BytesSender(asyncio.Protocol):
    """A connection that sends bytes that no client sends."""

    def __init__(self) -> None:
        self.end: End
        self.data = bytearray()
        self.is_lost = False
        self._changed = asyncio.Event()

    async def until(self, is_reached: Callable[[], bool]) -> None:
        while not is_reached():
            self._changed.clear()
            await self._changed.wait()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self._changed.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._changed.set()

    def close(self) -> None:
        if not self.end.is_closing():
            self.end.abort()


def _short(names: tuple[str, ...]) -> str:
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "none"
