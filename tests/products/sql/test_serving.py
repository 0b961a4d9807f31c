"""The instances of a service of streaming SQL: one runs the statements, and another one takes over."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.client.protocol.access import ClusterAccess
from moldau.products.compacted_topic import TopicError
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.deciding import Change
from moldau.products.sql.catalog.journal import Journal, StoredChangeError, read_change
from moldau.products.sql.engine.answers import Done
from moldau.products.sql.engine.session import Session
from moldau.products.sql.serving.service import SqlService
from moldau.products.sql.serving.statement_topic import Leader, NotLeadingError, StatementTopic
from tests.support.cluster_under_test import cluster_under_test
from tests.support.sql_services import CatalogEngine
from tests.support.talking_process import line_of, running

pytestmark = pytest.mark.slow

CLICKS = "CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic='c')"
PAGES = "CREATE TABLE pages AS SELECT page, count(*) AS n FROM clicks GROUP BY page"
WAIT_S = 60.0
PAUSE = threading.Event()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with cluster_under_test() as servers:
        yield servers


@pytest.fixture
def service_id(request: pytest.FixtureRequest) -> str:
    return request.node.name[:80]


class Instance:
    """A service in this process. `opened`: its engines, in their order."""

    def __init__(self, servers: str, service_id: str, address: str) -> None:
        self.opened: queue.Queue[CatalogEngine] = queue.Queue()
        self.service = SqlService(ClusterAccess(servers), service_id, address, self._open)
        self.service.start()

    def _open(self, journal: Journal, kept: Sequence[Change]) -> CatalogEngine:
        engine = CatalogEngine(journal, kept)
        self.opened.put(engine)
        return engine

    def leads(self) -> CatalogEngine:
        """Waits until it leads, and gives its engine."""
        return self.opened.get(timeout=WAIT_S)


@contextmanager
def instance(servers: str, service_id: str, address: str = "http://a/") -> Iterator[Instance]:
    found = Instance(servers, service_id, address)
    try:
        yield found
    finally:
        found.service.close()


def run(engine: CatalogEngine, script: str) -> list[str]:
    return [answer.message for answer in engine.execute(script, Session()) if isinstance(answer, Done)]


def make_topic(servers: str, name: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(30)


def keys_in(servers: str, topic: str) -> list[bytes]:
    """Of the committed records."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed"})
    place = TopicPartition(topic, 0, 0)
    consumer.assign([place])
    _, end = consumer.get_watermark_offsets(place, timeout=30)
    found = []
    while consumer.position([place])[0].offset < end - 1:  # the last one is the marker of its transaction
        message = consumer.poll(30)
        assert message is not None
        found.append(message.key())
    consumer.close()
    return found


def test_the_next_leader_has_every_statement_of_the_one_before(servers: str, service_id: str) -> None:
    with instance(servers, service_id) as first:
        engine = first.leads()
        run(engine, f"{CLICKS}; {PAGES}; CREATE STREAM gone AS SELECT * FROM clicks; DROP STREAM gone; PAUSE ALL")
        with instance(servers, service_id, "http://b/") as second:
            first.service.close()
            after = second.leads().catalog
        assert first.service.engine is None
        assert engine.is_closed
    assert after == engine.catalog
    assert (list(after.queries), after.next_number) == (["CTAS_PAGES_0"], 1)


def test_a_statement_is_one_transaction_of_one_record_for_each_item(servers: str, service_id: str) -> None:
    with instance(servers, service_id) as only:
        run(only.leads(), f"{CLICKS}; {PAGES}; TERMINATE ALL")
    made = [b"leader", b"relation/clicks", b"relation/pages", b"query/CTAS_PAGES_0"]
    assert keys_in(servers, f"_moldau_sql_{service_id}") == [*made, b"query/CTAS_PAGES_0", b"next_number"]


