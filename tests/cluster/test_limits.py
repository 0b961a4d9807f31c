"""Rows of the table of bad input that need a broker with other settings: section "Limits", idle connections and the log
of section "Frame and header", `auto.create.topics.enable`, full groups. Each broker has a canary."""

from __future__ import annotations

import gzip
import resource
import select
from pathlib import Path

import pytest

from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
)
from moldau.wire.protocol.messages.groups_classic import HeartbeatRequest
from moldau.wire.protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.hostile_batches import GZIP, batch_of, bomb, record
from tests.support.watched_broker import StartBroker, WatchedBroker, fetch, fill
from tests.support.wire import Closed, RawConnection, request_bytes
from tests.support.wire_groups import join, joined
from tests.support.wire_produce import batch, produce, request_of
from tests.support.wire_topics import create, topic

OTHER_ADDRESS = "127.0.0.9"
"""Not the canary's."""


def is_answered(connection: RawConnection) -> bool:
    """Whether its request is answered, not refused by closing the connection."""
    try:
        connection.receive_frame()
    except Closed:
        return False
    return True


def connect_from(address: str, broker: WatchedBroker) -> RawConnection:
    connection = RawConnection(broker.address, address)
    broker.opened.append(connection)
    return connection


def ask_where_possible(connection: RawConnection) -> None:
    """A request on a connection that may already be closed."""
    try:
        connection.start(MetadataRequest(topics=()), 1)
    except Closed:
        return


def test_connections_of_one_address_over_its_limit_are_closed(start_broker: StartBroker) -> None:
    broker = start_broker(f"max.connections.per.ip.overrides={OTHER_ADDRESS}:3")
    connections = [connect_from(OTHER_ADDRESS, broker) for _ in range(6)]
    for connection in connections:
        ask_where_possible(connection)
    assert [is_answered(connection) for connection in connections] == [True] * 3 + [False] * 3
    broker.connect().assert_alive()
    connections[0].socket.close()
    while True:
        again = connect_from(OTHER_ADDRESS, broker)
        ask_where_possible(again)
        if is_answered(again):
            return


def test_connections_of_one_address_over_its_rate_are_closed(start_broker: StartBroker) -> None:
    broker = start_broker()
    limit = AlterQuotaEntry(
        (AlterQuotaEntity("ip", OTHER_ADDRESS),), (AlterQuotaOperation("connection_creation_rate", 1.0),)
    )
    assert broker.connect().ask(AlterClientQuotasRequest((limit,)), 1).entries[0].error_code == 0
    connections = [connect_from(OTHER_ADDRESS, broker) for _ in range(40)]
    for connection in connections:
        ask_where_possible(connection)
    answered = [is_answered(connection) for connection in connections]
    assert answered[0]
    assert not all(answered)
    broker.connect().assert_alive()


def test_connections_over_the_limit_of_the_broker_wait_for_room(start_broker: StartBroker) -> None:
    broker = start_broker("max.connections=20")
    connections = [broker.connect() for _ in range(25)]
    for connection in connections:
        connection.start(MetadataRequest(topics=()), 1)
    assert is_answered(connections[0])
    for _ in range(100):
        connections[0].assert_alive()  # meanwhile the loop has served all other clients
    waiting = [connection for connection in connections[1:] if not has_bytes(connection)]
    assert len(waiting) >= 5
    served = [connection for connection in connections if connection not in waiting]
    for connection in served:
        connection.socket.close()
    for connection in waiting:
        assert is_answered(connection)


def has_bytes(connection: RawConnection) -> bool:
    return bool(select.select([connection.socket], [], [], 0)[0])


@pytest.mark.slow
def test_an_idle_connection_is_closed_and_a_waiting_one_is_not_idle(start_broker: StartBroker) -> None:
    broker = start_broker("connections.max.idle.ms=2000")
    fill(broker.address, "empty-from-1", 1)
    idle, waiting = broker.connect(), broker.connect()
    idle.assert_alive()
    request = fetch("empty-from-1", 1_000, offset=1, max_wait_ms=6_000)
    correlation_id = waiting.start(request, 12)
    idle.assert_closed()
    assert waiting.finish(request, 12, correlation_id).error_code == 0


