"""`make kills-sql`: kill -9 of the instances of `moldau sql serve`, and of the broker, while queries run.

python -m tests.spark.sql.kills [--records 500000] [--kills 20] [--seed N]

A stream and a table are made of a topic. At each kill a statement is on its way. In the end the stream has each record
once, the table is right, and the topic of the statements has each statement once.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.support.revived_broker import RevivedBroker
from tests.support.talking_process import TalkingProcess

SERVICE, STATEMENTS_TOPIC = "kills", "_moldau_sql_kills"
PARTITIONS, USERS = 4, 20
PATIENCE_S = 600.0
"""Queries that write nothing for so long have failed."""
PAUSE_S = 0.2
CREATED = (
    f"CREATE STREAM clicks (user STRING KEY, id BIGINT, amount INT) WITH (partitions={PARTITIONS})",
    "CREATE STREAM copies AS SELECT * FROM clicks",
    "CREATE TABLE totals AS SELECT user, count(*) AS n, sum(amount) AS total FROM clicks GROUP BY user",
)


class Plan(msgspec.Struct, frozen=True):
    """`victims`: of these a kill takes one by chance."""

    records: int
    kills: int
    seed: int
    victims: tuple[str, ...] = ("leader", "leader", "stand-by", "broker")


class Instance:
    """A process of `moldau sql serve`."""

    def __init__(self, servers: str, checkpoints: Path) -> None:
        words = ["-b", servers, "--port", "0", "--id", SERVICE, "--checkpoints", str(checkpoints)]
        self.process = TalkingProcess([sys.executable, "-m", "moldau", "sql", "serve", *words])
        self.address = ""

    def wait_until_it_listens(self) -> None:
        assert self.process.wait_for(lambda line: "http" in line, time.monotonic() + PATIENCE_S), self.process.output
        self.address = next(line for line in self.process.output if "http" in line).split()[1]

    def wait_until_it_leads(self) -> float:
        """The seconds until then."""
        began_s = time.monotonic()
        leads = self.process.wait_for(lambda line: "sql runs the statements" in line, began_s + PATIENCE_S)
        assert leads, self.process.output
        return time.monotonic() - began_s


class Campaign:
    """`say` gets lines of progress."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None] = lambda line: None) -> None:
        self.plan, self.say = plan, say
        self.choices = random.Random(plan.seed)
        self.pause = threading.Event()
        self.killed: Counter[str] = Counter()
        self.takeovers: list[float] = []
        self.sent: list[str] = []
        self.checkpoints = folder / "checkpoints"
        self.broker = RevivedBroker(folder / "data", "--no-console", "--set", "group.initial.rebalance.delay.ms=0")
        self.leader = Instance(self.broker.address, self.checkpoints)
        self.waiting = Instance(self.broker.address, self.checkpoints)
        self.copies = Followed(self.broker.address, "copies")
        self.totals = Followed(self.broker.address, "totals")

    def run(self) -> list[str]:
        """The faults; empty if all is right."""
        try:
            for instance in (self.leader, self.waiting):
                instance.wait_until_it_listens()
            self.find_leader()
            for statement in CREATED:
                self.send(statement)
            self.copies.start()
            self.totals.start()
            ends = [self.plan.records * number // self.plan.kills for number in range(self.plan.kills + 1)]
            for number, (first, end) in enumerate(pairwise(ends), 1):
                self.feed(first, end)
                self.kill_one(number)
                self.wait_for(lambda end=end: len(self.copies.ids) >= end, "the stream")  # type: ignore[misc]
                self.say(f"{number} kills {dict(self.killed)}, {len(self.copies.ids)} records, took over in "
                         f"{max(self.takeovers, default=0):.1f} s at most")  # fmt: skip
            self.wait_for(lambda: self.totals.newest == self.expected_totals(), "the table")
            return self.judge()
        finally:
            for followed in (self.copies, self.totals):
                followed.stop()
            for instance in (self.leader, self.waiting):
                instance.process.kill()
            self.broker.stop()

    def find_leader(self) -> None:
        """Either may be chosen first."""
        end_s = time.monotonic() + PATIENCE_S
        while not any("runs the statements" in line for line in self.leader.process.output):
            if any("runs the statements" in line for line in self.waiting.process.output):
                self.leader, self.waiting = self.waiting, self.leader
                return
            assert time.monotonic() < end_s, (self.leader.process.output, self.waiting.process.output)
            self.pause.wait(PAUSE_S)

    def feed(self, first: int, end: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.address, "enable.idempotence": True})
        for number in range(first, end):
            value = json.dumps({"id": number, "amount": number % 7}).encode()
            producer.produce("clicks", value, f"u{number % USERS}".encode(), partition=number % PARTITIONS)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    def kill_one(self, number: int) -> None:
        """A statement is sent at the same time."""
        victim = self.choices.choice(self.plan.victims)
        self.killed[victim] += 1
        sending = threading.Thread(target=self.send, args=(f"CREATE TYPE t{number} AS INT",))
        self.pause.wait(self.choices.uniform(0, 2))
        sending.start()
        self.pause.wait(self.choices.uniform(0, 0.05))
        if victim == "broker":
            self.broker.kill()
        elif victim == "stand-by":
            self.waiting.process.kill()
            self.waiting = self.new_instance(number)
        else:
            self.leader.process.kill()
            self.leader = self.waiting
            self.takeovers.append(self.leader.wait_until_it_leads())
            self.waiting = self.new_instance(number)
        sending.join(PATIENCE_S)
        assert not sending.is_alive()

    def new_instance(self, number: int) -> Instance:
        """In place of a killed one; after the last kill none is needed."""
        if number == self.plan.kills:
            return self.waiting
        instance = Instance(self.broker.address, self.checkpoints)
        instance.wait_until_it_listens()
        return instance

    def send(self, statement: str) -> None:
        """Until an instance has run it. One without an answer may have been kept: then it is there already."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            status, told = ask(self.leader.address, statement)
            if status == 200 or "already" in told:
                self.sent.append(statement)
                return
            assert status in (0, 503) or "does not lead" in told or "leads now" in told, told
            self.pause.wait(PAUSE_S)
        raise AssertionError(f"nobody ran {statement}")

    def wait_for(self, is_so: Callable[[], bool], what: str) -> None:
        best, end_s = -1, time.monotonic() + PATIENCE_S
        while not is_so():
            if (now := self.copies.records + self.totals.records) > best:
                best, end_s = now, time.monotonic() + PATIENCE_S
            assert time.monotonic() < end_s, (what, self.leader.process.output[-5:], self.status())
            self.pause.wait(PAUSE_S)

    def status(self) -> str:
        return ask(self.leader.address, "SHOW QUERIES")[1]

    def expected_totals(self) -> dict[bytes, object]:
        found: dict[bytes, dict[str, int]] = {}
        for number in range(self.plan.records):
            total = found.setdefault(f"u{number % USERS}".encode(), {"n": 0, "total": 0})
            total["n"] += 1
            total["total"] += number % 7
        return {**found}

    def judge(self) -> list[str]:
        faults = []
        twice = [number for number, times in self.copies.ids.items() if times > 1]
        missing = self.plan.records - len(self.copies.ids)
        if twice or missing:
            faults.append(f"the stream lacks {missing} records, and has {len(twice)} more than once: {twice[:5]}")
        statements = Followed(self.broker.address, STATEMENTS_TOPIC)
        statements.start()
        types = [f"type/t{number}".encode() for number in range(1, self.plan.kills + 1)]
        self.wait_for(lambda: statements.keys[types[-1]] > 0, "the statements")
        statements.stop()
        wrong = [(key.decode(), statements.keys[key]) for key in types if statements.keys[key] != 1]
        faults += [f"{key} is there {times} times" for key, times in wrong]
        queries = sorted(key.decode() for key in statements.keys if key.startswith(b"query/"))
        if queries != ["query/CSAS_COPIES_0", "query/CTAS_TOTALS_0"]:
            faults.append(f"the queries are {queries}")
        if len(self.sent) != self.plan.kills + len(CREATED):
            faults.append(f"{len(self.sent)} statements were answered")
        return faults


class Followed:
    """The committed records of a topic, read in a thread."""

    def __init__(self, servers: str, topic: str) -> None:
        self.ids: Counter[int] = Counter()
        self.keys: Counter[bytes] = Counter()
        self.newest: dict[bytes, object] = {}
        self.records = 0
        self._servers, self._topic = servers, topic
        self._is_over = False
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over = True
        if self._thread.is_alive():
            self._thread.join(PATIENCE_S)

    def _read(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        partitions = consumer.list_topics(self._topic, timeout=PATIENCE_S).topics[self._topic].partitions
        consumer.assign([TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in partitions])
        while not self._is_over:
            message = consumer.poll(PAUSE_S)
            if message is None or message.error() is not None:
                continue
            value = json.loads(message.value()) if message.value() else None
            self.keys[message.key()] += 1
            self.newest[message.key()] = value
            if value is not None and "id" in value:
                self.ids[value["id"]] += 1
            self.records += 1
        consumer.close()


def ask(address: str, statement: str) -> tuple[int, str]:
    """The status and the text of the answer; 0 if none came."""
    request = urllib.request.Request(f"{address}ksql", json.dumps({"ksql": f"{statement};"}).encode())
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(arguments.records, arguments.kills, arguments.seed)
        campaign = Campaign(plan, Path(folder), lambda line: print(line, flush=True))
        faults = campaign.run()
    print("\n".join(faults) or f"all is right after {dict(campaign.killed)}", flush=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
