"""Of several writers of one producer only one continues in each partition: two attempts of a task, one believed
lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.transactions import TransactionalProducer
from moldau.columnar import TopicWriter, TransactionalWriter, read_topic
from moldau.columnar.claims import Claim, check_claims
from moldau.errors import KafkaError
from moldau.testing import Cluster
from moldau.transport.access import open_client
from moldau.types import TopicPartition

TOPIC = "orders"
ROWS = [f"row-{number}" for number in range(100)]


@pytest.fixture
def transaction(moldau_own_cluster: Cluster) -> Iterator[TransactionalWriter]:
    moldau_own_cluster.create_topic(TOPIC, partitions=2)
    with TransactionalWriter(moldau_own_cluster.bootstrap_servers, "writer", TOPIC) as made:
        made.begin()
        yield made


@pytest.fixture
def attempt(moldau_own_cluster: Cluster, transaction: TransactionalWriter) -> Iterator[type[TopicWriter]]:
    """`attempt(7)` is a writer of the transaction with this claim."""
    producer, servers = transaction.share(), moldau_own_cluster.bootstrap_servers
    made: list[TopicWriter] = []

    def make(claim: int) -> TopicWriter:
        made.append(TopicWriter(servers, TOPIC, producer=producer, claim=claim))
        return made[-1]

    yield make
    for writer in made:
        writer.close()


def rows(values: Sequence[str], *partitions: int) -> pa.Table:
    chosen = [partitions[number % len(partitions)] for number in range(len(values))]
    return pa.table({"value": list(values), "partition": pa.array(chosen, pa.int32())})


def committed(cluster: Cluster) -> list[str]:
    found = read_topic(cluster.bootstrap_servers, TOPIC)
    return [value.decode() for batch in found for value in batch.column("value").to_pylist()]


def is_refused(write) -> bool:
    with pytest.raises(KafkaError, match="was begun by another writer of this producer") as caught:
        write()
    return caught.value.name == "OUT_OF_ORDER_SEQUENCE_NUMBER"


@pytest.mark.parametrize("ahead", [1, 2, 99, 100])
def test_a_second_attempt_is_refused_however_far_the_first_has_come(moldau_own_cluster, transaction, attempt, ahead):
    first, second = attempt(1), attempt(62)
    first.write(rows(ROWS[:ahead], 0))
    first.flush()
    assert is_refused(lambda: second.write(rows(ROWS[::-1], 0)))
    assert is_refused(second.flush)
    if ahead < len(ROWS):
        first.write(rows(ROWS[ahead:], 0))
    first.flush()
    transaction.commit()
    assert committed(moldau_own_cluster) == ROWS


def test_an_attempt_that_lost_one_partition_writes_no_more_to_the_others(moldau_own_cluster, transaction, attempt):
    first, second = attempt(1), attempt(2)
    first.write(rows(ROWS[:1], 1))
    first.flush()
    assert is_refused(lambda: second.write(rows(ROWS, 0, 1)))
    first.write(rows(ROWS[1:], 1))
    first.flush()
    transaction.abort()
    assert committed(moldau_own_cluster) == []


def test_a_claim_is_seen_by_no_reader(moldau_own_cluster, transaction, attempt):
    writer = attempt(2**40)
    stamped = rows(ROWS, 0, 1).append_column("timestamp", pa.array(range(1_000, 1_100), pa.int64()))
    writer.write(stamped.slice(0, 1))
    writer.write(stamped.slice(1))
    assert {at.record_count for at in writer.flush().values()} == {50}
    transaction.commit()
    found = pa.Table.from_batches(read_topic(moldau_own_cluster.bootstrap_servers, TOPIC))
    times = found.column("timestamp").cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist()
    assert sorted(times) == list(range(1_000, 1_100))
    assert sorted(found.column("value").to_pylist()) == sorted(value.encode() for value in ROWS)


@pytest.mark.parametrize("size", [10, 200_000])
def test_claims_of_any_size_and_compression_are_read_back(moldau_own_cluster, transaction, size):
    servers = moldau_own_cluster.bootstrap_servers
    with TopicWriter(servers, TOPIC, producer=transaction.share(), claim=3, compression="zstd") as writer:
        writer.write(rows(["x" * size, "y" * size, "z"], 0, 1))
    transaction.commit()
    assert sorted(map(len, committed(moldau_own_cluster))) == [1, size, size]


def test_a_topic_in_whose_batches_no_claim_is_left_is_refused(moldau_own_cluster, transaction):
    """Apache Kafka leaves this of a batch that it compresses again: timestamps relative to the first record."""
    producer: TransactionalProducer = transaction.share()
    with TopicWriter(moldau_own_cluster.bootstrap_servers, TOPIC, producer=producer) as writer:
        writer.write(rows(ROWS[:1], 0))
    claim = Claim(producer.producer_id, producer.producer_epoch, 1)
    refused = pytest.raises(KafkaError, match=r"the compression that its compression\.type names")
    with open_client(ClusterAccess(moldau_own_cluster.bootstrap_servers)) as client, refused:
        check_claims(client, {TopicPartition(TOPIC, 0): 0}, claim)


def test_a_claim_is_read_back_from_the_new_leader_where_the_old_one_is_lost():
    with Cluster(brokers=3) as cluster:
        partition = TopicPartition(cluster.topic(), 0)
        cluster.wait_for(topic=partition.topic, isr={1, 2, 3})
        # the broker that answers metadata must stay alive
        alive = next(one for one in (1, 2, 3) if one not in (cluster.leader(partition.topic), cluster.controller))
        servers = cluster.bootstrap_servers.split(",")[alive - 1]
        with (
            TopicWriter(servers, partition.topic, claim=7) as writer,
            open_client(ClusterAccess(servers, retry_timeout_ms=20_000)) as client,
        ):
            writer.write(pa.table({"value": ["first"]}))
            writer.flush()
            killed = client.leader_of(partition).leader_id
            cluster.kill(killed)
            check_claims(client, {partition: 0}, Claim(writer.producer_id, writer.producer_epoch, 7))
            assert client.leader_of(partition).leader_id != killed