def test_topics_are_not_created_where_that_is_switched_off(start_broker: StartBroker) -> None:
    connection = start_broker("auto.create.topics.enable=false").connect()
    request = MetadataRequest(topics=(MetadataRequestTopic(name="wanted"),), allow_auto_topic_creation=True)
    for version in (1, 4, 9, 9):
        assert connection.ask(request, version).topics[0].error_code == 3
    assert "wanted" not in {row.name for row in connection.ask(MetadataRequest(topics=None), 9).topics}


def test_a_group_that_is_full(start_broker: StartBroker) -> None:
    broker = start_broker("group.max.size=1", "group.initial.rebalance.delay.ms=0")
    connection = broker.connect()
    while join(connection, "warm-up").error_code in (14, 15, 16):
        continue
    joined(connection, "small")
    assert join(broker.connect(), "small").error_code == 81


def test_no_stranger_writes_a_line_of_the_log(tmp_path: Path) -> None:
    broker = WatchedBroker(directory=tmp_path / "data")
    forged = "\n2026-01-01 00:00:00 ERROR forged\r\nforged \x1b[31m\0../"
    connection = broker.connect()
    for name in (forged, "../" + forged):
        request = HeartbeatRequest(group_id=name, generation_id=1, member_id=name)
        assert connection.ask(request, 3, client_id=name).error_code in (25, 14, 15, 16)
        assert create(connection, topic(name)) == [17]
    connection.start(request_of(forged, bytes(batch()), acks=0), 9)
    connection.assert_closed()
    connection = broker.connect()
    connection.send_frame(request_bytes(MetadataRequest(topics=()), 9, client_id=forged)[:-2])
    connection.assert_closed()
    broker.finish()
    lines = broker.running.output
    assert any("forged" in line for line in lines)  # logged, but not as a danger
    assert not [line for line in lines if line.startswith(("forged", "2026-01-01")) or "\x1b" in line or "\0" in line]


def test_a_log_directory_that_fails_is_offline_with_56(tmp_path: Path) -> None:
    """Partitions on another directory, such as the canary's, are still served. The failure: files may not grow any
    more."""
    directories = (tmp_path / "data", tmp_path / "second")
    broker = WatchedBroker(directory=Path(",".join(map(str, directories))))
    connection = broker.connect()
    names = [f"victim-{number}" for number in range(4)]
    assert create(connection, *map(topic, names)) == [0] * 4
    asked = tuple(DescribableLogDirTopic(name, (0,)) for name in ("canary", *names))
    home = {
        row.name: result.log_dir
        for result in connection.ask(DescribeLogDirsRequest(asked), 4).results
        for row in result.topics
    }
    victims = [name for name in names if home[name] != home["canary"]]
    assert len(victims) >= 2
    whole = bytes(batch(bytes(900_000)))
    for _ in range(3):
        assert produce(connection, victims[0], whole)[0] == 0
    pid = broker.running.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (3_000_000, before[1]))
    assert produce(connection, victims[0], whole)[0] == 56
    assert produce(connection, victims[1], bytes(batch()))[0] == 56
    (row,) = connection.ask(fetch(victims[1], 1_000), 12).responses
    assert row.partitions[0].error_code == 56
    told = {result.log_dir: result.error_code for result in connection.ask(DescribeLogDirsRequest(None), 4).results}
    assert (told[home[victims[0]]], told[home["canary"]]) == (56, 0)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    assert produce(connection, victims[1], bytes(batch()))[0] == 56
    broker.finish()


@pytest.mark.slow
def test_full_validation_reads_the_records_of_every_topic(start_broker: StartBroker) -> None:
    broker = start_broker("moldau.record.validation=full")
    connection = broker.connect()
    assert create(connection, topic("plain")) == [0]
    assert produce(connection, "plain", batch_of(record(0) + record(1), 2)) == (0, 0)
    for payload, count in ((record(0) + record(7), 2), (record(0), 2), (record(length=1), 1)):
        assert produce(connection, "plain", batch_of(payload, count))[0] == 87
        assert produce(connection, "plain", batch_of(gzip.compress(payload), count, GZIP))[0] == 87
    assert produce(connection, "plain", batch_of(bomb(400), 1, GZIP))[0] == 87
    assert produce(connection, "plain", batch_of(record(0), 1)) == (0, 2)
