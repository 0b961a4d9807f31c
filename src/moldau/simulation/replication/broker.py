"""One broker of the simulation: a process that drives `core.replication.replica` over a real log directory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.files.flush import FlushPlan
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.metadata.image import NO_LEADER
from moldau.core.replication.divergence import check_leader_epoch, diverging_epoch
from moldau.core.replication.leader import ACKS_ALL
from moldau.core.replication.replica import Replica
from moldau.core.replication.steps import (
    Append,
    Copied,
    Event,
    FetchAnswered,
    FetchedUpTo,
    FetchFailed,
    FetchFrom,
    Flushed,
    HighWatermarkMoved,
    IsrAnswered,
    LeadershipBegan,
    LogPosition,
    MetadataChanged,
    Output,
    ProposeIsr,
    Tick,
    Truncated,
    TruncateTo,
)
from moldau.errors import KafkaError, ProtocolError
from moldau.shell.io.simulated.clock import DEFAULT_NOW_MS
from moldau.simulation.calls import Respond
from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.ports import ProcessDisk
from moldau.simulation.replication.messages import (
    AlterPartition,
    AlterPartitionAnswer,
    Consume,
    ConsumeAnswer,
    EpochEnd,
    EpochEndAnswer,
    Fetch,
    FetchAnswer,
    Heartbeat,
    Metadata,
    Produce,
    ProduceAnswer,
    Register,
)
from moldau.simulation.replication.story import Story
from moldau.types import METADATA_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition

PARTITION = TopicPartition("t", 0)
CALL_TIMEOUT_S = 0.5
FETCH_WAIT_MS = 100
HEARTBEAT_MS = 100
FETCH_BYTES = 2_000
FLUSH_MS = 30


class _Wait(msgspec.Struct):
    """A Produce with acks=all that is appended but not answered yet."""

    end_offset: int
    leader_epoch: LeaderEpoch
    base_offset: int
    respond: Respond


class BrokerProcess:
    """One life of a broker. `start` opens the log, and may die of a planned crash. The machine calls `kill`."""

    def __init__(
        self,
        story: Story,
        broker_id: int,
        boots: int,
        process: SimulatedProcess,
        disk: ProcessDisk,
        acknowledged: Callable[[int], None],
    ) -> None:
        """`boots`: the number of starts of its machine, including this one. `acknowledged` is called with each
        acknowledged end offset."""
        self.story = story
        self.name = f"broker-{broker_id}"
        self.broker_id = broker_id
        self.process = process
        self.disk = disk
        self._boots = boots
        self._acknowledged = acknowledged
        self.broker_epoch = -1
        self.metadata: Metadata | None = None
        self.directory: LogDirectory
        self.log: Log
        self.replica: Replica
        self._waits: list[_Wait] = []
        self._parked: list[Callable[[], None]] = []
        self._tick_ms: int | None = None
        self._is_flush_due = False
        self._truncation: int | None = None
        """The offset at which to cut the log after the running flush."""
        self._held: list[Event] = []
        """Events that wait until then, because an output is performed before the next event."""
        self._random = story.random_of(process.name)

    # --- start and stop ---

    def start(self) -> None:
        """Recovers the log, then registers."""
        story = self.story
        self.directory = LogDirectory.open(self.disk)
        for _ in self.directory.open_all(lambda _: story.log_settings, self._wall_ms()):
            pass
        if PARTITION not in self.directory.logs:
            self.directory.create_log(PARTITION, METADATA_TOPIC_ID, story.log_settings, now_ms=self._wall_ms())
        log = self.log = self.directory.logs[PARTITION]
        noted = self.directory.high_watermarks.get(PARTITION, 0)
        position = LogPosition(
            log.log_end_offset, log.leader_epochs.latest_epoch, log.recovery_point, min(noted, log.log_end_offset)
        )
        self.replica = Replica(BrokerId(self.broker_id), position, story.replication_settings, log.end_offset_for_epoch)
        story.ledger.opened(self.name, log, position.high_watermark)
        self._register()
        self._flush_now_and_then()

    def stop(self) -> None:
        """A clean stop: flushes everything and writes the mark of a clean stop."""
        self.directory.close(
            broker_epoch=self.broker_epoch,
            now_ms=self._wall_ms(),
            high_watermarks={PARTITION: self.replica.high_watermark},
        )

    def _wall_ms(self) -> int:
        return DEFAULT_NOW_MS + self.story.now_ms

    def _after(self, delay_ms: int, act: Callable[[], None]) -> None:
        self.story.after(delay_ms, act, self.process)

    def _call(self, target: str, request: object, take: Callable[[object | None], None]) -> None:
        self.story.calls.call(self.process, self.name, target, request, take, CALL_TIMEOUT_S)

    # --- the controller ---

    def _register(self) -> None:
        request = Register(self.broker_id, self._boots, self.directory.previous_broker_epoch)

        def take(answer: object | None) -> None:
            if isinstance(answer, Metadata):
                self.broker_epoch = answer.broker_epoch
                self._take_metadata(answer)
                self._heartbeat()
            else:
                self._register()

        self._call("controller", request, take)

    def _heartbeat(self) -> None:
        def take(answer: object | None) -> None:
            if isinstance(answer, Metadata):
                self._take_metadata(answer)

        self._call("controller", Heartbeat(self.broker_id, self.broker_epoch), take)
        self._after(HEARTBEAT_MS, self._heartbeat)

    def _take_metadata(self, metadata: Metadata) -> None:
        if self.metadata is None or metadata.version > self.metadata.version:
            self.metadata = metadata
            self.step(MetadataChanged(metadata.partition, metadata.broker_epochs))

    # --- the machine and its outputs ---

    def step(self, event: Event) -> None:
        """Handles one event and all its consequences."""
        if self._truncation is not None:
            self._held.append(event)
            return
        self._perform_all(self.replica.step(event, self.story.now_ms))

    def _perform_all(self, outputs: tuple[Output, ...]) -> None:
        for output in outputs:
            self._perform(output)
        self._answer_waits()
        deadline_ms = self.replica.next_deadline_ms()
        if deadline_ms is not None and (self._tick_ms is None or deadline_ms < self._tick_ms):
            self._tick_ms = deadline_ms
            self._after(max(1, deadline_ms - self.story.now_ms), self._tick)

    def _tick(self) -> None:
        self._tick_ms = None
        self.step(Tick())

    def _perform(self, output: Output) -> None:
        log, ledger = self.log, self.story.ledger
        match output:
            case LeadershipBegan():
                log.leader_epochs.begin(output.leader_epoch, log.log_end_offset)
                ledger.leadership_began(self.name, output.leader_epoch, log)
            case HighWatermarkMoved():
                ledger.high_watermark_moved(self.name, log, self.replica.high_watermark)
                self._wake()
            case ProposeIsr():
                self._propose(output)
            case TruncateTo():
                self._truncate(output.offset)
            case Append():
                self._append_fetched(output)
            case FetchFrom():
                self._fetch(output)

    def _truncate(self, offset: int) -> None:
        if self.log.is_flushing:
            self._truncation = offset
            return
        self.story.ledger.truncated(self.name, self.log, offset)
        self.directory.truncate(PARTITION, offset, self._wall_ms())
        self.step(Truncated(self.log.log_end_offset, self.log.leader_epochs.latest_epoch))

    def _append_fetched(self, output: Append) -> None:
        try:
            self.log.append_copied(output.records, self._wall_ms())
        except ProtocolError as error:
            self.story.ledger.fail("replicas take what their leader has", f"{self.name}: {error}")
        self.step(Copied(self.log.log_end_offset, self.log.leader_epochs.latest_epoch))
        self._appended()

    def _appended(self) -> None:
        self.story.ledger.appended(self.name, self.log)
        if self.story.replication_settings.waits_for_flush and not self._is_flush_due:
            self._is_flush_due = True
            self._after(1 + self._random.randrange(self.story.flush_delay_ms), self._flush)
        self._wake()

    def _propose(self, output: ProposeIsr) -> None:
        def take(answer: object | None) -> None:
            if isinstance(answer, AlterPartitionAnswer):
                self.step(IsrAnswered(output.partition_epoch, answer.partition, answer.error))
            else:
                self.step(IsrAnswered(output.partition_epoch, None, "REQUEST_TIMED_OUT"))

        self._call("controller", AlterPartition(self.broker_id, self.broker_epoch, output), take)

    def _fetch(self, output: FetchFrom) -> None:
        request = Fetch(
            self.broker_id, self.broker_epoch, output.leader_epoch, output.offset, output.last_fetched_epoch
        )

        def take(answer: object | None) -> None:
            if not isinstance(answer, FetchAnswer) or answer.error:
                self.step(FetchFailed(output.leader_epoch))
                return
            self.step(
                FetchAnswered(
                    output.leader_epoch, output.offset, answer.high_watermark, answer.records, answer.diverging
                )
            )

        self._call(f"broker-{output.leader_id}", request, take)

    def _flush(self) -> None:
        """Begins a flush, unless one runs. It takes time, as in a thread."""
        self._is_flush_due = False
        plan = None if self.log.is_flushing else self.log.unflushed()
        if plan is not None:
            self._after(1 + self._random.randrange(FLUSH_MS), partial(self._end_flush, plan))

    def _end_flush(self, plan: FlushPlan) -> None:
        plan.run()
        self.log.mark_flushed(plan, self._wall_ms())
        self.story.ledger.flushed(self.name, self.log)
        truncation, self._truncation = self._truncation, None
        held, self._held = self._held, []
        if truncation is not None:
            self._truncate(truncation)
        for event in (*held, Flushed(self.log.recovery_point)):
            self.step(event)
        if self.story.replication_settings.waits_for_flush:
            self._flush()

    def _flush_now_and_then(self) -> None:
        self._after(self.story.flush_interval_ms, self._flush_now_and_then)
        self._flush()
        plan = self.directory.checkpoint({PARTITION: self.replica.high_watermark})
        plan.run()
        self.directory.checkpointed(plan)

    # --- requests ---

    def receive(self, request: object, respond: Respond) -> None:
        match request:
            case Produce():
                self._produce(request, respond)
            case Fetch():
                self._serve_follower(request, respond, is_last=False)
            case Consume():
                self._serve_consumer(request, respond)
            case EpochEnd():
                self._serve_epoch_end(request, respond)

    @property
    def _leader_id(self) -> int:
        return NO_LEADER if self.metadata is None else self.metadata.partition.leader

    def _produce(self, request: Produce, respond: Respond) -> None:
        try:
            leader = self.replica.leader
            leader.check_append(request.acks)
            appended = self.log.append(
                bytearray(request.records),
                leader_epoch=leader.leader_epoch,
                now_ms=self._wall_ms(),
                origin=AppendOrigin.CLIENT,
            )
        except KafkaError as error:
            respond(ProduceAnswer(error.name, self._leader_id))
            return
        if request.acks == ACKS_ALL:
            wait = _Wait(appended.last_offset + 1, leader.leader_epoch, appended.base_offset, respond)
            self._waits.append(wait)
        else:
            respond(ProduceAnswer("", self.broker_id, appended.base_offset))
        if appended.is_duplicate:
            self._answer_waits()
        else:
            self._perform_all(leader.appended(self.log.log_end_offset))
            self._appended()

    def _answer_waits(self) -> None:
        waits, self._waits = self._waits, []
        for wait in waits:
            try:
                if self.replica.is_acknowledged(wait.end_offset, wait.leader_epoch):
                    self._acknowledged(wait.end_offset)
                    wait.respond(ProduceAnswer("", self.broker_id, wait.base_offset))
                else:
                    self._waits.append(wait)
            except KafkaError as error:
                wait.respond(ProduceAnswer(error.name, self._leader_id))

    def _serve_follower(self, request: Fetch, respond: Respond, *, is_last: bool) -> None:
        """If there is nothing to read, parks the request once, until an append or for FETCH_WAIT_MS."""
        log = self.log
        try:
            leader = self.replica.leader
            leader.check_fetch(request.replica_id, request.broker_epoch, request.leader_epoch)
            if request.last_fetched_epoch >= 0:
                known = log.end_offset_for_epoch(request.last_fetched_epoch)
                diverging = diverging_epoch(known, request.offset, request.last_fetched_epoch)
                if diverging is not None:
                    respond(FetchAnswer(diverging=diverging))
                    return
            read = log.read(request.offset, max_bytes=FETCH_BYTES, end_offset=log.log_end_offset, may_wait=True)
        except KafkaError as error:
            respond(FetchAnswer(error.name))
            return
        self.step(FetchedUpTo(request.replica_id, request.broker_epoch, request.leader_epoch, request.offset))
        if read.records or is_last:
            respond(FetchAnswer("", self.replica.high_watermark, read.records or b""))
        else:
            self._park(lambda: self._serve_follower(request, respond, is_last=True))

    def _park(self, go_on: Callable[[], None]) -> None:
        is_done = False

        def once() -> None:
            nonlocal is_done
            if not is_done:
                is_done = True
                go_on()

        self._parked.append(once)
        self._after(FETCH_WAIT_MS, once)

    def _wake(self) -> None:
        parked, self._parked = self._parked, []
        for go_on in parked:
            self._after(0, go_on)

    def _serve_consumer(self, request: Consume, respond: Respond) -> None:
        metadata = self.metadata
        epoch = -1 if metadata is None else metadata.partition.leader_epoch
        try:
            leader = self.replica.leader
            check_leader_epoch(request.leader_epoch, leader.leader_epoch)
            high_watermark = self.replica.high_watermark
            read = self.log.read(request.offset, max_bytes=FETCH_BYTES, end_offset=high_watermark, may_wait=True)
        except KafkaError as error:
            respond(ConsumeAnswer(error.name, self._leader_id, epoch))
            return
        respond(ConsumeAnswer("", self.broker_id, leader.leader_epoch, high_watermark, read.records or b""))

    def _serve_epoch_end(self, request: EpochEnd, respond: Respond) -> None:
        try:
            check_leader_epoch(request.leader_epoch, self.replica.leader.leader_epoch)
        except KafkaError as error:
            respond(EpochEndAnswer(error.name))
            return
        respond(EpochEndAnswer("", *self.log.end_offset_for_epoch(request.leader_epoch)))
