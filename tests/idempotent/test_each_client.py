"""Each client and database handles each record once, through a restart of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError, KafkaConnectionError

from moldau.idempotent import by_header
from moldau.idempotent.blocking import run
from moldau.idempotent.clients.kafka_python import KafkaPythonConsuming
from moldau.testing import Cluster
from tests.idempotent.services import CLIENTS, GROUP, Database, Service

each_client = pytest.mark.parametrize("client", CLIENTS)
Start = Callable[..., Service]
TOPIC = "orders"


def write(cluster: Cluster, ids: list[str], topic: str = TOPIC) -> None:
    for id in ids:
        cluster.produce(topic, id, headers=[("id", id.encode())])


@each_client
def test_an_id_that_comes_again_is_skipped(cluster: Cluster, database: Database, start: Start, client: str) -> None:
    cluster.create_topic(TOPIC)
    service = start(client, TOPIC, message_id=by_header("id"))
    write(cluster, ["a", "b", "a", "c", "b"])
    service.poll_until(lambda: cluster.lag(GROUP) == 0 if database.effects() else False)
    assert database.effects() == ["a", "b", "c"]


@each_client
@pytest.mark.parametrize("offsets", ["group", "database"])
def test_a_restart_handles_nothing_twice(
    cluster: Cluster, database: Database, start: Start, client: str, offsets: Any
) -> None:
    cluster.create_topic(TOPIC, partitions=2)
    first = start(client, TOPIC, offsets=offsets)
    write(cluster, [str(number) for number in range(20)])
    first.poll_until(lambda: len(database.effects()) == 20)
    first.leave()
    second = start(client, TOPIC, offsets=offsets)
    write(cluster, ["last"])
    second.poll_until(lambda: "last" in database.effects())
    assert sorted(database.effects()) == sorted([*map(str, range(20)), "last"])


class Failing:
    """A consumer of kafka-python whose polls fail."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def poll(self, **_: object) -> None:
        raise self._error


def test_kafka_python_polls_again_after_an_error_that_passes() -> None:
    """It gives up requests while a broker is down."""
    assert run(KafkaPythonConsuming(Failing(KafkaConnectionError("down"))).poll(0.01, 10)) == []
    with pytest.raises(GroupAuthorizationFailedError):
        run(KafkaPythonConsuming(Failing(GroupAuthorizationFailedError())).poll(0.01, 10))
