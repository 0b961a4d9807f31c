"""Makes and deletes the topics of statements."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.admin.topics import create_topic, delete_topic
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.catalog.deciding import TopicNeeded
from moldau.products.sql.engine.looking.cluster import ClusterView, LiveCluster
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import Parsed
from moldau.transport.access import open_admin
from moldau.types import nearest

BY_DEFAULT = -1
KNOWN_WITHIN_MS, LOOK_MS = 10_000, 20
"""How long the brokers may take to know of a topic that is made or deleted, and the time between two looks."""


def make_topic(
    needed: TopicNeeded, reads: Iterable[Relation], access: ClusterAccess, cluster: ClusterView, parsed: Parsed
) -> None:
    """Makes the topic unless it exists. `reads`: what the query reads, which gives the number of partitions. Raises
    SqlError if it is missing and is not to be made, and KafkaError."""
    topics = cluster.topics()
    found = topics.get(needed.topic)
    wanted = needed.storage.partitions
    if found is not None:
        if wanted is not None and found.partitions != wanted:
            raise _error(parsed, f"the topic {needed.topic} has {found.partitions} partitions, not {wanted}")
        return
    if not needed.is_made:
        near = nearest(needed.topic, topics)
        raise _error(parsed, f"there is no topic {needed.topic}; `partitions` makes it", near)
    configs = {"cleanup.policy": "compact"} if needed.is_compacted else {}
    if needed.storage.retention_ms is not None:
        configs["retention.ms"] = str(needed.storage.retention_ms)
    read = [topics[one.topic].partitions for one in reads if one.topic in topics]
    with open_admin(access) as admin:
        try:
            create_topic(
                admin,
                needed.topic,
                partitions=wanted or max(read, default=BY_DEFAULT),
                replication_factor=needed.storage.replicas or BY_DEFAULT,
                configs=configs,
            )
        except KafkaError as error:
            if error.name != "TOPIC_ALREADY_EXISTS":
                raise
    _await_change(needed.topic, cluster, is_there=True)


def drop_topic(topic: str, access: ClusterAccess) -> None:
    """Raises KafkaError; not for a topic that is gone already."""
    with open_admin(access) as admin:
        try:
            delete_topic(admin, topic)
        except KafkaError as error:
            if error.name != "UNKNOWN_TOPIC_OR_PARTITION":
                raise
    _await_change(topic, LiveCluster(access), is_there=False)


def _await_change(topic: str, cluster: ClusterView, *, is_there: bool) -> None:
    """Apache Kafka answers when the controller has made or deleted the topic; its brokers know that a little later. The
    next statement, or the query, would see the topic as it was."""
    deadline_ms = cluster.monotonic_ms() + KNOWN_WITHIN_MS
    while (topic in cluster.topics()) is not is_there and cluster.monotonic_ms() < deadline_ms:
        cluster.pause(LOOK_MS)


def _error(parsed: Parsed, problem: str, near: str | None = None) -> SqlError:
    return SqlError(problem, line=parsed.line, column=parsed.column, nearest=near)
