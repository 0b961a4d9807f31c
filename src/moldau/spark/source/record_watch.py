"""Waits for new records of topics, by a Fetch that a broker answers when one arrives."""

from __future__ import annotations

import select
from collections.abc import Mapping

from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.connection import ClientConnection
from moldau.client.protocol.offsets import by_topic
from moldau.columnar.reader import ISOLATION_LEVELS, Isolation
from moldau.errors import KafkaError, kafka_error
from moldau.types import ZERO_UUID, TopicPartition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

FETCH_WAIT_MS = 10_000
"""How long a broker keeps a Fetch without records: it stays in flight over several waits."""
ANSWER_WITHIN_MS = 100
"""For the answer to a Fetch whose offsets are behind the latest ones. Then its connection is given up."""
_FETCH_BY_NAME = 12


class RecordWatch:
    """Waits for records after given offsets, by a Fetch at each leader, which the broker answers when one arrives. A
    Fetch without an answer stays in flight for the next wait. Not thread-safe."""

    def __init__(self, client: ClusterClient, isolation: Isolation) -> None:
        """`client`: its owner closes it after the watch."""
        self._client = client
        self._level = ISOLATION_LEVELS[isolation]
        self._in_flight: dict[int, tuple[ClientConnection, dict[TopicPartition, int]]] = {}

    def wait(self, offsets: Mapping[TopicPartition, int], at_most_ms: int) -> None:
        """Returns after a record, after `at_most_ms`, and after any error, because the next look at the offsets meets
        it too."""
        try:
            self._ask(offsets)
            poller = select.poll()
            leaders = {}
            for leader_id, (connection, _) in self._in_flight.items():
                leaders[connection.fileno()] = leader_id
                poller.register(connection.fileno(), select.POLLIN)
            for descriptor, _ in poller.poll(at_most_ms):
                self._receive(leaders[descriptor])
        except KafkaError:
            self.close()
            for topic in by_topic(offsets):
                self._client.forget(topic)

    def close(self) -> None:
        """Ends the connections with a Fetch in flight."""
        for connection, _ in self._in_flight.values():
            connection.close()
        self._in_flight.clear()

    def _ask(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Has a Fetch in flight at each leader, and no other. Raises KafkaError."""
        leaders = self._client.group_by_leader(offsets)
        for leader_id in [one for one in self._in_flight if one not in leaders]:
            self._in_flight.pop(leader_id)[0].close()
        for leader_id, partitions in leaders.items():
            wanted = {one: offsets[one] for one in partitions}
            if leader_id in self._in_flight and self._in_flight[leader_id][1] != wanted:
                self._end_fetch(leader_id, wanted)
            if leader_id not in self._in_flight:
                self._send(leader_id, wanted)

    def _end_fetch(self, leader_id: int, wanted: dict[TopicPartition, int]) -> None:
        """Takes the answer if records have moved the offsets, because it is here or under way. Raises KafkaError."""
        connection, asked = self._in_flight[leader_id]
        poller = select.poll()
        poller.register(connection.fileno(), select.POLLIN)
        if asked.keys() == wanted.keys() and poller.poll(ANSWER_WITHIN_MS):
            self._receive(leader_id)
        else:
            del self._in_flight[leader_id]
            connection.close()

    def _send(self, leader_id: int, wanted: dict[TopicPartition, int]) -> None:
        client = self._client
        topics = tuple(
            FetchTopic(
                topic=topic,
                topic_id=client.topic(topic).topic_id,
                partitions=tuple(
                    FetchPartition(
                        partition=one.partition,
                        current_leader_epoch=client.leader_of(one).leader_epoch,
                        fetch_offset=wanted[one],
                        partition_max_bytes=1,
                    )
                    for one in partitions
                ),
            )
            for topic, partitions in by_topic(wanted).items()
        )
        connection = client.lend_connection(leader_id)
        has_ids = all(topic.topic_id != ZERO_UUID for topic in topics)
        version = connection.version_of(ApiKey.FETCH, max_version=None if has_ids else _FETCH_BY_NAME)
        self._in_flight[leader_id] = connection, wanted
        wait_ms = min(FETCH_WAIT_MS, connection.request_timeout_ms // 2)
        connection.send(
            FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1, isolation_level=self._level, topics=topics),
            version,
        )

    def _receive(self, leader_id: int) -> None:
        """Raises KafkaError, also for the error of a partition, whose metadata may be old."""
        connection, _ = self._in_flight[leader_id]
        response = connection.receive_message(FetchResponse)
        codes = [row.error_code for topic in response.responses for row in topic.partitions if row.error_code]
        if response.error_code or codes:
            raise kafka_error(response.error_code or codes[0])
        del self._in_flight[leader_id]
        self._client.take_back(leader_id, connection)
