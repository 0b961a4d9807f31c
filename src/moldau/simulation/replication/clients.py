"""Producers and readers of the simulation. Each has its own host and repeats a request until it succeeds."""

from __future__ import annotations

from moldau.core.replication.leader import ACKS_ALL
from moldau.shell.io.simulated.clock import DEFAULT_NOW_MS
from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.replication.messages import (
    Consume,
    ConsumeAnswer,
    EpochEnd,
    EpochEndAnswer,
    Produce,
    ProduceAnswer,
)
from moldau.simulation.replication.story import Story
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch

REQUEST_TIMEOUT_S = 0.9
BACKOFF_MS = 50
_LOST_STATE = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH")


class Producer:
    """An idempotent producer with one batch in flight, which it repeats until it is acknowledged."""

    def __init__(self, story: Story, name: str, acks: int) -> None:
        self.story = story
        self.name = name
        self.acks = acks
        self.process = SimulatedProcess(name)
        self._is_stopping = False
        self.is_idle = True
        self.acknowledged = 0
        self._random = story.random_of(name)
        self._target = 0
        self._number = 0
        self._producer_id = story.next_producer_id()
        self._sequence = 0
        self._values: tuple[bytes, ...] = ()
        story.after(self._random.randrange(500), self._begin, self.process)

    def stop(self) -> None:
        """Begins no new batch."""
        self._is_stopping = True

    def _begin(self) -> None:
        if self._is_stopping:
            return
        self.is_idle = False
        count = 1 + self._random.randrange(4)
        self._name_values(count)
        self._send()

    def _name_values(self, count: int) -> None:
        """The values of one producer id increase. The order between two ids is not promised."""
        padding = "." * self._random.randrange(200)
        self._values = tuple(
            f"{self.name}/{self._producer_id}{padding}:{self._number + index}".encode() for index in range(count)
        )
        self._number += count

    def _send(self) -> None:
        records = build_batch(
            [(None, value, DEFAULT_NOW_MS, ()) for value in self._values],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._sequence,
        )
        target = f"broker-{self._target}"
        request = Produce(self.acks, records)
        self.story.calls.call(self.process, self.name, target, request, self._take, REQUEST_TIMEOUT_S)

    def _take(self, answer: object | None) -> None:
        story = self.story
        if not isinstance(answer, ProduceAnswer) or answer.error:
            may_be_lost = self.acks == 1 or story.ledger.is_loss_allowed
            if may_be_lost and isinstance(answer, ProduceAnswer) and answer.error in _LOST_STATE:
                self._begin_anew()
            if isinstance(answer, ProduceAnswer) and answer.leader_id >= 0:
                self._target = answer.leader_id
            else:
                self._target = story.replicas[self._random.randrange(len(story.replicas))]
            story.after(BACKOFF_MS, self._send, self.process)
            return
        if self.acks == ACKS_ALL:
            story.ledger.was_acknowledged(self._values, answer.base_offset)
        self.acknowledged += len(self._values)
        self._sequence += len(self._values)
        self.is_idle = True
        story.after(self._random.randrange(story.think_ms), self._begin, self.process)

    def _begin_anew(self) -> None:
        """Records may be lost, and with them the sequence. With acks=all the broker is a former leader that lacks them,
        and another one accepts the batch."""
        self._producer_id, self._sequence = self.story.next_producer_id(), 0
        self._name_values(len(self._values))


class Reader:
    """Reads from the start to the high watermark again and again. Sometimes asks for the end of the leader's epoch."""

    def __init__(self, story: Story, name: str) -> None:
        self.story = story
        self.name = name
        self.process = SimulatedProcess(name)
        self.offset = 0
        self._random = story.random_of(name)
        self._target = 0
        self._leader_epoch = -1
        story.after(self._random.randrange(500), self._ask, self.process)

    def _ask(self) -> None:
        target, call = f"broker-{self._target}", self.story.calls.call
        if self._leader_epoch >= 0 and self._random.randrange(4) == 0:
            question = EpochEnd(self._leader_epoch)
            call(self.process, self.name, target, question, self._take_epoch_end, REQUEST_TIMEOUT_S)
        else:
            request = Consume(self.offset, self._leader_epoch)
            call(self.process, self.name, target, request, self._take, REQUEST_TIMEOUT_S)

    def _again(self, delay_ms: int) -> None:
        self.story.after(delay_ms, self._ask, self.process)

    def _take(self, answer: object | None) -> None:
        story = self.story
        if not isinstance(answer, ConsumeAnswer) or answer.error:
            self._target = story.replicas[self._random.randrange(len(story.replicas))]
            if isinstance(answer, ConsumeAnswer):
                # never a lower one: a former leader may lack records that were read
                self._leader_epoch = max(self._leader_epoch, answer.leader_epoch)
                if answer.error == "OFFSET_OUT_OF_RANGE":
                    self._begin_anew()
                elif answer.leader_id >= 0:
                    self._target = answer.leader_id
            self._again(BACKOFF_MS)
            return
        self._leader_epoch = answer.leader_epoch
        records = bytes(answer.records)
        story.ledger.was_read(self.name, records, answer.high_watermark)
        for _, header in iterate_batches(records):
            if header.base_offset != self.offset and not story.ledger.is_loss_allowed:
                story.ledger.fail(
                    "a reader's offsets have no gap", f"{self.name}: {header.base_offset} after {self.offset}"
                )
            self.offset = header.next_offset
        self._again(1 if records else 20 + self._random.randrange(60))

    def _begin_anew(self) -> None:
        if not self.story.ledger.is_loss_allowed:
            self.story.ledger.fail("what was read stays", f"{self.name}: offset {self.offset} is out of range")
        self.offset = 0

    def _take_epoch_end(self, answer: object | None) -> None:
        if isinstance(answer, EpochEndAnswer) and not answer.error:
            is_known = answer.leader_epoch == self._leader_epoch and answer.end_offset >= 0
            if not is_known:
                self.story.ledger.fail(
                    "a leader knows where its epoch ends",
                    f"{self.name}: epoch {self._leader_epoch}, answer {answer.leader_epoch}, {answer.end_offset}",
                )
        self._again(BACKOFF_MS)
