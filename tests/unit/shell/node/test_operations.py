"""/metrics, /live and /ready of a running node: true values, bounded series, escaped names, honest readiness."""

from __future__ import annotations

import asyncio
import http.client
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import pytest_asyncio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.shell.io.clock import SystemClock
from moldau.shell.io.random import SystemRandom
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.workers import ThreadWorkers
from moldau.shell.node.assemble import Node
from moldau.shell.node.metrics.reference_page import reference_page
from moldau.shell.node.metrics.table import AUTHENTICATION, TABLE
from moldau.shell.node.ports import NodePorts
from moldau.shell.node.status import BrokerState
from moldau.transport.http_endpoint import MAX_CONNECTIONS, HttpAnswer, HttpConnection, HttpEndpoint
from moldau.transport.network import TcpNetwork

pytestmark = pytest.mark.asyncio

T = TypeVar("T")
WAIT_S = 30
SAMPLE = re.compile(r'([a-z_0-9]+)(\{(?:[A-Za-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)+\})? (-?[0-9.e+-]+|NaN|\+Inf)', re.ASCII)
ONLY_ON_A_REAL_DISK = {"moldau_open_files", "moldau_open_files_limit"} | {
    row.name for row in TABLE if row.name.startswith("redpanda_storage")
}
ONLY_IN_TROUBLE = {
    "moldau_bound_reached_total",
    "moldau_request_refused_total",
    "moldau_unforeseen_errors_total",
    "moldau_throttled_answers_total",
}
ONLY_WITH_AN_AUDIT_LOG = {
    "moldau_audit_events_total",
    "moldau_audit_dropped_events_total",
    "moldau_audit_refusals_left_out_total",
    "moldau_audit_queue_events",
    "moldau_audit_queue_events_limit",
}
ONLY_WHERE_IT_IS_SET = {
    "moldau_certificate_expiry_days",
    "moldau_issuer_keys",
    "moldau_issuer_key_refreshes_total",
    "moldau_issuer_key_failed_refreshes_total",
    "moldau_listener_connections_limit",
    "moldau_listener_connections_waiting",
    "moldau_listener_connection_creation_rate_limit",
} | ONLY_WITH_AN_AUDIT_LOG
ONLY_WITH_SASL = {name.removesuffix("_count") for name in AUTHENTICATION}


class Running:
    """A node in memory, with clients that block in threads."""

    def __init__(self, workers: ThreadWorkers | None = None, **settings: str) -> None:
        self.disk = MemoryDisk()
        self.workers = workers or ThreadWorkers()
        ports = NodePorts(
            clock=SystemClock(),
            random=SystemRandom(),
            disk=self.disk,
            workers=self.workers,
            network=TcpNetwork(),
        )
        given = {"listeners": "PLAINTEXT://127.0.0.1:0", "moldau.http.listener": "127.0.0.1:0", "log.dirs": "data"}
        self.node = Node(parse_broker_settings(given | settings), ports)

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        assert self.node.operations is not None
        connection = http.client.HTTPConnection(self.node.operations.address, timeout=WAIT_S)
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        status, body = response.status, response.read().decode()
        connection.close()
        return status, body

    async def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        return await asyncio.to_thread(self.get, path, method, **headers)

    async def metrics(self) -> dict[str, float]:
        """Each sample, `name{labels}` to its value; every line must be in the format."""
        status, page = await self.ask("/metrics")
        assert status == 200
        found: dict[str, float] = {}
        for line in page.splitlines():
            if line.startswith("#"):
                continue
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            key = match[1] + (match[2] or "")
            assert key not in found, f"{key} stands twice"
            found[key] = float(match[3])
        return found

    def create(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap_servers})
        for future in admin.create_topics([NewTopic(topic, partitions)]).values():
            future.result(WAIT_S)

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap_servers})
        for future in admin.delete_topics([topic]).values():
            future.result(WAIT_S)

    def produce(self, topic: str, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.node.bootstrap_servers})
        for _ in range(count):
            producer.produce(topic, b"value", partition=0)
        assert producer.flush(WAIT_S) == 0

    def consume_and_commit(self, group: str, topic: str, count: int) -> None:
        consumer = Consumer({"bootstrap.servers": self.node.bootstrap_servers, "group.id": group})
        consumer.assign([TopicPartition(topic, 0, 0)])
        read = 0
        while read < count:
            read += len(consumer.consume(count - read, WAIT_S))
        consumer.commit(offsets=[TopicPartition(topic, 0, count)], asynchronous=False)
        consumer.close()


@pytest_asyncio.fixture
async def running() -> AsyncIterator[Running]:
    running = Running()
    await running.node.start()
    yield running
    await running.node.stop()
    running.workers.close()


