"""Rows of an outbox reach their topic once, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.idempotent import Outbox, OutboxError, OutboxRelay
from moldau.idempotent import asyncio as idempotent_asyncio
from moldau.idempotent.blocking import Stoppable, run
from moldau.idempotent.clients.transactions import ConfluentSending
from moldau.idempotent.relaying import Relaying, RelaySettings
from moldau.testing import Cluster
from tests.idempotent.services import Database

TOPIC = "events"


class AsyncRelay:
    """The relay of asyncio, driven as the blocking one."""

    def __init__(self, cluster: Cluster, database: Database, **settings: Any) -> None:
        self.runner = asyncio.Runner()
        settings = {"idle_s": 0.01, **settings}
        self.relay = self.runner.run(self._open(cluster, database, settings))

    async def _open(self, cluster: Cluster, database: Database, settings: dict[str, Any]) -> Any:
        client = {"bootstrap_servers": cluster.bootstrap_servers}
        return idempotent_asyncio.OutboxRelay(database.async_store(), TOPIC, client, **settings)

    def poll(self) -> int:
        return self.runner.run(self.relay.poll())

    def close(self) -> None:
        self.runner.run(self.relay.close())
        self.runner.close()


@pytest.fixture
def relay(cluster: Cluster, database: Database) -> Iterator[Callable[..., Any]]:
    cluster.create_topic(TOPIC)
    made: list[Any] = []

    def make(kind: str = "confluent-kafka", **settings: Any) -> Any:
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        if kind == "aiokafka":
            made.append(AsyncRelay(cluster, database, **settings))
        else:
            made.append(OutboxRelay(database.store(), TOPIC, client, **{"idle_s": 0.01, **settings}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def add(database: Database, *values: str) -> None:
    outbox, connection = Outbox(database.store(), TOPIC), database.connect()
    connection.execute("BEGIN")
    for value in values:
        outbox.add(connection, value.encode(), key=b"k", headers=[("id", value.encode())])
    connection.execute("COMMIT")
    connection.close()


def sent(cluster: Cluster) -> list[str]:
    return [(record.value or b"").decode() for record in cluster.records(TOPIC)]


def poll_until(relay: Any, condition: Callable[[], bool], tries: int = 200) -> None:
    for _ in range(tries):
        if condition():
            return
        relay.poll()
    raise AssertionError("not reached")


@pytest.mark.parametrize("kind", ["confluent-kafka", "aiokafka"])
def test_rows_leave_in_order_and_are_deleted(cluster: Cluster, database: Database, relay: Any, kind: str) -> None:
    one = relay(kind, batch=4)
    wanted = [str(number) for number in range(10)]
    add(database, *wanted)
    poll_until(one, lambda: database.ask("SELECT count(*) FROM moldau_outbox") == [(0,)])
    assert sent(cluster) == wanted
    assert next(iter(cluster.records(TOPIC))).headers == [("id", b"0")]


def test_a_row_that_is_rolled_back_does_not_leave(cluster: Cluster, database: Database, relay: Any) -> None:
    outbox, connection = Outbox(database.store(), TOPIC), database.connect()
    connection.execute("BEGIN")
    outbox.add(connection, b"never")
    connection.execute("ROLLBACK")
    connection.close()
    add(database, "one")
    poll_until(relay(), lambda: bool(sent(cluster)))
    assert sent(cluster) == ["one"]


@pytest.mark.parametrize("kind", ["confluent-kafka", "aiokafka"])
def test_a_relay_that_died_after_its_commit_repeats_nothing(
    cluster: Cluster, database: Database, relay: Any, kind: str
) -> None:
    first = relay(kind, lease_s=0.0)
    add(database, "a", "b")
    poll_until(first, lambda: sent(cluster) == ["a", "b"])
    # the first relay never deletes them: another one takes the outbox
    assert database.ask("SELECT count(*) FROM moldau_outbox") == [(2,)]
    add(database, "c")
    second = relay(kind, lease_s=0.0)
    poll_until(second, lambda: database.ask("SELECT count(*) FROM moldau_outbox") == [(0,)])
    assert sent(cluster) == ["a", "b", "c"]


class LateSending(ConfluentSending):
    """Something happens before it opens, as if that took long."""

    def __init__(self, cluster: Cluster, meanwhile: Callable[[], None]) -> None:
        super().__init__({"bootstrap.servers": cluster.bootstrap_servers})
        self._meanwhile = meanwhile

    async def open(self, name: str, topic: str) -> int | None:
        self._meanwhile()
        return await super().open(name, topic)


def test_a_relay_whose_lease_ends_while_it_opens_knows_what_another_one_sent(
    cluster: Cluster, database: Database, relay: Any
) -> None:
    first = relay(lease_s=0.0)
    add(database, "a", "b")
    sending = LateSending(cluster, lambda: poll_until(first, lambda: sent(cluster) == ["a", "b"]))
    late = Relaying(RelaySettings(TOPIC, 500, 0.01, 0.0, 60.0), database.store().session(), sending, Stoppable())
    assert run(late.round()) == 0, "it deletes what was sent"
    assert database.ask("SELECT count(*) FROM moldau_outbox") == [(0,)]
    run(late.drop())


def test_a_relay_that_another_one_follows_while_it_opens_leaves_it_the_outbox(
    cluster: Cluster, database: Database, relay: Any
) -> None:
    first = relay(lease_s=60.0)
    add(database, "a")
    sending = LateSending(cluster, lambda: poll_until(first, lambda: sent(cluster) == ["a"]))
    late = Relaying(RelaySettings(TOPIC, 500, 0.01, 0.0, 60.0), database.store().session(), sending, Stoppable())
    assert run(late.round()) == 0
    run(late.drop())
    add(database, "b")
    poll_until(first, lambda: sent(cluster) == ["a", "b"])


def test_a_second_relay_waits_for_the_holder(cluster: Cluster, database: Database, relay: Any) -> None:
    first, second = relay(), relay()
    add(database, "a")
    poll_until(first, lambda: sent(cluster) == ["a"])
    add(database, "b")
    assert second.poll() == 0
    poll_until(first, lambda: sent(cluster) == ["a", "b"])


def test_two_relays_that_take_turns_send_each_row_once(cluster: Cluster, database: Database, relay: Any) -> None:
    """Without leases each fences the other at every turn."""
    both = [relay(lease_s=0.0, batch=1, patience_s=60.0) for _ in range(2)]
    wanted = [str(number) for number in range(6)]
    add(database, *wanted)
    for turn in range(200):
        if len(sent(cluster)) == len(wanted):
            break
        both[turn % 2].poll()
    poll_until(both[0], lambda: database.ask("SELECT count(*) FROM moldau_outbox") == [(0,)])
    assert sent(cluster) == wanted


def test_rows_of_concurrent_writers_are_all_sent(cluster: Cluster, database: Database, relay: Any) -> None:
    """A row with a low id may be committed after rows with higher ids are sent."""
    if not database.is_postgresql:
        add(database, "late", "early")  # SQLite has one writer at a time
        poll_until(relay(), lambda: len(sent(cluster)) == 2)
        return
    outbox, slow = Outbox(database.store(), TOPIC), database.connect()
    slow.execute("BEGIN")
    outbox.add(slow, b"late")  # has the first id
    add(database, "early")
    one = relay()
    poll_until(one, lambda: sent(cluster) == ["early"])
    slow.execute("COMMIT")
    slow.close()
    poll_until(one, lambda: len(sent(cluster)) == 2)
    assert sent(cluster) == ["early", "late"]


def test_each_writer_keeps_its_order(cluster: Cluster, database: Database, relay: Any) -> None:
    def write(name: str) -> None:
        for number in range(20):
            add(database, f"{name}{number}")

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    poll_until(relay(batch=7), lambda: len(sent(cluster)) == 60, tries=2000)
    for writer in writers:
        writer.join(60)
    for name in "abc":
        assert [value for value in sent(cluster) if value[0] == name] == [f"{name}{number}" for number in range(20)]


def test_an_older_copy_of_the_database_is_refused(cluster: Cluster, database: Database, relay: Any) -> None:
    first = relay()
    add(database, "a")
    poll_until(first, lambda: database.ask("SELECT count(*) FROM moldau_outbox") == [(0,)] and sent(cluster) == ["a"])
    first.close()
    database.ask("UPDATE moldau_outboxes SET batch = 0, held_until_ms = 0")
    with pytest.raises(OutboxError, match="older copy"):
        relay().poll()
