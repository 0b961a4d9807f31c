"""`make kills-idempotent`: kill -9 of consumers, database and broker, while payments are handled; each must count once.

python -m tests.idempotent.kills [--records 50000] [--kills 50] [--client aiokafka] [--database sqlite] [--seed N]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.idempotent.ledger import ACCOUNTS, TABLES, TOPIC, connect, payment, store_of
from tests.support.postgresql import PostgresqlServer
from tests.support.revived_broker import RevivedBroker
from tests.support.talking_process import TalkingProcess

CLIENTS = ("confluent-kafka", "aiokafka", "kafka-python")
PARTITIONS, CONSUMERS = 6, 2
PATIENCE_S = 600.0
"""Consumers that handle nothing for so long have failed."""
PAUSE_S = 0.1


class Plan(msgspec.Struct, frozen=True):
    """`database`: postgresql or sqlite. `is_naive`: without the library."""

    records: int
    kills: int
    seed: int
    client: str = "confluent-kafka"
    database: str = "postgresql"
    offsets: str = "group"
    is_naive: bool = False


class Campaign:
    """`say` gets lines of progress. `server` None: the database is SQLite."""

    PROCESSES = CONSUMERS

    def __init__(
        self, plan: Plan, folder: Path, server: PostgresqlServer | None, say: Callable[[str], None] = lambda line: None
    ) -> None:
        self.plan, self.server, self.say = plan, server, say
        self.choices = random.Random(plan.seed)
        self.database = server.url if server else str(folder / "shop.db")
        self.pause = threading.Event()
        self.killed: Counter[str] = Counter()
        settings = ("group.min.session.timeout.ms=1000", "group.initial.rebalance.delay.ms=0")
        arguments = ["--no-console", *(word for setting in settings for word in ("--set", setting))]
        self.broker = RevivedBroker(folder / "data", *arguments)
        self.consumers: list[TalkingProcess] = []

    def run(self) -> list[str]:
        """The faults; empty if each payment counts once, or each row is sent once."""
        try:
            self.make_tables()
            self.feed()
            self.consumers = [self.consumer(number) for number in range(self.PROCESSES)]
            for number in range(1, self.plan.kills + 1):
                self.wait_for(self.plan.records * number // (self.plan.kills + 1))
                self.kill_one()
                if number % 10 == 0:
                    self.say(f"{number} kills {dict(self.killed)}, {self.handled()} payments")
            self.wait_for(self.plan.records)
            return self.judge()
        finally:
            for consumer in self.consumers:
                consumer.kill()
            self.broker.stop()

    def make_tables(self) -> None:
        connection = connect(self.database)
        if self.server:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        for statement in self.statements():
            connection.execute(statement)
        connection.close()
        store_of(self.database).create_tables()

    def statements(self) -> list[str]:
        """They make the tables of the business."""
        return [*TABLES, *(f"INSERT INTO accounts VALUES ({name}, 0)" for name in range(ACCOUNTS))]

    def feed(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            future.result(timeout=60)
        producer = Producer({"bootstrap.servers": self.broker.address, "enable.idempotence": True, "linger.ms": 20})
        for number in range(self.plan.records):
            producer.produce(
                TOPIC, payment(number), partition=number % PARTITIONS, headers=[("id", str(number).encode())]
            )
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0

    def consumer(self, number: int) -> TalkingProcess:
        plan = self.plan
        command = [sys.executable, "-m", "tests.idempotent.ledger", "--client", plan.client, "--offsets", plan.offsets]
        command += ["--database", self.database, "--address", self.broker.address]
        if plan.is_naive:
            # the first ones die between their work and their offsets
            command += ["--naive", *(() if self.consumers else ("--dies-after", "10"))]
        return TalkingProcess(command)

    def handled(self) -> int:
        """Payments that count at least once; -1 while the database does not answer."""
        try:
            connection = connect(self.database)
            try:
                count: int = connection.execute("SELECT count(DISTINCT id) FROM ledger").fetchone()[0]
            finally:
                connection.close()
        except Exception:
            return -1
        return count

    def wait_for(self, count: int) -> None:
        """Until so many payments count. Consumers that ended by themselves are a failure with the library."""
        end_s, best = time.monotonic() + PATIENCE_S, -1
        while (now := self.handled()) < count:
            if now > best:
                end_s, best = time.monotonic() + PATIENCE_S, now
            for number, consumer in enumerate(self.consumers):
                if consumer.live_on(0) is not None:
                    assert self.plan.is_naive, "".join(consumer.output[-30:])
                    consumer.kill()
                    self.consumers[number] = self.consumer(number)
            assert time.monotonic() < end_s, [consumer.output[-10:] for consumer in self.consumers]
            self.pause.wait(PAUSE_S)

    def kill_one(self) -> None:
        victim = self.choices.choice(["consumer", "consumer", "database", "broker"])
        self.pause.wait(self.choices.uniform(0, 0.3))
        if victim == "broker":
            self.broker.kill()
        elif victim == "database" and self.server:
            self.server.kill()
            self.server.start()
        else:
            victim = "consumer"
            number = self.choices.randrange(self.PROCESSES)
            self.consumers[number].kill()
            self.consumers[number] = self.consumer(number)
        self.killed[victim] += 1

    def judge(self) -> list[str]:
        """Compares the tables with the payments."""
        connection = connect(self.database)
        (rows,) = connection.execute("SELECT count(*) FROM ledger").fetchone()
        balances = dict(connection.execute("SELECT name, balance FROM accounts").fetchall())
        connection.close()
        expected: Counter[int] = Counter(dict.fromkeys(range(ACCOUNTS), 0))
        for number in range(self.plan.records):
            expected[number % ACCOUNTS] -= number
            expected[number * 7 % ACCOUNTS] += number
        wrong = [name for name in range(ACCOUNTS) if balances[name] != expected[name]]
        faults = [f"{rows - self.plan.records} payments count twice"] if rows != self.plan.records else []
        return faults + [f"{len(wrong)} of {ACCOUNTS} balances are wrong"] * bool(wrong)


def run(plan: Plan, server: PostgresqlServer | None, say: Callable[[str], None] = lambda line: None) -> list[str]:
    """The faults of one campaign."""
    with tempfile.TemporaryDirectory(prefix="moldau-kills-") as folder:
        return Campaign(plan, Path(folder), server, say).run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.idempotent.kills", description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--client", choices=CLIENTS)
    parser.add_argument("--database", choices=("postgresql", "sqlite"))
    parser.add_argument("--offsets", choices=("group", "database"), default="group")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    broken = 0
    for database in [options.database] if options.database else ["postgresql", "sqlite"]:
        server = PostgresqlServer() if database == "postgresql" else None
        try:
            clients = [options.client] if options.client else [*CLIENTS, "without the library"]
            for client in clients:
                is_naive = client == "without the library"
                known = "confluent-kafka" if is_naive else client
                plan = Plan(options.records, options.kills, options.seed, known, database, options.offsets, is_naive)
                began = time.monotonic()
                faults = run(plan, server, lambda line: print(line, flush=True))
                result = ", ".join(faults) or "each payment counts once, the balances are right"
                print(
                    f"{client}, {database}: {plan.kills} kills, {plan.records:,} payments, "
                    f"{time.monotonic() - began:.0f} s: {result}",
                    flush=True,
                )
                broken += bool(faults) != is_naive
        finally:
            if server:
                server.close()
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
