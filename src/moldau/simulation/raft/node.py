"""One node of the simulation: a process that drives `core.raft.quorum` over a real log directory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec

from moldau.core.log.files.flush import FlushPlan
from moldau.core.log.log import AppendOrigin
from moldau.core.raft.messages import Fetch, FetchAnswer, Request, SnapshotId, Standing, Vote, VoteAnswer
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.quorum import Quorum
from moldau.core.raft.steps import (
    Answer,
    Answered,
    AnswerRecords,
    AnswerSnapshot,
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
    LoadSnapshot,
    Output,
    Resign,
    Save,
    SaveSnapshotPart,
    SnapshotLoaded,
    SnapshotTaken,
    Tick,
    Truncated,
    TruncateTo,
)
from moldau.core.raft.voters import ReplicaKey, VoterSet, voter_sets_in
from moldau.errors import ProtocolError
from moldau.shell.io.simulated.clock import DEFAULT_NOW_MS
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.quorum.quorum_state import QUORUM_STATE, read_quorum_state, write_quorum_state
from moldau.simulation.calls import Respond
from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.ports import ProcessDisk
from moldau.simulation.raft.files import NodeFiles
from moldau.simulation.raft.messages import Write, WriteAnswer
from moldau.simulation.raft.story import Story
from moldau.simulation.replication.ledger import batches_of
from moldau.wire.records.builder import build_batch
from moldau.wire.records.control import ControlType, build_control_batch

CALL_TIMEOUT_S = 0.6
SNAPSHOT_PART_BYTES = 100


class _Wait(msgspec.Struct):
    """A Write that is appended but not committed yet."""

    offset: int
    respond: Respond


class QuorumNode:
    """One life of a node. `start` opens the log, and may die of a planned crash. The machine calls `kill`."""

    def __init__(
        self, story: Story, node: ReplicaKey, first_voters: VoterSet, process: SimulatedProcess, disk: ProcessDisk
    ) -> None:
        """`first_voters`: the voters from the formatting of the directory."""
        self.story = story
        self._first_voters = first_voters
        self.node = node
        self.name = f"node-{node.node_id}"
        self.process = process
        self.disk = disk
        self.files: NodeFiles
        self.quorum: Quorum
        self._random = story.random_of(process.name)
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._tick_ms: int | None = None
        self._requests: dict[int, tuple[Request, Respond]] = {}
        self._fetch: Fetch | None = None
        """The latest fetch that was sent."""
        self._last_request_id = 0
        self._waits: list[_Wait] = []

    # --- start and stop ---

    def start(self) -> None:
        """Recovers the log and takes a role."""
        story = self.story
        files = self.files = NodeFiles(self.disk, story.log_settings, self._wall_ms())
        log = files.log
        own_log = OwnLog(
            files.voters(self._first_voters, story.kraft_version),
            lambda epoch: self.files.log.end_offset_for_epoch(epoch),
            log_end_offset=log.log_end_offset,
            latest_epoch=log.leader_epochs.latest_epoch,
            snapshot=files.newest,
            oldest=files.oldest,
        )
        saved = read_quorum_state(self.disk, QUORUM_STATE)
        random = SeededRandom(self._random.getrandbits(64))
        self.quorum = Quorum(self.node, saved, own_log, story.quorum_settings, random, story.node_ids)
        story.ledger.opened(self.name, log, log.log_start_offset)
        story.ledger.extended(self.name, log, log.log_start_offset)
        self._is_stepping = True
        self._perform_all(self.quorum.begin(story.now_ms))
        self._work_off()

    def stop(self) -> None:
        """A clean stop: the node resigns and flushes everything."""
        self.step(Resign())
        self.files.close(self._wall_ms())

    def _wall_ms(self) -> int:
        return DEFAULT_NOW_MS + self.story.now_ms

    def _after(self, delay_ms: int, act: Callable[[], None]) -> None:
        self.story.after(delay_ms, act, self.process)

    # --- the machine and its outputs ---

    def step(self, event: Event) -> None:
        """Handles one event. An event that results from an output is handled after all earlier outputs."""
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
            self._after(max(1, deadline_ms - self.story.now_ms), partial(self._tick, deadline_ms))

    def _tick(self, due_ms: int) -> None:
        if due_ms == self._tick_ms:  # otherwise an earlier one replaced it
            self._tick_ms = None
            self.step(Tick())

    def _perform_all(self, outputs: tuple[Output, ...]) -> None:
        for output in outputs:
            self._perform(output)

    def _perform(self, output: Output) -> None:
        log, ledger = self.files.log, self.story.ledger
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
                if output.records[0][0] is ControlType.KRAFT_VOTERS:
                    latest_offset = self.quorum.log.voters.latest_offset
                    ledger.voters_change(self.name, output.leader_epoch, latest_offset)
                batch = build_control_batch(output.records, timestamp=self._wall_ms(), leader_epoch=output.leader_epoch)
                self._append(batch)
            case Append():
                self._append_copied(output)
            case TruncateTo():
                ledger.truncated(self.name, log, output.offset)
                self.files.truncate(output.offset, self._wall_ms())
                self.step(Truncated(log.log_end_offset, log.leader_epochs.latest_epoch))
            case Flush():
                self._flush()
            case HighWatermarkMoved():
                ledger.high_watermark_moved(self.name, log, output.high_watermark)
                self._answer_waits()
                self._take_snapshot_if_due(output.high_watermark)
            case SaveSnapshotPart():
                self.files.write_part(output.snapshot, output.position, bytes(output.data))
            case LoadSnapshot():
                self._load_snapshot(output.snapshot)
            case AnswerSnapshot():
                self._answer_snapshot(output)
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
        if isinstance(request, Fetch):
            self._fetch = request

        def take(answer: object | None) -> None:
            # drops the response to an earlier fetch, which has timed out
            is_awaited = request is self._fetch
            if isinstance(answer, FetchAnswer) and is_awaited and answer.leader_epoch == self.quorum.leader_epoch:
                self.story.ledger.told(self.name, self.quorum.high_watermark, answer)
            self.step(Answered(node_id, request, answer if isinstance(answer, Standing) else None))

        self.story.calls.call(self.process, self.name, f"node-{node_id}", request, take, CALL_TIMEOUT_S)

    # --- snapshots ---

    def _take_snapshot_if_due(self, high_watermark: int) -> None:
        files = self.files
        if high_watermark < files.newest.end_offset + self.story.records_between_snapshots:
            return
        control = self.quorum.log.voters.control_at(high_watermark)
        files.take_snapshot(high_watermark, control, self._wall_ms())
        self.story.ledger.snapshot_taken(self.name, files.newest)
        self.step(SnapshotTaken(files.newest, files.oldest))

    def _load_snapshot(self, snapshot: SnapshotId) -> None:
        ledger = self.story.ledger
        ledger.replacing(self.name, snapshot)
        self.files.load_snapshot(snapshot, self._wall_ms())
        ledger.replaced(self.name, snapshot)
        self.step(SnapshotLoaded(snapshot, self.files.voters_of(snapshot)))

    def _answer_snapshot(self, output: AnswerSnapshot) -> None:
        part = self.files.read_part(output.snapshot, output.position, SNAPSHOT_PART_BYTES)
        if part is None:
            answer = msgspec.structs.replace(output.answer, error="SNAPSHOT_NOT_FOUND")
        else:
            answer = msgspec.structs.replace(output.answer, size=part[0], data=part[1])
        self._requests.pop(output.request_id)[1](answer)

    # --- the log ---

    def _append(self, batch: bytes) -> int:
        log = self.files.log
        base_offset = log.log_end_offset
        epoch = self.quorum.leader_epoch
        log.append(bytearray(batch), leader_epoch=epoch, now_ms=self._wall_ms(), origin=AppendOrigin.CONTROLLER)
        self._appended(base_offset)
        return base_offset

    def _append_copied(self, output: Append) -> None:
        base_offset = self.files.log.log_end_offset
        try:
            self.files.log.append_copied(output.records, self._wall_ms())
        except ProtocolError as error:
            self.story.ledger.fail("replicas take what their leader has", f"{self.name}: {error}")
        self._appended(base_offset)

    def _appended(self, base_offset: int) -> None:
        log, ledger = self.files.log, self.story.ledger
        ledger.appended(self.name, log)
        ledger.extended(self.name, log, base_offset)
        batches = batches_of(log, base_offset, log.log_end_offset).values()
        voters = tuple(entry for batch in batches for entry in voter_sets_in(batch))
        self.step(Appended(log.log_end_offset, log.leader_epochs.latest_epoch, voters))

    def _flush(self) -> None:
        """A flush takes time, as in a thread."""
        plan = self.files.log.unflushed()
        self._after(1 + self._random.randrange(self.story.flush_delay_ms), lambda: self._end_flush(plan))

    def _end_flush(self, plan: FlushPlan | None) -> None:
        if plan is None:
            self.step(Flushed(self.files.log.recovery_point))
            return
        plan.run()
        self.files.flushed(plan, self._wall_ms())
        self.story.ledger.flushed(self.name, self.files.log)
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
