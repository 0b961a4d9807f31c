"""Tables and offsets written in transactions: a reader sees all of a transaction, or nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from moldau.client.admin.partitions import delete_records
from moldau.client.blocking.offsets import committed_offsets
from moldau.client.protocol.access import ClusterAccess
from moldau.columnar import TopicWriter, TransactionalWriter, read_topic, write_table
from moldau.errors import KafkaError
from moldau.testing import Cluster
from moldau.transport.access import open_admin, open_client
from moldau.types import TopicPartition

TOPIC = "orders"
SOURCE = TopicPartition("source", 0)


def table(*values: str) -> pa.Table:
    return pa.table({"value": list(values)})


def values(cluster: Cluster, topic: str = TOPIC, isolation: str = "read_committed") -> list[str]:
    batches = read_topic(cluster.bootstrap_servers, topic, isolation=isolation)
    return sorted(value.decode() for batch in batches for value in batch.column("value").to_pylist())


def position(cluster: Cluster, group: str) -> int | None:
    with open_client(ClusterAccess(cluster.bootstrap_servers)) as client:
        found = committed_offsets(client, group).get(SOURCE)
    return None if found is None else found.offset


@pytest.fixture
def writer(moldau_own_cluster: Cluster):
    moldau_own_cluster.create_topic(TOPIC, partitions=2)
    moldau_own_cluster.create_topic(SOURCE.topic)
    with TransactionalWriter(moldau_own_cluster.bootstrap_servers, "writer", TOPIC) as made:
        yield made


def test_committed_rows_are_read_and_aborted_ones_are_not(
    moldau_own_cluster: Cluster, writer: TransactionalWriter
) -> None:
    for number, is_kept in enumerate((True, False, True, False)):
        writer.begin()
        writer.write(table(f"{number}-a", f"{number}-b"))
        if is_kept:
            written = writer.commit()
            assert sum(one.record_count for one in written.values()) == 2
        else:
            writer.abort()
    assert values(moldau_own_cluster) == ["0-a", "0-b", "2-a", "2-b"]
    # a reader of uncommitted records sees aborted records, unless the abort overtook them
    assert {"0-a", "0-b", "2-a", "2-b"} <= set(values(moldau_own_cluster, isolation="read_uncommitted"))


def test_a_block_that_raises_aborts(moldau_own_cluster: Cluster, writer: TransactionalWriter) -> None:
    def fail() -> None:
        with writer.transaction():
            writer.write(table("lost"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with writer.transaction():
        writer.write(table("kept"))
    assert values(moldau_own_cluster) == ["kept"]


def test_offsets_count_with_their_transaction(moldau_own_cluster: Cluster, writer: TransactionalWriter) -> None:
    with writer.transaction():
        writer.write(table("a"))
        writer.send_offsets("readers", {SOURCE: 7}, "batch 1")
    assert position(moldau_own_cluster, "readers") == 7
    writer.begin()
    writer.send_offsets("readers", {SOURCE: 9})
    writer.abort()
    assert position(moldau_own_cluster, "readers") == 7


def test_a_transaction_in_which_nothing_was_written_is_no_error(
    moldau_own_cluster: Cluster, writer: TransactionalWriter
) -> None:
    with writer.transaction():
        pass
    writer.begin()
    writer.abort()
    assert values(moldau_own_cluster) == []


def test_an_empty_table_and_no_offsets_are_nothing_to_commit(
    moldau_own_cluster: Cluster, writer: TransactionalWriter
) -> None:
    with writer.transaction():
        writer.write(pa.table({"value": pa.array([], pa.string())}))
        writer.send_offsets("readers", {})
    with writer.transaction():
        writer.write(table("kept"))
    assert values(moldau_own_cluster) == ["kept"]


def test_a_block_whose_records_are_refused_at_its_end_aborts(moldau_own_cluster: Cluster) -> None:
    small = moldau_own_cluster.topic(config={"max.message.bytes": 1_000})

    def write(value: str) -> None:
        with writer.transaction():
            writer.write(table(value))

    with TransactionalWriter(moldau_own_cluster.bootstrap_servers, "small", small) as writer:
        with pytest.raises(KafkaError) as caught:
            write("x" * 5_000)
        assert caught.value.name == "MESSAGE_TOO_LARGE"
        write("kept")
    assert values(moldau_own_cluster, small) == ["kept"]


def test_after_an_abort_that_failed_nothing_joins_its_transaction(moldau_own_cluster: Cluster) -> None:
    topic = moldau_own_cluster.topic()
    with TransactionalWriter(
        ClusterAccess(moldau_own_cluster.bootstrap_servers, retry_timeout_ms=200), "job", topic
    ) as writer:
        writer.begin()
        writer.write(table("lost"))
        producer = writer.share()
        with TopicWriter(moldau_own_cluster.bootstrap_servers, topic, producer=producer) as other:
            other.write(table("lost too"))
        fault = moldau_own_cluster.faults.error("EndTxn", "COORDINATOR_NOT_AVAILABLE", times=None)
        with pytest.raises(KafkaError) as caught:
            writer.abort()
        assert caught.value.name == "COORDINATOR_NOT_AVAILABLE"
        fault.cancel()
        for call in (writer.begin, writer.commit, writer.share, lambda: writer.write(table("late"))):
            with pytest.raises(KafkaError, match="abort again"):
                call()
        writer.abort()
        with writer.transaction():
            writer.write(table("kept"))
    assert values(moldau_own_cluster, topic) == ["kept"]


def test_a_writer_whose_abort_is_refused_for_good_begins_no_other_transaction(moldau_own_cluster: Cluster) -> None:
    topic = moldau_own_cluster.topic()
    with TransactionalWriter(moldau_own_cluster.bootstrap_servers, "job", topic) as writer:
        writer.begin()
        writer.share()
        moldau_own_cluster.faults.error("EndTxn", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
        with pytest.raises(KafkaError):
            writer.abort()
        with pytest.raises(KafkaError, match="make a new writer") as caught:
            writer.begin()
        assert caught.value.name == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    with TransactionalWriter(moldau_own_cluster.bootstrap_servers, "job", topic) as writer, writer.transaction():
        writer.write(table("kept"))
    assert values(moldau_own_cluster, topic) == ["kept"]


def test_several_writers_share_a_transaction(moldau_own_cluster: Cluster, writer: TransactionalWriter) -> None:
    for is_kept, word in ((False, "lost"), (True, "kept")):
        writer.begin()
        producer = writer.share()
        for partition in (0, 1):
            with TopicWriter(moldau_own_cluster.bootstrap_servers, TOPIC, producer=producer) as one:
                one.write(pa.table({"value": [f"{word}-{partition}"], "partition": [partition]}))
        if is_kept:
            writer.commit()
        else:
            writer.abort()
    assert values(moldau_own_cluster) == ["kept-0", "kept-1"]


def test_a_second_writer_fences_the_first(moldau_own_cluster: Cluster, writer: TransactionalWriter) -> None:
    writer.begin()
    writer.write(table("lost"))
    with TransactionalWriter(moldau_own_cluster.bootstrap_servers, "writer", TOPIC) as second, second.transaction():
        second.write(table("kept"))
    with pytest.raises(KafkaError) as caught:
        writer.commit()
    assert caught.value.name in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
    with pytest.raises(KafkaError):
        writer.abort()
    assert values(moldau_own_cluster) == ["kept"]


def test_a_stray_writer_changes_nothing_after_the_abort(
    moldau_own_cluster: Cluster, writer: TransactionalWriter
) -> None:
    writer.begin()
    stray = TopicWriter(moldau_own_cluster.bootstrap_servers, TOPIC, producer=writer.share())
    stray.write(pa.table({"value": ["lost"], "partition": [0]}))
    stray.flush()
    writer.abort()

    def write_late() -> None:
        stray.write(pa.table({"value": ["late"], "partition": [0]}))
        stray.flush()

    with pytest.raises(KafkaError) as caught:
        write_late()
    stray.close()
    assert caught.value.name == "INVALID_PRODUCER_EPOCH"
    with writer.transaction():
        writer.write(table("kept"))
    assert values(moldau_own_cluster) == ["kept"]


def test_calls_out_of_order_are_refused(writer: TransactionalWriter) -> None:
    for call in (writer.commit, writer.share, lambda: writer.write(table("a"))):
        with pytest.raises(KafkaError, match="no transaction is open"):
            call()
    writer.begin()
    with pytest.raises(KafkaError, match="is open"):
        writer.begin()
    writer.abort()


def test_a_topic_is_copied_with_its_position(moldau_own_cluster: Cluster, writer: TransactionalWriter) -> None:
    write_table(moldau_own_cluster.bootstrap_servers, SOURCE.topic, table("a", "b", "c"))
    for batch in read_topic(moldau_own_cluster.bootstrap_servers, SOURCE.topic):
        with writer.transaction():
            writer.write(batch.drop_columns("partition"))
            writer.send_offsets("copier", {SOURCE: batch.column("offset")[-1].as_py() + 1})
    assert values(moldau_own_cluster) == ["a", "b", "c"]
    assert position(moldau_own_cluster, "copier") == 3


def test_all_partitions_of_a_topic_are_copied_and_go_on_where_they_were(moldau_own_cluster: Cluster) -> None:
    servers, source, target = moldau_own_cluster.bootstrap_servers, "three", "copied"
    moldau_own_cluster.create_topic(source, partitions=3)
    moldau_own_cluster.create_topic(target)
    write_table(servers, source, pa.table({"value": ["gone"], "partition": [1]}))
    with open_admin(ClusterAccess(servers, client_id="test")) as admin:
        delete_records(admin, {TopicPartition(source, 1): 1})
    for rows, expected in ((["a", "b"], ["a", "b"]), (["c"], ["a", "b", "c"])):
        write_table(servers, source, pa.table({"value": rows, "partition": list(range(len(rows)))}))
        with TransactionalWriter(servers, "copier-of-three", target) as copier:
            for batch in read_topic(servers, source, start=copier.committed_offsets("copiers", source)):
                with copier.transaction():
                    copier.write(batch.drop_columns("partition"))
                    place = TopicPartition(source, batch.column("partition")[0].as_py())
                    copier.send_offsets("copiers", {place: batch.column("offset")[-1].as_py() + 1})
        assert values(moldau_own_cluster, target) == expected
    with TransactionalWriter(servers, "copier-of-three", target) as copier:
        assert copier.committed_offsets("copiers", source) == {0: 2, 1: 2, 2: -2}
        with pytest.raises(KafkaError, match="there is no topic"):
            copier.committed_offsets("copiers", "nowhere")


def write_all(cluster: Cluster, topic: str, rows: pa.Table) -> None:
    with TopicWriter(cluster.bootstrap_servers, topic) as writer:
        writer.write(rows)


@pytest.mark.parametrize(
    ("config", "row", "refused"),
    [
        ({"max.message.bytes": 1_000}, {"key": "k", "value": "x" * 2_000}, "MESSAGE_TOO_LARGE"),
        ({"cleanup.policy": "compact"}, {"key": None, "value": "x"}, "INVALID_RECORD"),
    ],
)
def test_the_error_of_a_row_names_its_input_record(
    moldau_own_cluster: Cluster, config: dict[str, object], row: dict[str, str | None], refused: str
) -> None:
    target = moldau_own_cluster.topic(config=config)
    rows = [{"key": "k", "value": "y"}, row, {"key": "k", "value": "z"}]
    origin = {"_topic": ["orders"] * 3, "_partition": [4] * 3, "_offset": [16, 17, 18]}
    data = {name: pa.array([one[name] for one in rows], pa.string()) for name in ("key", "value")}
    with pytest.raises(KafkaError, match=r"the input record is orders-4 at offset 17$") as caught:
        write_all(moldau_own_cluster, target, pa.table(data | origin))
    assert caught.value.name == refused


def test_an_unknown_topic_or_partition_is_named_with_the_input_record(moldau_own_cluster: Cluster) -> None:
    there = moldau_own_cluster.topic()
    origin = {"_topic": ["orders"], "_partition": [4], "_offset": [17]}
    with TopicWriter(moldau_own_cluster.bootstrap_servers) as writer:
        with pytest.raises(ValueError, match="has no partition 9; the input record is orders-4 at offset 17"):
            writer.write(pa.table({"value": ["x"], "topic": [there], "partition": [9]} | origin))
        with pytest.raises(KafkaError, match="the input record is orders-4 at offset 17"):
            writer.write(pa.table({"value": ["x"], "topic": ["no such name"]} | origin))
