"""Transactions copy a topic while copier and broker are killed with -9; every record must be there once."""

from __future__ import annotations

import queue
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing import history
from tests.exactly_once.copiers import CopierKind
from tests.support.revived_broker import RevivedBroker
from tests.support.talking_process import TalkingProcess

SOURCE, TARGET = "source", "target"
PATIENCE_S = 120.0
"""A copier that is silent for so long has failed."""
TRIES = 2
"""On average over all copiers: a copier that ended before its kill was not killed."""


class Plan(msgspec.Struct, frozen=True):
    """`after_commit_s`: the life of a copier after its first commit."""

    records: int
    copier_kills: int
    broker_kills: int
    seed: int
    kind: CopierKind
    after_commit_s: tuple[float, float] = (0.2, 3.0)
    broker_arguments: tuple[str, ...] = ()


class Campaign:
    """`say` gets lines of progress. The history of fed and copied records is next to the data."""

    def __init__(self, plan: Plan, data_directory: str, say: Callable[[str], None] = lambda line: None) -> None:
        self.plan = plan
        self.say = say
        self.choices = random.Random(plan.seed)
        self.broker = RevivedBroker(Path(data_directory), *plan.broker_arguments)
        self.broker_kills_due = set(self.choices.sample(range(plan.copier_kills), plan.broker_kills))
        """The copiers during whose lives it happens, by the number of kills before."""
        self.copiers_killed = self.copier_deaths = 0
        self.fed = 0
        self.history = Path(data_directory).with_name("history.jsonl")
        self.recorder = history.record(self.history)

    def run(self) -> list[str]:
        """The faults of the copy; empty if every record is there once, in order."""
        plan = self.plan
        lives, first = TRIES * plan.copier_kills, plan.records // 4
        try:
            self.make_topics()
            for number in range(1, lives + 1):
                if self.copiers_killed == plan.copier_kills:
                    break
                # each has something to copy, even after a fast predecessor
                self.feed(first + (plan.records - first) * number // (lives + 1))
                self.one_life()
                if number % 10 == 0:
                    self.say(f"{self.copiers_killed} copiers killed, {self.copier_deaths} ended by themselves")
            self.finish()
            missed = plan.copier_kills - self.copiers_killed
            return [*[f"{missed} copiers were not killed"] * (missed > 0), *self.judge()]
        finally:
            self.close()

    def close(self) -> None:
        self.recorder.close()
        self.broker.stop()

    def make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for future in admin.create_topics(
            [NewTopic(name, self.plan.kind.partitions, 1) for name in (SOURCE, TARGET)]
        ).values():
            future.result(timeout=30)

    def feed(self, end: int) -> None:
        """Writes the records up to number `end` into the source."""
        settings = {"bootstrap.servers": self.broker.address, "linger.ms": 20, "enable.idempotence": True}
        producer = self.recorder.producer(settings)
        for number in range(self.fed, end):
            while True:
                try:
                    producer.produce(SOURCE, b"%d" % number, partition=number % self.plan.kind.partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(PATIENCE_S) == 0
        self.fed = end

    def one_life(self) -> None:
        """Kills a copier some time after its first commit, and the broker in the middle of that time if it is due. Some
        copiers end by themselves when they have copied all records."""
        copier = self.copier()
        seconds, has_committed = self.choices.uniform(*self.plan.after_commit_s), False
        try:
            has_committed = copier.wait_for(self.plan.kind.has_committed, time.monotonic() + PATIENCE_S)
            if has_committed and self.copiers_killed in self.broker_kills_due:
                copier.live_on(seconds / 2)
                self.recorder.fault("kill -9 of the broker")
                self.broker.kill()
                self.broker_kills_due.remove(self.copiers_killed)
                copier.live_on(seconds / 2)
            elif has_committed:
                copier.live_on(seconds)
        except queue.Empty:
            raise AssertionError(f"the copier is silent: {copier.output[-5:]}") from None
        finally:
            self.recorder.fault("kill -9 of the copier")
            is_killed = copier.kill() == -signal.SIGKILL and has_committed
        self.copiers_killed += is_killed
        self.copier_deaths += not is_killed

    def copier(self) -> TalkingProcess:
        command = self.plan.kind.command(self.broker.address, SOURCE, TARGET, "copiers", self.history)
        return TalkingProcess(command)

    def finish(self) -> None:
        """The last copier runs until the end."""
        self.feed(self.plan.records)
        for _ in range(5):
            copier = self.copier()
            try:
                while (line := copier.next_line(time.monotonic() + PATIENCE_S)) is not None:
                    if self.plan.kind.is_at_end(line):
                        return
                self.copier_deaths += 1
            except queue.Empty:
                raise AssertionError(f"the copier does not come to the end: {copier.output[-5:]}") from None
            finally:
                copier.kill()
        raise AssertionError(f"copiers die: {copier.output[-5:]}")

    def judge(self) -> list[str]:
        for _ in self.recorder.read_to_end({"bootstrap.servers": self.broker.address}, [SOURCE, TARGET]):
            pass
        verdict = history.judge(history.HistoryFile(self.history), copies=[history.Copy(SOURCE, TARGET)])
        assert verdict.judged["records acknowledged"] >= self.plan.records
        self.say(str(verdict))
        return [str(finding) for finding in verdict.findings]
