"""What a served pipeline has written."""

from __future__ import annotations

from confluent_kafka import Consumer

from moldau.client.blocking.offsets import committed_offsets
from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.core.commit_metadata import read_commit_metadata
from moldau.transport.access import open_client

START_S = 120.0


def first_value(servers: str, topic: str) -> bytes | None:
    """Waits until the topic has a committed record."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        record = consumer.poll(START_S)
        assert record is not None, f"nothing came within {START_S} s"
        return record.value()
    finally:
        consumer.close()


def board_port(servers: str, name: str) -> int | None:
    """From the cluster, where the pipeline has left it in the transaction of the batch that has been read. The
    transaction may end in the group a moment later than in the topic: `require_stable` waits for it."""
    with open_client(ClusterAccess(servers)) as client:
        committed = committed_offsets(client, f"moldau.{name}", require_stable=True)
    note = read_commit_metadata(position.metadata for position in committed.values()).pipeline
    return note.board_port if note is not None else None
