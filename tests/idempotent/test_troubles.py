"""Lost connections, concurrent owners, offsets that moved, ids that expire, and tables of other versions."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from moldau.idempotent import (
    BrokenTransactionError,
    MigrationError,
    OffsetAheadError,
    PostgresqlStore,
    Record,
    by_header,
)
from moldau.testing import Cluster
from tests.idempotent.services import GROUP, Database, Service

Start = Callable[..., Service]
TOPIC = "orders"
CONFLUENT = "confluent-kafka"
only_postgresql = pytest.mark.parametrize("database", ["postgresql"], indirect=True)
each_kind_of_offsets = pytest.mark.parametrize("offsets", ["group", "database"])


def write(cluster: Cluster, *values: str, partition: int | None = None) -> None:
    for value in values:
        cluster.produce(TOPIC, value, headers=[("id", value.encode())], partition=partition)


class ForgetfulConnection(psycopg.Connection[Any]):
    """Loses the answer of its first COMMIT: the server has committed."""

    left = 1

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        answer = super().execute(query, params, **options)
        if query == "COMMIT" and ForgetfulConnection.left:
            ForgetfulConnection.left = 0
            self.close()
            raise psycopg.OperationalError("the connection is lost")
        return answer


class ForgetfulDatabase(Database):
    def store(self) -> PostgresqlStore:
        return PostgresqlStore(lambda: ForgetfulConnection.connect(str(self.where)))


@only_postgresql
@each_kind_of_offsets
def test_a_commit_without_an_answer_has_one_effect(cluster: Cluster, database: Database, offsets: str) -> None:
    cluster.create_topic(TOPIC)
    ForgetfulConnection.left = 0
    forgetful = ForgetfulDatabase(database.where)
    service = Service(CONFLUENT, cluster.bootstrap_servers, forgetful, [TOPIC], offsets=offsets, max_records=2)
    write(cluster, "a", "b", "c")

    def forget(connection: Any, record: Record) -> None:
        ForgetfulConnection.left = int(record.offset == 0)

    service.before = forget
    service.poll_until(lambda: len(database.effects()) >= 3 and cluster.lag(GROUP) == 0)
    service.leave()
    assert database.effects() == ["a", "b", "c"]


@only_postgresql
@each_kind_of_offsets
def test_a_lost_connection_is_tried_again(cluster: Cluster, database: Database, start: Start, offsets: str) -> None:
    cluster.create_topic(TOPIC)
    service = start(CONFLUENT, TOPIC, offsets=offsets)
    left = [2]

    def lose(connection: Any, record: Record) -> None:
        if record.value == b"b" and left[0]:
            left[0] -= 1
            database.ask(f"SELECT pg_terminate_backend({connection.info.backend_pid})")

    service.before = lose
    write(cluster, "a", "b", "c")
    service.poll_until(lambda: len(database.effects()) >= 3 and cluster.lag(GROUP) == 0)
    assert (database.effects(), left) == (["a", "b", "c"], [0])


@only_postgresql
def test_a_hidden_error_of_a_statement_is_told(cluster: Cluster, database: Database, start: Start) -> None:
    """PostgreSQL would answer COMMIT with a rollback, and the record would be lost."""
    cluster.create_topic(TOPIC)
    service = start(CONFLUENT, TOPIC)
    write(cluster, "a")
    with pytest.raises(BrokenTransactionError, match="hid its error"):
        service.consumer.run(hide)


def hide(connection: Any, record: Record) -> None:
    try:
        connection.execute("SELECT * FROM missing")
    except psycopg.Error:
        return


@only_postgresql
def test_a_record_that_two_consumers_have_is_handled_once(cluster: Cluster, database: Database, start: Start) -> None:
    cluster.create_topic(TOPIC, partitions=2)
    first, second = (start(CONFLUENT, TOPIC, message_id=by_header("id")) for _ in range(2))
    for _ in range(300):
        if all(len(each.kafka.assignment()) == 1 for each in (first, second)):
            break
        first.poll(0.05)
        second.poll(0.05)
    is_inside, may_end, waited = threading.Event(), threading.Event(), threading.Event()

    def hold(connection: Any, record: Record) -> None:
        if not is_inside.is_set():
            is_inside.set()
            assert may_end.wait(60)

    first.before = second.before = hold
    write(cluster, "twice", partition=0)
    write(cluster, "twice", partition=1)

    def work(service: Service) -> None:
        while not waited.is_set():
            service.poll(0.05)

    done = [threading.Thread(target=work, args=(each,)) for each in (first, second)]
    for thread in done:
        thread.start()
    assert is_inside.wait(60)
    for _ in range(600):
        if database.ask("SELECT 1 FROM pg_locks WHERE NOT granted"):
            break
        waited.wait(0.05)
    may_end.set()
    for _ in range(600):
        if cluster.lag(GROUP) == 0:
            break
        waited.wait(0.05)
    waited.set()
    for thread in done:
        thread.join(60)
    assert database.effects() == ["twice"]


def test_a_consumer_that_lost_its_partition_writes_nothing_twice(
    cluster: Cluster, database: Database, start: Start
) -> None:
    """Two groups with one name stand for an owner that does not know yet that it lost the partition."""
    cluster.create_topic(TOPIC)
    old = start(CONFLUENT, TOPIC, offsets="database", max_records=1)
    write(cluster, *"abcde")
    old.poll_until(lambda: database.effects() == ["a"])
    new = start("kafka-python", TOPIC, offsets="database", group="new owners")
    new.poll_until(lambda: len(database.effects()) == 5)
    write(cluster, "f")
    old.poll_until(lambda: "f" in database.effects())
    assert database.effects() == [*"abcdef"]


def test_a_consumer_follows_a_database_that_lost_its_last_commits(
    cluster: Cluster, database: Database, start: Start
) -> None:
    cluster.create_topic(TOPIC)
    service = start(CONFLUENT, TOPIC, offsets="database")
    write(cluster, *"abc")
    service.poll_until(lambda: len(database.effects()) == 3)
    database.ask("DELETE FROM effects WHERE id <> 'a'")  # as on a standby that takes over
    database.ask("UPDATE moldau_offsets SET next_offset = 1")
    write(cluster, "d")
    service.poll_until(lambda: "d" in database.effects())
    assert database.effects() == [*"abcd"]


def test_a_topic_that_was_made_again_is_told(cluster: Cluster, database: Database, start: Start) -> None:
    cluster.create_topic(TOPIC)
    database.ask(f"INSERT INTO moldau_offsets VALUES ('{GROUP}', '{TOPIC}', 0, 100)")
    write(cluster, "a")
    service = start(CONFLUENT, TOPIC, offsets="database")
    with pytest.raises(OffsetAheadError, match="Was the topic made again"):
        service.poll_until(lambda: False)


def test_ids_expire_by_age_in_bounded_steps(cluster: Cluster, database: Database, start: Start) -> None:
    cluster.create_topic(TOPIC)
    service = start(CONFLUENT, TOPIC, message_id=by_header("id"))
    write(cluster, *"abcdefghij")
    service.poll_until(lambda: len(database.effects()) == 10)
    database.ask("UPDATE moldau_handled SET handled_ms = handled_ms - 7200000")
    store = database.store()
    assert [store.expire_ids(GROUP, timedelta(hours=1), at_most=4) for _ in range(4)] == [4, 4, 2, 0]
    assert store.expire_ids("another consumer", timedelta(0)) == 0


def test_a_consumer_expires_its_ids(cluster: Cluster, database: Database, start: Start) -> None:
    cluster.create_topic(TOPIC)
    service = start(CONFLUENT, TOPIC, message_id=by_header("id"), keep_ids=timedelta(days=1))
    database.ask(f"INSERT INTO moldau_handled VALUES ('{GROUP}', '{TOPIC}', 'x', 1, NULL)")
    write(cluster, "a")
    service.poll_until(lambda: database.effects() == ["a"])
    assert database.ask("SELECT count(*) FROM moldau_handled") == [(1,)]


def test_the_tables_are_made_once(database: Database) -> None:
    threads = [threading.Thread(target=database.store().create_tables) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert database.ask("SELECT version FROM moldau_migrations ORDER BY version") == [(1,), (2,)]


def test_tables_of_a_newer_version_are_refused(database: Database) -> None:
    database.ask("INSERT INTO moldau_migrations VALUES (99, 0)")
    with pytest.raises(MigrationError, match="the tables have version 99"):
        database.store().create_tables()


def test_an_import_brings_no_client_and_no_driver() -> None:
    program = (
        "import sys, moldau.idempotent, moldau.idempotent.asyncio\n"
        "unwanted = {'confluent_kafka', 'kafka', 'aiokafka', 'psycopg', 'aiosqlite', 'pyspark', 'moldau.shell', "
        "'moldau.core', 'moldau.client', 'numpy'}\n"
        "assert not unwanted & set(sys.modules), unwanted & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
