"""Options of Spark's connector and of Kafka's clients that are rejected, and what to use instead.

Sources: Spark's "Structured Streaming + Kafka Integration Guide" (4.x), Kafka's configuration of its clients.
"""

from __future__ import annotations

from typing import Literal

Side = Literal["source", "sink"]

CLIENT_PREFIX = "kafka."

_NO_MEMBER = "the source is no member of a group; kafka.group.id names the group that shows its progress"
_RETRIES = "use retryTimeoutMs: how long a lost broker is tried"
_NO_WAITING_FETCH = "a batch ends at known offsets, and no fetch waits for more records"
_BYTES = "keys and values are bytes: cast the columns instead"
_SHOWN_OFFSETS = "offsets stand in the checkpoint; kafka.group.id names a group that shows them"
_NO_SHARE_GROUP = "the source is no member of a share group: it reads every record of its partitions"
_NO_CLASS = "no Java class runs here"
_NO_METRICS = "the client has no metrics of Kafka's kind: use moldau.spark.watch"
_BUFFERS = "the kernel sizes the buffers of a socket: set net.ipv4.tcp_rmem and tcp_wmem of the machine"
_ADDRESSES = "every address of a name is tried, in the order of the resolver"
_REBOOTSTRAP = "where no known broker answers, those of kafka.bootstrap.servers are asked again, for retryTimeoutMs"
_SECURITY = (
    "PLAIN, SCRAM and OAUTHBEARER log in, and stores are PEM or PKCS#12: the options of these are "
    "kafka.security.protocol, kafka.ssl.* and kafka.sasl.*, or profile"
)
_ACKNOWLEDGED = "a task is through when all in-sync replicas have acknowledged its records, and a retry doubles none"
_BATCHES = "rows come in batches of columns, and are sent as they come: up to 512 KiB in a record batch"
_PARTITION = "give the rows a column partition; else the key decides, as in Kafka's default partitioner"
_LEVEL = "kafka.compression.type names the codec, which has its default level"

# by lower-case name
_CONNECTOR_OPTIONS: dict[Side, dict[str, str]] = {
    "source": {
        "groupidprefix": _NO_MEMBER,
        "kafkaconsumer.polltimeoutms": "use kafka.request.timeout.ms",
        "fetchoffset.numretries": _RETRIES,
        "fetchoffset.retryintervalms": _RETRIES,
    },
    "sink": {"includeheaders": "a record has headers where the rows have a column headers"},
}

_OF_BOTH = {
    "interceptor.classes": f"{_NO_CLASS}: change the columns of the query instead",
    "metric.reporters": f"{_NO_CLASS}: use moldau.spark.watch",
    "metrics.num.samples": _NO_METRICS,
    "metrics.recording.level": _NO_METRICS,
    "metrics.sample.window.ms": _NO_METRICS,
    "enable.metrics.push": "no client telemetry is sent to brokers: use moldau.spark.watch",
    "config.providers": f"{_NO_CLASS}: a reference such as ${{env:NAME}} needs none",
    "security.providers": _SECURITY,
    "client.dns.lookup": _ADDRESSES,
    "metadata.recovery.strategy": _REBOOTSTRAP,
    "metadata.recovery.rebootstrap.trigger.ms": _REBOOTSTRAP,
    "metadata.max.age.ms": "partitions are looked up for each micro-batch",
    "receive.buffer.bytes": _BUFFERS,
    "send.buffer.bytes": _BUFFERS,
    "retries": _RETRIES,
    "retry.backoff.ms": _RETRIES,
    "retry.backoff.max.ms": _RETRIES,
    "reconnect.backoff.ms": _RETRIES,
    "reconnect.backoff.max.ms": _RETRIES,
    "socket.connection.setup.timeout.max.ms": "use kafka.socket.connection.setup.timeout.ms",
    "connections.max.idle.ms": "a connection stays until the broker closes it, or the process ends",
}

_OF_CONSUMERS = {
    "isolation.level": "use the option isolation: read_committed (the default) or read_uncommitted",
    "auto.offset.reset": "use startingOffsets, and failOnDataLoss for offsets that are gone",
    "enable.auto.commit": _SHOWN_OFFSETS,
    "auto.commit.interval.ms": _SHOWN_OFFSETS,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "default.api.timeout.ms": _RETRIES,
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
    "share.acknowledgement.mode": _NO_SHARE_GROUP,
    "share.acquire.mode": _NO_SHARE_GROUP,
    "allow.auto.create.topics": "the source never creates a topic",
    "exclude.internal.topics": "a pattern matches no internal topic; name such a topic with subscribe",
    "client.rack": "records are fetched from the leader of a partition",
}

_OF_PRODUCERS = {
    "acks": _ACKNOWLEDGED,
    "enable.idempotence": _ACKNOWLEDGED,
    "max.in.flight.requests.per.connection": _ACKNOWLEDGED,
    "linger.ms": _BATCHES,
    "batch.size": _BATCHES,
    "buffer.memory": _BATCHES,
    "max.request.size": f"{_BATCHES}; the topic's max.message.bytes says how large a record may be",
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "delivery.timeout.ms": _RETRIES,
    "max.block.ms": _RETRIES,
    "metadata.max.idle.ms": "a client lives as long as its task",
    "compression.gzip.level": _LEVEL,
    "compression.lz4.level": _LEVEL,
    "compression.zstd.level": _LEVEL,
    "partitioner.class": f"{_NO_CLASS}: {_PARTITION}",
    "partitioner.ignore.keys": _PARTITION,
    "partitioner.adaptive.partitioning.enable": _PARTITION,
    "partitioner.availability.timeout.ms": _PARTITION,
    "transaction.two.phase.commit.enable": "Spark's checkpoint decides whether a batch counts; use delivery",
}

# options that only the other side accepts
_TAKEN_BY: dict[str, Side] = {
    "check.crcs": "source",
    "fetch.max.bytes": "source",
    "compression.type": "sink",
    "transactional.id": "sink",
    "transaction.timeout.ms": "sink",
}


def why_refused(name: str, side: Side) -> str | None:
    """The reason to reject an unknown option of the source or sink; None for a name that neither Spark's connector nor
    Kafka's clients have."""
    lower = name.lower()
    if not lower.startswith(CLIENT_PREFIX):
        return _CONNECTOR_OPTIONS[side].get(lower)
    client_name = lower.removeprefix(CLIENT_PREFIX)
    if client_name.startswith(("sasl.", "ssl.")):
        return _SECURITY
    other: Side = "sink" if side == "source" else "source"
    if _TAKEN_BY.get(client_name) == other:
        return f"it is an option of the {other}"
    own, others = (_OF_CONSUMERS, _OF_PRODUCERS) if side == "source" else (_OF_PRODUCERS, _OF_CONSUMERS)
    reason = own.get(client_name) or _OF_BOTH.get(client_name)
    if reason is None and client_name in others:
        return f"it is for a {'producer' if side == 'source' else 'consumer'}, and this is the {side}"
    return reason
