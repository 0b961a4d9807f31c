"""`make kills-outbox`: kill -9 of writers, relays, database and broker while rows of an outbox leave for a topic.

python -m tests.idempotent.outbox_kills [--records 50000] [--kills 30] [--database sqlite] [--seed N]

The same module is the program that is killed: `--role writer|relay --number N --address HOST:PORT --url DATABASE`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from moldau.idempotent import Outbox, OutboxRelay
from tests.exactly_once.judge import read_committed
from tests.idempotent.kills import Campaign, Plan
from tests.idempotent.ledger import connect, is_postgresql, store_of
from tests.support.postgresql import PostgresqlServer
from tests.support.talking_process import TalkingProcess

TOPIC, PARTITIONS, RELAYS, WRITERS = "orders", 3, 2, 2
ORDERS = "CREATE TABLE orders (writer INTEGER NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (writer, number))"


class OutboxCampaign(Campaign):
    """Writers add an order and its row in one transaction; relays send the rows."""

    PROCESSES = RELAYS + WRITERS

    def statements(self) -> list[str]:
        return [ORDERS]

    def feed(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            future.result(timeout=60)

    def consumer(self, number: int) -> TalkingProcess:
        """A relay, or a writer of its share of the orders."""
        role = ["relay"] if number < RELAYS else ["writer", "--orders", str(self.plan.records // WRITERS)]
        command = [sys.executable, "-m", "tests.idempotent.outbox_kills", "--number", str(number)]
        command += ["--url", self.database, "--address", self.broker.address, "--role", *role]
        return TalkingProcess(command)

    def handled(self) -> int:
        """Orders that left the outbox; -1 while the database does not answer."""
        try:
            connection = connect(self.database)
            try:
                # one statement: a row may leave between two
                statement = "SELECT (SELECT count(*) FROM orders) - (SELECT count(*) FROM moldau_outbox)"
                count: int = connection.execute(statement).fetchone()[0]
            finally:
                connection.close()
        except Exception:
            return -1
        return count

    def judge(self) -> list[str]:
        """Compares the topic with the orders: each once, those of a writer in their order."""
        faults, share = [], self.plan.records // WRITERS
        sent = read_orders(self.broker.address)
        for writer in range(RELAYS, self.PROCESSES):
            numbers = sent.pop(writer, [])
            if numbers != list(range(share)):
                faults.append(
                    f"writer {writer}: {share - len(set(numbers))} of {share} orders are lost, "
                    f"{len(numbers) - len(set(numbers))} repeated, in order: {numbers == sorted(numbers)}"
                )
        return faults + [f"records of unknown writers: {sorted(sent)}"] * bool(sent)


def read_orders(address: str) -> dict[int, list[int]]:
    """The numbers of each writer, as a read_committed consumer gets them."""
    found: dict[int, list[int]] = defaultdict(list)
    for message in read_committed(address, TOPIC, PARTITIONS):
        writer, number = map(int, (message.value() or b"").split())
        found[writer].append(number)
    return found


def write(number: int, orders: int, url: str) -> None:
    """Adds orders, each in a transaction of its own with its row, and waits to be killed."""
    outbox, mark, pause = Outbox(store_of(url), TOPIC), "%s" if is_postgresql(url) else "?", threading.Event()
    while True:
        try:
            connection = connect(url)
            last = connection.execute(f"SELECT max(number) FROM orders WHERE writer = {number}").fetchone()[0]
            for order in range(0 if last is None else last + 1, orders):
                connection.execute("BEGIN" if is_postgresql(url) else "BEGIN IMMEDIATE")
                connection.execute(f"INSERT INTO orders VALUES ({mark}, {mark})", (number, order))
                outbox.add(connection, f"{number} {order}".encode(), key=str(number).encode())
                connection.execute("COMMIT")
            pause.wait(60)
        except Exception as error:  # the database was killed
            print(error, flush=True)
            pause.wait(0.2)


def relay(address: str, url: str) -> None:
    """Sends rows until it is killed."""
    client = {"bootstrap.servers": address, "reconnect.backoff.max.ms": 500}
    OutboxRelay(store_of(url), TOPIC, client, batch=50, lease_s=2.0, patience_s=300.0).run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.idempotent.outbox_kills", description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--database", choices=("postgresql", "sqlite"))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    for name in ("role", "address", "url"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    for name in ("number", "orders"):
        parser.add_argument(f"--{name}", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "writer":
        write(options.number, options.orders, options.url)
    elif options.role == "relay":
        relay(options.address, options.url)
    else:
        return campaigns(options)
    return 0


def campaigns(options: argparse.Namespace) -> int:
    print(f"seed {options.seed}", flush=True)
    broken = 0
    for database in [options.database] if options.database else ["postgresql", "sqlite"]:
        server = PostgresqlServer() if database == "postgresql" else None
        plan = Plan(options.records, options.kills, options.seed, database=database)
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="moldau-kills-") as folder:
                campaign = OutboxCampaign(plan, Path(folder), server, lambda line: print(line, flush=True))
                faults = campaign.run()
        finally:
            if server:
                server.close()
        result = ", ".join(faults) or "each row once, in order"
        print(
            f"{database}: {plan.kills} kills {dict(campaign.killed)}, {plan.records:,} rows, "
            f"{time.monotonic() - began:.0f} s: {result}",
            flush=True,
        )
        broken += bool(faults)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
