"""Options of Spark's own Kafka connector and of Kafka's consumer that mean nothing here, and what to use instead.

Sources: Spark's "Structured Streaming + Kafka Integration Guide" (4.x), Kafka's consumer configuration.
"""

from __future__ import annotations

CLIENT_PREFIX = "kafka."

_NO_MEMBER = "the source is no member of a group; kafka.group.id names the group that shows its progress"
_RETRIES = "use retryTimeoutMs: how long a lost broker is tried"
_NO_WAITING_FETCH = "a batch ends at known offsets, and no fetch waits for more records"
_BYTES = "keys and values are bytes: cast the columns instead"

# by lower-case name
_CONNECTOR_OPTIONS = {
    "groupidprefix": _NO_MEMBER,
    "kafkaconsumer.polltimeoutms": "use kafka.request.timeout.ms",
    "fetchoffset.numretries": _RETRIES,
    "fetchoffset.retryintervalms": _RETRIES,
}

_CLIENT_OPTIONS = {
    "isolation.level": "use the option isolation: read_committed (the default) or read_uncommitted",
    "auto.offset.reset": "use startingOffsets, and failOnDataLoss for offsets that are gone",
    "enable.auto.commit": "offsets stand in the checkpoint; kafka.group.id names a group that shows them",
    "auto.commit.interval.ms": "offsets stand in the checkpoint; kafka.group.id names a group that shows them",
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "interceptor.classes": "no Java class runs in this source: change the columns of the query instead",
    "metric.reporters": "no Java class runs in this source: use moldau.spark.watch",
    "retries": _RETRIES,
    "retry.backoff.ms": _RETRIES,
    "retry.backoff.max.ms": _RETRIES,
    "reconnect.backoff.ms": _RETRIES,
    "reconnect.backoff.max.ms": _RETRIES,
    "default.api.timeout.ms": _RETRIES,
    "socket.connection.setup.timeout.max.ms": "use kafka.socket.connection.setup.timeout.ms",
    "max.partition.fetch.bytes": "use kafka.fetch.max.bytes",
    "fetch.min.bytes": _NO_WAITING_FETCH,
    "fetch.max.wait.ms": _NO_WAITING_FETCH,
    "max.poll.records": "use maxOffsetsPerTrigger for the size of a micro-batch",
    "max.poll.interval.ms": _NO_MEMBER,
    "session.timeout.ms": _NO_MEMBER,
    "heartbeat.interval.ms": _NO_MEMBER,
    "group.instance.id": _NO_MEMBER,
    "group.protocol": _NO_MEMBER,
    "group.remote.assignor": _NO_MEMBER,
    "partition.assignment.strategy": _NO_MEMBER,
    "allow.auto.create.topics": "the source never creates a topic",
    "exclude.internal.topics": "a pattern matches no internal topic; name such a topic with subscribe",
    "client.rack": "records are fetched from the leader of a partition",
    "metadata.max.age.ms": "partitions are looked up for each micro-batch",
    "connections.max.idle.ms": "a connection stays until the broker closes it, or the process ends",
}

_SECURITY = "connections are plain text so far: TLS and SASL are not built"


def why_refused(name: str) -> str | None:
    """What a stranger's option is refused with; None for a name that neither Spark's connector nor Kafka has."""
    lower = name.lower()
    if not lower.startswith(CLIENT_PREFIX):
        return _CONNECTOR_OPTIONS.get(lower)
    client_name = lower.removeprefix(CLIENT_PREFIX)
    if client_name.startswith(("sasl.", "ssl.")):
        return _SECURITY
    return _CLIENT_OPTIONS.get(client_name)
