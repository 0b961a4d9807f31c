"""Consumers that are killed at a random time after their first batch, again and again, until the last one works to the
end of the topic."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.delivery.counting import Outcome, judge
from tests.delivery.programs import Program, numbers_in
from tests.support.running_broker import RunningBroker

RECORDS_FOR_EACH_KILL = 200
LIFE_S = (0.0, 0.4)
"""How long a program lives after its first batch."""
WAIT_S = 120.0

Say = Callable[[str], None]
Found = Callable[["Consumers", str], list[int]]


class Consumers:
    def __init__(self, broker: RunningBroker, folder: Path, seed: int, say: Say) -> None:
        self._address, self._folder, self._seed, self._say = broker.address, folder, seed, say

    def run(self, kills: int) -> list[Outcome]:
        """All programs at the same time, each with its own topic."""
        self._make_topics(kills * RECORDS_FOR_EACH_KILL)
        with ThreadPoolExecutor(len(PROGRAMS)) as pool:
            return list(pool.map(lambda name: self._lives(name, kills), PROGRAMS))

    def _make_topics(self, records: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._address})
        names = [*PROGRAMS, *(f"{name}-target" for name in PROGRAMS)]
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            future.result(WAIT_S)
        producer = Producer({"bootstrap.servers": self._address, "enable.idempotence": True, "linger.ms": 20})
        for name in PROGRAMS:
            for number in range(records):
                producer.produce(name, b"%d" % number)
            assert producer.flush(WAIT_S) == 0

    def _lives(self, name: str, kills: int) -> Outcome:
        choices = random.Random(f"{self._seed} {name}")
        killed = 0
        while killed < kills:
            program = self._program(name)
            try:
                self._wait_for(lambda: program.has_spoken or program.has_ended, name)  # noqa: B023
                time.sleep(choices.uniform(*LIFE_S))
                assert not program.has_ended, self._output(name).with_suffix(".errors").read_text()[-2_000:]
            finally:
                program.kill()
            killed += 1
            if killed % 10 == 0 or kills < 10:
                self._say(f"{name}: killed {killed} of {kills} times")
        return self._finish(name, kills)

    def _finish(self, name: str, kills: int) -> Outcome:
        """The last life handles the rest."""
        last = kills * RECORDS_FOR_EACH_KILL - 1
        program = self._program(name)
        try:
            found: list[int] = []
            while last not in found:
                seen = len(found)
                self._wait_for(lambda: len(PROGRAMS[name](self, name)) > seen, name, pause_s=0.5)  # noqa: B023
                found = PROGRAMS[name](self, name)
        finally:
            program.kill()
        return judge(name, kills, range(last + 1), PROGRAMS[name](self, name))

    def _program(self, name: str) -> Program:
        more = ("--target", f"{name}-target", "--effects", self.file(name, "txt"), "--database", self.file(name, "db"))
        return Program(name, name, self._address, self._output(name), *map(str, more))

    def _output(self, name: str) -> Path:
        return self.file(name, "out")

    def file(self, name: str, ending: str) -> Path:
        return self._folder / f"{name}.{ending}"

    def lines(self, name: str) -> list[int]:
        """The effects in the file."""
        return list(map(int, self.file(name, "txt").read_text().split()))

    def rows(self, name: str) -> list[int]:
        """The effects in the database."""
        connection = sqlite3.connect(self.file(name, "db"), timeout=WAIT_S)
        try:
            return [number for (number,) in connection.execute("select number from effects")]
        finally:
            connection.close()

    def copies(self, name: str) -> list[int]:
        """The records in the target, for a reader of committed records."""
        return numbers_in(self._address, f"{name}-target")

    def _wait_for(self, condition: Callable[[], bool], name: str, pause_s: float = 0.02) -> None:
        pause, end_s = threading.Event(), time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end_s, (
                f"{name} is silent: {self._output(name).with_suffix('.errors').read_text()}"
            )
            pause.wait(pause_s)


PROGRAMS: dict[str, Found] = {
    "at_most_once": Consumers.lines,
    "at_least_once": Consumers.lines,
    "transactional_copy": Consumers.copies,
    "idempotent_consumer": Consumers.rows,
    "offsets_in_database": Consumers.rows,
}
"""The programs, and where their effects are."""


def run_consumers(folder: Path, kills: int, seed: int, say: Say) -> list[Outcome]:
    broker = RunningBroker("--listen", "127.0.0.1:0", "--data-dir", str(folder / "data"), "--no-console")
    broker.wait_until_ready()
    try:
        return Consumers(broker, folder, seed, say).run(kills)
    finally:
        broker.stop()
