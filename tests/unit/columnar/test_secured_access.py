"""Readers and writers of columns with a broker that has TLS and logins."""

from __future__ import annotations

import pyarrow as pa
import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar import TopicWriter, TransactionalWriter, read_topic
from moldau.errors import KafkaError
from moldau.testing import Cluster
from moldau.types import TopicPartition


def test_columns_are_read_and_written_by_a_user_who_logs_in() -> None:
    with Cluster(security="sasl_ssl", users={"alice": "secret"}) as cluster:
        topic, alice = cluster.topic(), cluster.access("alice")
        with TopicWriter(alice, topic) as writer:
            writer.write(pa.table({"value": ["a", "b"]}))
        with TransactionalWriter(alice, "writer", topic) as transactional, transactional.transaction():
            transactional.write(pa.table({"value": ["c"]}))
            transactional.send_offsets("group", {TopicPartition(topic, 0): 1})
        values = [value for batch in read_topic(alice, topic) for value in batch.column("value").to_pylist()]
        assert values == [b"a", b"b", b"c"]
        stranger = ClusterAccess.from_properties(
            {
                **{name: text for name, text in cluster.client_properties("alice").items() if "jaas" not in name},
                "sasl.username": "alice",
                "sasl.password": "wrong",
            }
        )
        with pytest.raises(KafkaError, match="refused the user alice") as refused:
            read_topic(stranger, topic)
        assert "wrong" not in str(refused.value)
