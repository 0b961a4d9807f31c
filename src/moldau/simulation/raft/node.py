"""One node of the simulation: a process that drives `core.raft.quorum` over a real log directory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from moldau.core.log.directory import LogDirectory
from moldau.core.log.flush import FlushPlan
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.raft.messages import Request, Standing, Vote, VoteAnswer
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.quorum import Quorum
from moldau.core.raft.steps import (
    Answer,
    Answered,
    AnswerRecords,
    Append,
    AppendControl,
    Appended,
    Ask,
    Asked,
    Event,
    Flush,
    Flushed,
    HighWatermarkMoved,
    LeadershipBegan,
    LeadershipEnded,
    Output,
    Resign,
    Save,
    Tick,
    Truncated,
    TruncateTo,
)
from moldau.core.raft.voters import ReplicaKey, VoterHistory, configured_voters, voter_sets_in
from moldau.errors import ProtocolError
from moldau.shell.io.twins.clock import DEFAULT_NOW_MS
from moldau.shell.io.twins.random import SeededRandom
from moldau.shell.quorum.quorum_state import read_quorum_state, write_quorum_state
from moldau.simulation.calls import Respond
from moldau.simulation.doors import ProcessDisk
from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.raft.messages import Write, WriteAnswer
from moldau.simulation.raft.story import Story
from moldau.simulation.replication.ledger import batches_of
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from moldau.wire.records.builder import build_batch
from moldau.wire.records.control import build_control_batch

PARTITION = TopicPartition("metadata", 0)
QUORUM_STATE = "quorum-state"
CALL_TIMEOUT_S = 0.6


class _Wait(msgspec.Struct):
    """A Write that was appended and is not committed yet."""

    offset: int
    respond: Respond


class QuorumNode:
    """One incarnation. `start` opens the log, which may die of a planned crash; `kill` is the machine's work."""

    def __init__(self, story: Story, node: ReplicaKey, process: SimulatedProcess, disk: ProcessDisk) -> None:
        self.story = story
        self.node = node
        self.name = f"node-{node.node_id}"
        self.process = process
        self.disk = disk
        self.directory: LogDirectory
        self.log: Log
        self.quorum: Quorum
        self._random = story.random_of(process.name)
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._tick_ms: int | None = None
        self._requests: dict[int, tuple[Request, Respond]] = {}
        self._last_request_id = 0
        self._waits: list[_Wait] = []

    # --- start and stop ---

    def start(self) -> None:
        """Recovers the log and takes a role."""
        story = self.story
        self.directory = LogDirectory.open(self.disk)
        for _ in self.directory.open_all(lambda _: story.log_settings, self._wall_ms()):
            pass
        if PARTITION not in self.directory.logs:
            self.directory.create_log(PARTITION, METADATA_TOPIC_ID, story.log_settings, now_ms=self._wall_ms())
        log = self.log = self.directory.logs[PARTITION]
        voters = VoterHistory(configured_voters(story.node_ids))
        for batch in batches_of(log, log.log_start_offset, log.log_end_offset).values():
            voters.append(voter_sets_in(batch))
        own_log = OwnLog(
            voters,
            log.end_offset_for_epoch,
            log_end_offset=log.log_end_offset,
            latest_epoch=log.leader_epochs.latest_epoch,
        )
        saved = read_quorum_state(self.disk, QUORUM_STATE)
        random = SeededRandom(self._random.getrandbits(64))
        self.quorum = Quorum(self.node, saved, own_log, story.quorum_settings, random)
        story.ledger.opened(self.name, log, 0)
        story.ledger.extended(self.name, log, log.log_start_offset)
        self._is_stepping = True
        self._perform_all(self.quorum.begin(story.now_ms))
        self._work_off()

    def stop(self) -> None:
        """A clean stop: the node resigns, and everything is flushed."""
        self.step(Resign())
        self.directory.close(
            broker_epoch=-1, now_ms=self._wall_ms(), high_watermarks={PARTITION: self.quorum.high_watermark}
        )

    def _wall_ms(self) -> int:
        return DEFAULT_NOW_MS + self.story.now_ms

    def _after(self, delay_ms: int, act: Callable[[], None]) -> None:
        self.story.after(delay_ms, act, self.process)

    # --- the machine and its outputs ---

    def step(self, event: Event) -> None:
        """One event; one that comes of an output is taken when all outputs before it are performed."""
        self._events.append(event)
        if not self._is_stepping:
            self._work_off()

    def _work_off(self) -> None:
        self._is_stepping = True
        while self._events:
            self._perform_all(self.quorum.step(self._events.popleft(), self.story.now_ms))
        self._is_stepping = False
        deadline_ms = self.quorum.next_deadline_ms()
        if deadline_ms is not None and (self._tick_ms is None or deadline_ms < self._tick_ms):
            self._tick_ms = deadline_ms
            self._after(max(1, deadline_ms - self.story.now_ms), self._tick)

    def _tick(self) -> None:
        self._tick_ms = None
        self.step(Tick())

    def _perform_all(self, outputs: tuple[Output, ...]) -> None:
        for output in outputs:
            self._perform(output)

    def _perform(self, output: Output) -> None:
        log, ledger = self.log, self.story.ledger
        match output:
            case Save():
                write_quorum_state(self.disk, QUORUM_STATE, output.state)
                ledger.saved(self.node, output.state)
            case Ask():
                self._ask(output.node_id, output.request)
            case Answer():
                self._answer(output)
            case AnswerRecords():
                read = log.read(
                    output.offset, max_bytes=self.story.fetch_bytes, end_offset=log.log_end_offset, may_wait=True
                )
                answer = msgspec.structs.replace(output.answer, records=bytes(read.records or b""))
                self._requests.pop(output.request_id)[1](answer)
            case AppendControl():
                batch = build_control_batch(output.records, timestamp=self._wall_ms(), leader_epoch=output.leader_epoch)
                self._append(batch)
            case Append():
                self._append_copied(output)
            case TruncateTo():
                ledger.truncated(self.name, log, output.offset)
                self.directory.truncate(PARTITION, output.offset, self._wall_ms())
                self.step(Truncated(log.log_end_offset, log.leader_epochs.latest_epoch))
            case Flush():
                self._flush()
            case HighWatermarkMoved():
                ledger.high_watermark_moved(self.name, log, output.high_watermark)
                self._answer_waits()
            case LeadershipBegan():
                ledger.leadership_began(self.process.name, output.leader_epoch, log)
                self.story.trace.tell(f"{self.name} leads in epoch {output.leader_epoch} from {log.log_end_offset} on")
            case LeadershipEnded():
                self.story.trace.tell(f"{self.name} leads no more in epoch {output.leader_epoch}")
                waits, self._waits = self._waits, []
                for wait in waits:
                    wait.respond(WriteAnswer("NOT_LEADER_OR_FOLLOWER", -1))

    def _answer(self, output: Answer) -> None:
        request, respond = self._requests.pop(output.request_id)
        if isinstance(request, Vote) and isinstance(output.answer, VoteAnswer) and output.answer.is_granted:
            self.story.ledger.voted(self.node, request)
        respond(output.answer)

    def _ask(self, node_id: int, request: Request) -> None:
        if isinstance(request, Vote):
            self.story.ledger.voted(self.node, request)

        def take(answer: object | None) -> None:
            self.step(Answered(node_id, request, answer if isinstance(answer, Standing) else None))

        self.story.calls.call(self.process, self.name, f"node-{node_id}", request, take, CALL_TIMEOUT_S)

    # --- the log ---

    def _append(self, batch: bytes) -> int:
        log = self.log
        base_offset = log.log_end_offset
        epoch = self.quorum.leader_epoch
        log.append(bytearray(batch), leader_epoch=epoch, now_ms=self._wall_ms(), origin=AppendOrigin.CONTROLLER)
        self._appended(base_offset)
        return base_offset

    def _append_copied(self, output: Append) -> None:
        base_offset = self.log.log_end_offset
        try:
            self.log.append_copied(output.records, self._wall_ms())
        except ProtocolError as error:
            self.story.ledger.fail("replicas take what their leader has", f"{self.name}: {error}")
        self._appended(base_offset)

    def _appended(self, base_offset: int) -> None:
        log, ledger = self.log, self.story.ledger
        ledger.appended(self.name, log)
        ledger.extended(self.name, log, base_offset)
        batches = batches_of(log, base_offset, log.log_end_offset).values()
        voters = tuple(entry for batch in batches for entry in voter_sets_in(batch))
        self.step(Appended(log.log_end_offset, log.leader_epochs.latest_epoch, voters))

    def _flush(self) -> None:
        """It takes time, as one in a thread does."""
        plan = self.log.unflushed()
        self._after(1 + self._random.randrange(self.story.flush_delay_ms), lambda: self._end_flush(plan))

    def _end_flush(self, plan: FlushPlan | None) -> None:
        if plan is None:
            self.step(Flushed(self.log.recovery_point))
            return
        plan.run()
        self.log.mark_flushed(plan, self._wall_ms())
        self.story.ledger.flushed(self.name, self.log)
        self.step(Flushed(plan.end_offset))

    # --- requests ---

    def receive(self, request: object, respond: Respond) -> None:
        if isinstance(request, Write):
            self._write(request, respond)
        elif isinstance(request, Request):
            self._last_request_id += 1
            self._requests[self._last_request_id] = (request, respond)
            self.step(Asked(self._last_request_id, request))

    def _write(self, request: Write, respond: Respond) -> None:
        if not self.quorum.is_leader:
            respond(WriteAnswer("NOT_LEADER_OR_FOLLOWER", self.quorum.leader_id))
            return
        offset = self._append(build_batch([(None, request.value, self._wall_ms(), ())]))
        self._waits.append(_Wait(offset, respond))

    def _answer_waits(self) -> None:
        waits, self._waits = self._waits, []
        for wait in waits:
            if wait.offset < self.quorum.high_watermark:
                wait.respond(WriteAnswer("", self.node.node_id, wait.offset))
            else:
                self._waits.append(wait)