@contextmanager
def other_process(servers: str, service_id: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """An instance, and its address."""
    command = [sys.executable, "-m", "tests.support.sql_services", servers, service_id]
    with running(command, stdout=subprocess.PIPE) as process:
        yield process, line_of(process.stdout).strip()


def ask(address: str, script: str) -> tuple[int, Any]:
    """The status and the body of the answer to statements."""
    request = urllib.request.Request(f"{address}ksql", json.dumps({"ksql": script}).encode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_a_stand_by_takes_over_from_a_killed_leader(servers: str, service_id: str) -> None:
    with other_process(servers, service_id) as (leader, first), ExitStack() as stack:
        assert line_of(leader.stdout) == f"runs the statements of {service_id}: 0 queries\n"
        waiting, second = stack.enter_context(other_process(servers, service_id))
        assert ask(first, f"{CLICKS};")[0] == 200
        assert ask(first, f"{PAGES};")[0] == 200
        leader.kill()
        assert line_of(waiting.stdout) == f"runs the statements of {service_id}: 1 queries\n"
        status, body = ask(second, "TERMINATE CTAS_PAGES_0;")
        assert (status, body[0]["commandStatus"]["status"]) == (200, "SUCCESS")
        waiting.terminate()
        assert line_of(waiting.stdout) == f"does not run the statements of {service_id} any more\n"
        assert line_of(waiting.stdout) == "closed\n"
        assert waiting.wait(60) == 0


def test_a_frozen_leader_keeps_nothing_and_steps_down_when_it_goes_on(servers: str, service_id: str) -> None:
    with other_process(servers, service_id) as (leader, address), ExitStack() as stack:
        assert line_of(leader.stdout) == f"runs the statements of {service_id}: 0 queries\n"
        other = stack.enter_context(instance(servers, service_id))
        assert ask(address, f"{CLICKS};")[0] == 200
        leader.send_signal(signal.SIGSTOP)
        engine = other.leads()
        leader.send_signal(signal.SIGCONT)
        status, _ = ask(address, f"{PAGES};")
        assert status in (500, 503)
        assert line_of(leader.stdout) == f"does not run the statements of {service_id} any more\n"
        assert run(engine, PAGES) == ["table pages is made by the query CTAS_PAGES_0"]
        assert other.service.engine is engine


def test_a_stand_by_names_the_leader(servers: str, service_id: str) -> None:
    with instance(servers, service_id, "http://leader:8088/") as first:
        run(first.leads(), CLICKS)
        with other_process(servers, service_id) as (_, address):
            expected = "this instance does not run statements: send it to http://leader:8088/"
            for _ in range(600):
                status, body = ask(address, f"{PAGES};")
                assert status == 503
                if body["message"] == expected:
                    break
                PAUSE.wait(0.1)  # it has not read the topic yet
            assert body["message"] == expected


def test_a_stand_by_knows_the_leader_and_takes_nothing_from_it(servers: str, service_id: str) -> None:
    opened: queue.Queue[str] = queue.Queue()
    with ExitStack() as stack:
        services = {}
        for name in ("a", "b", "c"):

            def open_engine(journal: Journal, kept: Sequence[Change], name: str = name) -> CatalogEngine:
                opened.put(name)
                return CatalogEngine(journal, kept)

            services[name] = SqlService(ClusterAccess(servers), service_id, f"http://{name}/", open_engine)
            stack.callback(services[name].close)
            services[name].start()
        while len(services) > 1:
            leader = opened.get(timeout=WAIT_S)
            assert opened.empty()
            others = [service for name, service in services.items() if name != leader]
            assert {service.engine for service in others} == {None}
            services.pop(leader).close()
        assert opened.get(timeout=WAIT_S) in services


def test_a_fenced_leader_keeps_nothing_and_steps_down(servers: str, service_id: str) -> None:
    with instance(servers, service_id) as first:
        engine = first.leads()
        topic = StatementTopic(ClusterAccess(servers), service_id)
        term = topic.lead(Leader("other", "http://other/"))
        with pytest.raises(NotLeadingError, match="the statement was not run"):
            run(engine, CLICKS)
        assert engine.catalog == Catalog()
        assert term.kept == []
        again = first.leads()  # nobody else is in the group
        assert engine.is_closed
        assert run(again, CLICKS) == ["stream clicks is created"]
        with pytest.raises(NotLeadingError, match="another instance leads now"):
            term.append(term.kept or [read_change(b"type/t", None)])
        topic.close()


def test_a_statement_that_is_too_long_to_be_kept_deposes_nobody(servers: str, service_id: str) -> None:
    with instance(servers, service_id) as only:
        engine = only.leads()
        with pytest.raises(TopicError, match=r"too long to be kept: 9\d{5} bytes, and 900000 are the most"):
            run(engine, CLICKS.replace("(", f"({' ' * 900_000}", 1))
        assert run(engine, CLICKS) == ["stream clicks is created"]
        assert only.service.engine is engine


def test_statements_of_a_later_version_are_left_to_an_instance_that_reads_them(servers: str, service_id: str) -> None:
    with instance(servers, service_id) as only:
        only.leads()
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(f"_moldau_sql_{service_id}", b'{"version":2}', b"type/t")
    assert producer.flush(30) == 0
    topic = StatementTopic(ClusterAccess(servers), service_id)
    with pytest.raises(StoredChangeError, match="has version 2"):
        topic.lead(Leader("other", "http://other/"))
    topic.close()


def test_a_service_id_is_part_of_names(servers: str) -> None:
    for bad in ("", ".", "..", "../a", "a/b", "a b", "ä", "a" * 101):
        with pytest.raises(ValueError, match="a service id has letters"):
            StatementTopic(ClusterAccess(servers), bad)


def test_a_topic_that_would_lose_statements_is_refused(servers: str, service_id: str) -> None:
    make_topic(servers, f"_moldau_sql_{service_id}", {"cleanup.policy": "delete"})
    with pytest.raises(TopicError, match=r"cleanup\.policy=delete, which loses statements"):
        StatementTopic(ClusterAccess(servers), service_id)


def test_an_engine_that_does_not_start_is_tried_again(servers: str, service_id: str) -> None:
    tries: queue.Queue[int] = queue.Queue()
    opened = threading.Event()

    def open_engine(journal: Journal, kept: Sequence[Change]) -> CatalogEngine:
        tries.put(1)
        if tries.qsize() == 1:
            raise TopicError("no room")
        opened.set()
        return CatalogEngine(journal, kept)

    service = SqlService(ClusterAccess(servers), service_id, "http://a/", open_engine)
    service.start()
    try:
        assert opened.wait(WAIT_S)
        assert service.trouble is None
    finally:
        service.close()
