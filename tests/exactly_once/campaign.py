"""A topic is copied by transactions while copier and broker are killed with -9; every record must be there once."""

from __future__ import annotations

import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.core.config.listeners import Endpoint
from moldau.testing.ports import HeldPorts
from tests.exactly_once.copier import AT_END, COMMITTED
from tests.support.running_broker import RunningBroker

SOURCE, TARGET = "source", "target"
PARTITIONS = 3
PATIENCE_S = 120.0
"""A copier that says nothing for so long has failed."""


class Plan(msgspec.Struct, frozen=True):
    """`after_commit_s`: how long after its first commit a copier lives."""

    records: int
    copier_kills: int
    broker_kills: int
    seed: int
    after_commit_s: tuple[float, float] = (0.2, 3.0)
    is_member: bool = False
    broker_arguments: tuple[str, ...] = ()


class CopierProcess:
    """A copier, and what it says."""

    def __init__(self, address: str, group: str, *, is_member: bool) -> None:
        command = [sys.executable, "-m", "tests.exactly_once.copier", address, SOURCE, TARGET, group]
        self._process = subprocess.Popen(
            command + ["--member"] * is_member, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.output: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output.append(line)
            self._lines.put(line.strip())
        self._lines.put(None)

    def wait_for(self, word: str, end_s: float) -> bool:
        """Whether a line that begins with `word` came before the process ended."""
        while True:
            line = self._lines.get(timeout=max(0.0, end_s - time.monotonic()))
            if line is None or line.startswith(word):
                return line is not None

    def live_on(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)
        self._reader.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Campaign:
    """`say` gets a line of progress now and then."""

    def __init__(self, plan: Plan, data_directory: str, say: Callable[[str], None] = lambda line: None) -> None:
        self.plan = plan
        self.say = say
        self.choices = random.Random(plan.seed)
        self.ports = HeldPorts()
        # one port for all lives, as an operator has it: held, so that no connection of a test beside is given it
        (listener,) = self.ports.choose((Endpoint("PLAINTEXT", "127.0.0.1", 0),))
        self.arguments = ["--data-dir", data_directory, "--listen", f"127.0.0.1:{listener.port}"]
        self.arguments += plan.broker_arguments
        self.broker = RunningBroker(*self.arguments).wait_until_ready()
        self.copier_deaths = 0
        self.fed = 0

    def run(self) -> list[str]:
        """What is wrong with the copy; nothing if every record is there once, in order."""
        plan = self.plan
        try:
            self.make_topics()
            broker_kills = set(self.choices.sample(range(plan.copier_kills), plan.broker_kills))
            for number in range(plan.copier_kills):
                self.one_life(is_broker_killed=number in broker_kills)
                if number % 10 == 9:
                    self.say(f"{number + 1} copiers killed, {self.copier_deaths} ended by themselves")
            self.finish()
            return self.judge()
        finally:
            self.broker.stop()
            self.ports.release()

    def make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]).values():
            future.result(timeout=30)

    def feed(self, end: int) -> None:
        """The source gets the records up to number `end`."""
        producer = Producer({"bootstrap.servers": self.broker.address, "linger.ms": 20, "enable.idempotence": True})
        for number in range(self.fed, end):
            while True:
                try:
                    producer.produce(SOURCE, b"%d" % number, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(PATIENCE_S) == 0
        self.fed = end

    def one_life(self, *, is_broker_killed: bool) -> None:
        """A copier is killed some time after its first commit, and the broker in the middle of that time."""
        # each has something to copy, however fast the one before it was
        self.feed(self.fed + self.plan.records // (self.plan.copier_kills + 1))
        copier = self.copier()
        seconds = self.choices.uniform(*self.plan.after_commit_s)
        try:
            if not copier.wait_for(COMMITTED, time.monotonic() + PATIENCE_S):
                self.copier_deaths += 1
                return
            if is_broker_killed:
                copier.live_on(seconds / 2)
                self.broker.kill()
                self.broker = RunningBroker(*self.arguments).wait_until_ready()
            copier.live_on(seconds / 2 if is_broker_killed else seconds)
        except queue.Empty:
            raise AssertionError(f"the copier is silent: {copier.output[-5:]}") from None
        finally:
            copier.kill()

    def copier(self) -> CopierProcess:
        return CopierProcess(self.broker.address, "copiers", is_member=self.plan.is_member)

    def finish(self) -> None:
        """The last copier lives until it has come to the end."""
        self.feed(self.plan.records)
        for _ in range(5):
            copier = self.copier()
            try:
                if copier.wait_for(AT_END, time.monotonic() + PATIENCE_S):
                    return
                self.copier_deaths += 1
            except queue.Empty:
                raise AssertionError(f"the copier does not come to the end: {copier.output[-5:]}") from None
            finally:
                copier.kill()
        raise AssertionError(f"copiers die: {copier.output[-5:]}")

    def judge(self) -> list[str]:
        found = self.read_committed()
        faults = []
        for partition in range(PARTITIONS):
            wanted = list(range(partition, self.plan.records, PARTITIONS))
            if found[partition] != wanted:
                numbers = set(found[partition])
                missing = [number for number in wanted if number not in numbers]
                faults.append(
                    f"partition {partition}: {len(found[partition])} of {len(wanted)} records, "
                    f"{len(found[partition]) - len(numbers)} twice, missing {missing[:5]}"
                )
        return faults

    def read_committed(self) -> dict[int, list[int]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(TARGET, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        left = set(found)
        while left:
            messages = consumer.consume(10_000, timeout=30)
            assert messages, "the target cannot be read to its end"
            for message in messages:
                if message.error() is None:
                    found[message.partition()].append(int(message.value()))
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    left.discard(message.partition())
        consumer.close()
        return found