async def test_every_metric_of_the_table_is_served(running: Running) -> None:
    await asyncio.to_thread(running.create, "t", 1)
    await asyncio.to_thread(running.produce, "t", 5)
    await asyncio.to_thread(running.consume_and_commit, "g", "t", 3)
    _, connected = await asyncio.open_connection("127.0.0.1", running.node.port)
    found = {key.partition("{")[0].removesuffix("_count") for key in await running.metrics()}
    named = {row.name.removesuffix("_count") for row in TABLE}
    assert named - found == ONLY_ON_A_REAL_DISK | ONLY_IN_TROUBLE | ONLY_WITH_SASL | ONLY_WHERE_IT_IS_SET
    assert found <= named
    connected.close()


async def test_the_values_are_true(running: Running) -> None:
    await asyncio.to_thread(running.create, "t", 2)
    await asyncio.to_thread(running.produce, "t", 5)
    await asyncio.to_thread(running.consume_and_commit, "g", "t", 3)
    metrics = await running.metrics()
    log = running.node.broker.partitions.find("t", 0).log
    traffic = "kafka_server_brokertopicmetrics_"
    assert metrics[f'{traffic}messagesin_total{{topic="t"}}'] == 5
    assert metrics[f'{traffic}bytesin_total{{topic="t"}}'] == log.size_bytes
    assert metrics[f'{traffic}bytesout_total{{topic="t"}}'] >= log.size_bytes
    assert metrics['kafka_log_log_logendoffset{topic="t",partition="0"}'] == 5
    assert metrics['kafka_log_log_logendoffset{topic="t",partition="1"}'] == 0
    assert metrics['kafka_consumergroup_lag{consumergroup="g",topic="t",partition="0"}'] == 2
    assert metrics['kafka_consumergroup_lag_sum{consumergroup="g",topic="t"}'] == 2
    assert metrics["kafka_coordinator_group_groupmetadatamanager_numgroups"] == 1
    assert metrics["kafka_coordinator_group_groupmetadatamanager_numgroupsempty"] == 1
    assert metrics['kafka_server_group_coordinator_metrics_classic_group_count{state="Empty"}'] == 1
    assert metrics["kafka_server_group_coordinator_metrics_offset_count"] == 1
    assert metrics["kafka_server_kafkaserver_brokerstate"] == 3
    assert metrics["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert metrics["kafka_controller_kafkacontroller_globaltopiccount"] == 2
    assert metrics["kafka_server_replicamanager_partitioncount"] == 52
    counts = running.node.dispatcher.request_counts()
    produced = sum(value for key, value in metrics.items() if 'requests_total{request="Produce"' in key)
    assert produced == counts["PRODUCE"] >= 1
    assert metrics['kafka_network_requestmetrics_errors_total{request="CreateTopics",error="NONE"}'] == 1
    assert metrics['kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.50"}'] > 0


async def test_totals_do_not_go_back_when_a_topic_is_deleted(running: Running) -> None:
    await asyncio.to_thread(running.create, "t", 1)
    await asyncio.to_thread(running.produce, "t", 5)
    before = await running.metrics()
    await asyncio.to_thread(running.delete, "t")
    after = await running.metrics()
    assert after["kafka_server_brokertopicmetrics_messagesin_total"] == 5
    name = "kafka_server_brokertopicmetrics_bytesin_total"
    assert after[name] == before[name] > 0
    assert f'{name}{{topic="t"}}' not in after


async def test_foreign_names_cannot_forge_a_line(running: Running) -> None:
    group = 'a"b\\c\nkafka_brokers 99\u202e'
    await asyncio.to_thread(running.create, "t", 1)
    await asyncio.to_thread(running.produce, "t", 1)
    await asyncio.to_thread(running.consume_and_commit, group, "t", 1)
    metrics = await running.metrics()
    assert metrics["kafka_brokers"] == 1
    assert any('a\\"b\\\\c\\nkafka_brokers 99' in key for key in metrics)
    assert not any("\u202e" in key for key in metrics)


async def test_partitions_past_the_bound_are_summed_and_not_listed() -> None:
    running = Running(**{"moldau.metric.partitions": "3"})
    await running.node.start()
    try:
        await asyncio.to_thread(running.create, "t", 10)
        metrics = await running.metrics()
        assert metrics["kafka_server_replicamanager_partitioncount"] == 10
        assert sum(key.startswith("kafka_log_log_size{") for key in metrics) == 3
        assert metrics["moldau_listed_partitions"] == metrics["moldau_listed_partitions_limit"] == 3
    finally:
        await running.node.stop()
        running.workers.close()


async def test_a_bound_that_was_reached_is_named_as_its_setting_is() -> None:
    running = Running(**{"max.connections.per.ip": "1"})
    await running.node.start()
    try:
        _, served = await asyncio.open_connection("127.0.0.1", running.node.port)
        refused, writer = await asyncio.open_connection("127.0.0.1", running.node.port)
        assert await asyncio.wait_for(refused.read(), WAIT_S) == b""
        reached = [key for key in await running.metrics() if key.startswith("moldau_bound_reached_total")]
        assert reached == ['moldau_bound_reached_total{setting="max.connections.per.ip"}']
        served.close()
        writer.close()
    finally:
        await running.node.stop()
        running.workers.close()


async def test_it_is_ready_while_clients_are_served(running: Running) -> None:
    assert await running.ask("/live") == (200, "live\n")
    assert await running.ask("/ready") == (200, "ready\n")


class HeldWorkers(ThreadWorkers):
    """They start no work that `is_held` names until the test says so."""

    def __init__(self, is_held: Callable[[], bool]) -> None:
        super().__init__()
        self._is_held = is_held
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def run(self, work: Callable[[], T]) -> T:
        if self._is_held():
            self.reached.set()
            await self.go_on.wait()
        return await super().run(work)


async def test_it_answers_while_the_logs_are_opened_and_the_broker_is_registered() -> None:
    def is_recovering() -> bool:
        operations = running.node.operations
        return operations is not None and operations.status.state is BrokerState.RECOVERY

    workers = HeldWorkers(is_recovering)
    running = Running(workers)
    starting = asyncio.create_task(running.node.start())
    await workers.reached.wait()
    assert (await running.ask("/live"))[0] == 200
    status, reason = await running.ask("/ready")
    assert (status, reason) == (503, "not ready: the logs are being opened or recovered\n")
    assert (await running.metrics())["kafka_server_kafkaserver_brokerstate"] == 2
    workers.go_on.set()
    await starting
    assert (await running.ask("/ready"))[0] == 200
    await running.node.stop()
    running.workers.close()


async def test_it_takes_reads_of_its_own_host_only(running: Running) -> None:
    assert (await running.ask("/metrics", Host="evil.example"))[0] == 403
    assert (await running.ask("/metrics", Host="127.0.0.1.evil.example:9644"))[0] == 403
    assert (await running.ask("/metrics", Host="localhost:1"))[0] == 200
    assert (await running.ask("/metrics", method="POST"))[0] == 405
    assert (await running.ask("/elsewhere"))[0] == 404
    assert (await running.ask("/live", method="HEAD")) == (200, "")


async def test_a_head_without_an_end_is_refused(running: Running) -> None:
    assert running.node.operations is not None
    host, _, port = running.node.operations.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /live HTTP/1.1\r\n" + b"X-Long: " + b"x" * 9_000)
    assert b" 431 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_who_says_nothing_keeps_out_nobody_who_asks(running: Running) -> None:
    assert running.node.operations is not None
    host, _, port = running.node.operations.address.partition(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(MAX_CONNECTIONS)]
    assert await running.ask("/live") == (200, "live\n")
    assert await asyncio.wait_for(silent[0][0].read(), WAIT_S) == b""
    for _, writer in silent:
        writer.close()


async def test_connections_past_the_bound_are_told_so_where_all_have_asked() -> None:
    all_have_asked, go_on = asyncio.Event(), asyncio.Event()
    asked: list[str] = []

    async def answer(path: str) -> HttpAnswer:
        asked.append(path)
        if len(asked) == MAX_CONNECTIONS:
            all_have_asked.set()
        await go_on.wait()
        return HttpAnswer(200, b"")

    loop = asyncio.get_running_loop()
    endpoint = HttpEndpoint(loop, answer, is_loopback_only=True)
    async with await loop.create_server(lambda: HttpConnection(endpoint), "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        held = [await asyncio.open_connection(host, port) for _ in range(MAX_CONNECTIONS)]
        for _, writer in held:
            writer.write(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(WAIT_S):
            await all_have_asked.wait()
        reader, late = await asyncio.open_connection(host, port)
        assert b" 503 " in await asyncio.wait_for(reader.readline(), WAIT_S)
        go_on.set()
        assert b" 200 " in await asyncio.wait_for(held[0][0].readline(), WAIT_S)
        for writer in (late, *(writer for _, writer in held)):
            writer.close()


async def test_the_reference_page_is_what_the_table_says() -> None:
    written = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"
    assert written.read_text("utf-8") == reference_page(), "run python -m moldau.shell.node.metrics.reference_page"


async def test_a_page_that_cannot_be_made_is_told_at_once(running: Running) -> None:
    def broken() -> tuple[int, int]:
        raise ZeroDivisionError

    running.node.telemetry.held["moldau_request_memory_bytes"] = broken
    assert (await running.ask("/metrics"))[0] == 500
    assert (await running.ask("/live"))[0] == 200
