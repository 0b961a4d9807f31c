"""Tables go to a broker and come back; ranges end by offsets; a breaking wire loses and duplicates nothing."""

from __future__ import annotations

import random
import threading
import time

import confluent_kafka
import pyarrow as pa
import pytest

from moldau.client.blocking.offsets import commit_offsets, committed_offsets, list_offsets
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from moldau.columnar import (
    TOPIC_SCHEMA,
    DecodeSettings,
    PartitionRange,
    RangeReader,
    ReaderSettings,
    TopicWriter,
    TransactionalWriter,
    read_range,
    read_topic,
    write_table,
)
from moldau.columnar.partitioner import partitions_of_keys
from moldau.columnar.reader import TopicRecreatedError
from moldau.errors import KafkaError
from moldau.testing import Cluster
from moldau.transport.access import open_client
from moldau.types import TopicPartition

NOW_MS = 1_750_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def table_of(count: int, *, keys: bool = True) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([b"key-%d" % (i % 37) if keys and i % 5 else None for i in range(count)], pa.binary()),
            "value": pa.array(
                [None if i % 11 == 0 else b"%d|" % i + b"x" * (i % 90) for i in range(count)], pa.binary()
            ),
            "timestamp": pa.array([NOW_MS + i for i in range(count)], pa.timestamp("ms", tz="UTC")),
            "headers": pa.array(
                [[{"key": "n", "value": b"%d" % i}] if i % 3 == 0 else None for i in range(count)],
                TOPIC_SCHEMA.field("headers").type,
            ),
        }
    )


def read(broker, topic, **choices) -> pa.Table:
    return pa.Table.from_batches(read_topic(broker.bootstrap_servers, topic, **choices), TOPIC_SCHEMA)


# --- there and back ---


@pytest.mark.parametrize("compression", CODECS)
def test_a_table_comes_back_as_it_was_written(broker, compression):
    topic = broker.create_topic()
    table = table_of(5_000)
    written = write_table(broker.bootstrap_servers, topic, table, compression=compression, batch_bytes=30_000)
    (row,) = written.values()
    assert (row.first_offset, row.end_offset, row.record_count) == (0, 5_000, 5_000)
    back = read(broker, topic, batch_bytes=100_000)
    assert back.select(["key", "value", "timestamp", "headers"]).to_pydict() == table.to_pydict()
    assert back["offset"].to_pylist() == list(range(5_000))


def test_keys_decide_the_partition_as_confluent_kafka_decides_it(broker):
    topic = broker.create_topic(7)
    write_table(broker.bootstrap_servers, topic, table_of(2_000).select(["key", "value"]))
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random", "linger.ms": 5}
    )
    for index in range(37):
        producer.produce(topic, key=b"key-%d" % index, value=b"theirs")
    assert producer.flush(30) == 0
    places: dict[bytes, dict[int, None]] = {}
    back = read(broker, topic)
    for key, partition in zip(back["key"].to_pylist(), back["partition"].to_pylist(), strict=True):
        if key is not None:
            places.setdefault(key, {})[partition] = None
    assert len(places) == 37
    assert all(len(partitions) == 1 for partitions in places.values())


def test_records_without_a_key_use_every_partition_and_keep_their_order_within(broker):
    topic = broker.create_topic(3)
    table = pa.table({"value": [b"%06d" % i + b"x" * 94 for i in range(6_000)]})
    with TopicWriter(broker.bootstrap_servers, topic, batch_bytes=20_000) as writer:
        for start in range(0, 6_000, 700):
            writer.write(table.slice(start, 700))
        written = writer.flush()
    assert sorted(written) == [TopicPartition(topic, index) for index in range(3)]
    assert min(row.record_count for row in written.values()) > 1_500
    back = read(broker, topic)
    for partition in range(3):
        values = back.filter(pa.compute.equal(back["partition"], partition))["value"].to_pylist()
        assert values == sorted(values)
    assert sorted(back["value"].to_pylist()) == table["value"].to_pylist()


def test_a_row_may_name_its_partition_and_its_topic(broker):
    one, two = broker.create_topic(3), broker.create_topic(2)
    rows = {
        "topic": [one, two, one, two],
        "partition": pa.array([2, 1, None, 0], pa.int32()),
        "key": pa.array([None, b"k", b"21", b"k"], pa.binary()),
        "value": [b"a", b"b", b"c", b"d"],
    }
    with TopicWriter(broker.bootstrap_servers) as writer:
        writer.write(pa.table(rows))
        with pytest.raises(ValueError, match="no partition 9"):
            writer.write(pa.table({**rows, "partition": [9, 0, 0, 0]}))
        with pytest.raises(ValueError, match="column topic"):
            writer.write(pa.table({"value": [b"a"]}))
        writer.flush()
    assert read(broker, one).select(["partition", "value"]).sort_by("value").to_pydict() == {
        "partition": [2, (-973932308 & 0x7FFFFFFF) % 3],
        "value": [b"a", b"c"],
    }
    assert read(broker, two)["value"].to_pylist() == [b"d", b"b"]


@pytest.mark.parametrize(
    "kind",
    [pa.string_view(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_the_topic_of_a_row_is_text_of_any_kind(broker, kind):
    one, two = broker.create_topic(), broker.create_topic()
    topics = pa.array([one, two, one]).cast(kind)
    with TopicWriter(broker.bootstrap_servers) as writer:
        writer.write(pa.table({"topic": topics, "value": pa.array(["a", "b", "c"]).cast(kind)}))
        with pytest.raises(ValueError, match="column topic is int64"):
            writer.write(pa.table({"topic": [1], "value": ["a"]}))
    assert [read(broker, topic)["value"].to_pylist() for topic in (one, two)] == [[b"a", b"c"], [b"b"]]


def test_a_row_may_name_a_partition_that_was_added_since_the_writer_began(broker):
    topic = broker.create_topic(partitions=2)
    with TopicWriter(broker.bootstrap_servers, topic) as writer:
        writer.write(pa.table({"value": ["before"], "partition": [1]}))
        broker.add_partitions(topic, 3)
        writer.write(pa.table({"value": ["after", "too"], "partition": [2, 0]}))
        assert sorted(writer.flush()) == [TopicPartition(topic, number) for number in range(3)]
        with pytest.raises(ValueError, match=f"topic '{topic}' has no partition 3"):
            writer.write(pa.table({"value": ["wrong"], "partition": [3]}))
        with pytest.raises(ValueError, match=f"topic '{topic}' has no partition -1"):
            writer.write(pa.table({"value": ["wrong"], "partition": [-1]}))


def test_an_answer_about_a_topic_that_was_made_again_since_ends_no_writer(broker):
    topic = broker.create_topic(partitions=1)
    with TopicWriter(broker.bootstrap_servers, topic) as writer:
        writer.write(pa.table({"value": ["before"]}))
        broker.delete_topic(topic)
        broker.create_topic(2, name=topic)
        # the writer reads the topic's metadata again before the response to its first request comes
        writer.write(pa.table({"value": ["after"], "partition": [1]}))
        writer.flush()
    assert read(broker, topic, partitions=[1])["value"].to_pylist() == [b"after"]


def test_rows_without_a_partition_reach_one_that_was_added_since_the_writer_began(broker):
    topic = broker.create_topic(partitions=2)
    with TopicWriter(broker.bootstrap_servers, topic, batch_bytes=1_000) as writer:
        writer.write(pa.table({"value": ["before"] * 200}))
        assert sorted(writer.flush()) == [TopicPartition(topic, number) for number in range(2)]
        broker.add_partitions(topic, 4)
        keys = [b"%d" % number for number in range(50)]
        writer.write(pa.table({"key": [None, *keys], "value": ["x"] * 51, "partition": pa.array([3] + [None] * 50)}))
        writer.write(pa.table({"value": ["after"] * 400}))
        assert sorted(writer.flush()) == [TopicPartition(topic, number) for number in range(4)]
    back = read(broker, topic)
    keyed = back.filter(pa.compute.is_valid(back["key"]))
    assert keyed["partition"].to_pylist() == partitions_of_keys(keyed["key"].combine_chunks(), 4).tolist()
    keyless = back.filter(pa.compute.equal(back["value"], b"after"))
    assert sorted(keyless["partition"].unique().to_pylist()) == [0, 1, 2, 3]


def test_writers_of_a_few_rows_without_a_key_do_not_all_begin_with_one_partition(broker):
    topic = broker.create_topic(partitions=3)
    for _ in range(6):
        write_table(broker.bootstrap_servers, topic, pa.table({"value": ["x"]}))
    assert sorted(read(broker, topic)["partition"].to_pylist()) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("is_transactional", [False, True])
def test_batches_are_made_smaller_where_the_topic_takes_only_small_ones(compression, is_transactional):
    values = [random.Random(number).randbytes(700) for number in range(3_000)]
    with Cluster() as cluster:
        topic = cluster.topic(partitions=2, config={"max.message.bytes": "20000"})
        table = pa.table({"value": values, "partition": [number % 2 for number in range(3_000)]})
        servers, claim = cluster.bootstrap_servers, 5 if is_transactional else 0
        with TransactionalWriter(servers, "outer") as outer:
            outer.begin()
            producer = outer.share() if is_transactional else None
            with TopicWriter(servers, topic, compression=compression, producer=producer, claim=claim) as writer:
                # the broker would accept a second batch as small as this one
                for start, count in ((0, 990), (990, 10), (1_000, 2_000)):
                    writer.write(table.slice(start, count))
                assert {at.record_count for at in writer.flush().values()} == {1_500}
            if is_transactional:
                outer.commit()
            else:
                outer.abort()
        for partition in range(2):
            found = [batch.column("value").to_pylist() for batch in read_topic(servers, topic, partitions=[partition])]
            assert [value for part in found for value in part] == values[partition::2]
        mixed = pa.table({"value": [b"small", b"x" * 30_000, b"small"], "partition": [0, 0, 0]})
        with pytest.raises(KafkaError, match=r"larger than max\.message\.bytes"):
            write_table(servers, topic, mixed)


def test_confluent_kafka_reads_what_is_written_and_the_other_way_round(broker):
    topic = broker.create_topic()
    write_table(broker.bootstrap_servers, topic, table_of(300), compression="lz4")
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd"})
    producer.produce(topic, value=None, key=b"tombstone", headers=[("h", None), ("h", b"2")], timestamp=NOW_MS)
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    messages = []
    while len(messages) < 301:
        messages += consumer.consume(301 - len(messages), timeout=30)
    consumer.close()
    back = read(broker, topic).to_pydict()
    assert [(m.offset(), m.key(), m.value()) for m in messages] == list(
        zip(back["offset"], back["key"], back["value"], strict=True)
    )
    theirs = [
        None if m.headers() is None else [{"key": key, "value": value} for key, value in m.headers()] for m in messages
    ]
    assert back["headers"] == theirs


# --- ranges ---


def test_reading_ends_at_the_offsets_taken_at_the_call(broker):
    topic = broker.create_topic()
    write_table(broker.bootstrap_servers, topic, table_of(100))
    batches = read_topic(broker.bootstrap_servers, topic)
    write_table(broker.bootstrap_servers, topic, table_of(50))
    assert sum(batch.num_rows for batch in batches) == 100


def test_starts_and_ends_are_words_or_offsets_for_each_partition(broker):
    topic = broker.create_topic(2)
    rows = {"partition": pa.array([0, 1] * 50, pa.int32()), "value": [b"%d" % i for i in range(100)]}
    write_table(broker.bootstrap_servers, topic, pa.table(rows))

    def offsets(**choices):
        back = read(broker, topic, **choices)
        pairs = zip(back["partition"].to_pylist(), back["offset"].to_pylist(), strict=True)
        found: dict[int, list[int]] = {}
        for partition, offset in pairs:
            found.setdefault(partition, []).append(offset)
        return found

    assert offsets(start={0: 45, 1: 48}) == {0: list(range(45, 50)), 1: [48, 49]}
    assert offsets(start={0: -2, 1: -1}, end={0: 2, 1: -1}) == {0: [0, 1]}
    assert offsets(start={1: 47}) == {1: [47, 48, 49]}
    assert offsets(end={0: 3}, partitions=[0]) == {0: [0, 1, 2]}
    assert offsets(start="latest") == {}
    assert offsets(partitions=[1], start={1: 49}) == {1: [49]}


@pytest.mark.parametrize(
    "choices",
    [
        {"start": "newest"},
        {"start": {0: -3}},
        {"start": {0: 5}, "end": {0: 2}},
        {"start": {0: 5}, "partitions": [0, 1]},
        {"isolation": "serializable"},
        {"batch_bytes": 0},
    ],
)
def test_wrong_arguments_are_refused_at_the_call(broker, choices):
    topic = broker.create_topic(2)
    with pytest.raises(ValueError):
        read_topic(broker.bootstrap_servers, topic, **choices)


def test_two_ranges_of_a_partition_are_refused(broker):
    ranges = [PartitionRange("t", 0, 0, 3), PartitionRange("t", 1, 0, 3), PartitionRange("t", 0, 6, 9)]
    with pytest.raises(ValueError, match="two ranges of t-0"):
        next(iter(read_range(broker.bootstrap_servers, ranges)))


@pytest.mark.parametrize("name", ["value", "topic", "partition", "_offset"])
def test_a_table_with_two_columns_of_one_name_is_refused(broker, name):
    columns = {"value": [b"a"], "topic": ["t"], "partition": [0], "_offset": [0]}
    names = [*columns, name]
    table = pa.table([pa.array(columns[column]) for column in names], names)
    with (
        TopicWriter(broker.bootstrap_servers, None if name == "topic" else broker.create_topic()) as writer,
        pytest.raises(ValueError, match=f"has 2 columns named {name}"),
    ):
        writer.write(table)


def test_what_does_not_exist_is_refused_at_the_call(broker):
    with pytest.raises(KafkaError, match="nowhere"):
        read_topic(broker.bootstrap_servers, "nowhere")
    topic = broker.create_topic()
    with pytest.raises(KafkaError, match="no partition 5"):
        read_topic(broker.bootstrap_servers, topic, partitions=[5])


def test_a_range_out_of_the_log_is_refused_or_skipped(broker):
    topic = broker.create_topic()
    write_table(broker.bootstrap_servers, topic, table_of(10))
    beyond = PartitionRange(topic, 0, 50, 60)
    with pytest.raises(KafkaError, match="offsets 50 to 59 are not there"):
        list(read_range(broker.bootstrap_servers, beyond))
    assert list(read_range(broker.bootstrap_servers, beyond, ReaderSettings(on_data_loss="skip"))) == []


def test_a_start_behind_the_end_of_the_log_is_refused_or_logged(broker, caplog):
    topic = broker.create_topic(2)
    write_table(broker.bootstrap_servers, topic, pa.table({"value": [b"a"] * 10, "partition": [0] * 10}))
    for start in ({0: 100}, {0: 11, 1: 0}):
        with pytest.raises(KafkaError, match=f"{topic}-0: starts at {start[0]}, but the log ends at 10") as caught:
            read_topic(broker.bootstrap_servers, topic, start=start)
        assert caught.value.name == "OFFSET_OUT_OF_RANGE"
    assert read(broker, topic, start={0: 10}).num_rows == 0
    assert "ends at" not in caplog.text
    assert read(broker, topic, start={0: 100}, on_data_loss="skip").num_rows == 0
    assert f"{topic}-0: starts at 100, but the log ends at 10" in caplog.text


def test_a_start_behind_what_is_committed_is_no_loss(broker):
    topic = broker.create_topic()
    with TransactionalWriter(broker.bootstrap_servers, "open", topic) as writer:
        writer.begin()
        with TopicWriter(broker.bootstrap_servers, topic, producer=writer.share()) as one:
            one.write(table_of(10))
        assert read(broker, topic, start={0: 10}).num_rows == 0
        with pytest.raises(KafkaError, match="the log ends at 10"):
            read_topic(broker.bootstrap_servers, topic, start={0: 11})
        writer.abort()


def test_a_topic_made_again_is_not_taken_for_the_old_one(broker):
    topic = broker.create_topic(name="twice")
    with open_client(ClusterAccess(broker.bootstrap_servers)) as client:
        topic_id = client.topic(topic).topic_id
    broker.delete_topic(topic)
    broker.create_topic(name="twice")
    write_table(broker.bootstrap_servers, topic, table_of(10))
    with pytest.raises(TopicRecreatedError):
        list(read_range(broker.bootstrap_servers, PartitionRange(topic, 0, 0, 10, topic_id)))
    assert sum(b.num_rows for _, b in read_range(broker.bootstrap_servers, PartitionRange(topic, 0, 0, 10))) == 10


def test_a_reader_says_how_far_it_has_come(broker):
    topic = broker.create_topic(2)
    write_table(broker.bootstrap_servers, topic, table_of(2_000))
    with open_client(ClusterAccess(broker.bootstrap_servers)) as client:
        ends = list_offsets(client, {TopicPartition(topic, p): LATEST_TIMESTAMP for p in range(2)})
        ranges = [PartitionRange(topic, p.partition, 0, end) for p, end in ends.items()]
        settings = ReaderSettings(batch_bytes=8_000, decode=DecodeSettings(include_headers=False))
        with RangeReader(client, ranges, settings) as reader:
            rows = dict.fromkeys(ends, 0)
            for partition, batch in reader:
                rows[partition] += batch.num_rows
                assert reader.positions[partition] >= batch["offset"][-1].as_py() + 1
        assert reader.positions == ends
        assert sum(rows.values()) == 2_000


# --- offsets and groups ---


def test_offsets_of_timestamps_and_of_groups(broker):
    topic = broker.create_topic()
    write_table(broker.bootstrap_servers, topic, table_of(100))
    partition = TopicPartition(topic, 0)
    with open_client(ClusterAccess(broker.bootstrap_servers)) as client:
        at = {stamp: list_offsets(client, {partition: stamp})[partition]
              for stamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NOW_MS, NOW_MS + 42, NOW_MS + 100)}  # fmt: skip
        assert list(at.values()) == [0, 100, 0, 42, -1]
        assert committed_offsets(client, "readers") == {}
        commit_offsets(client, "readers", {partition: 42})
        assert committed_offsets(client, "readers")[partition].offset == 42
        assert topic in client.list_topics()


def test_records_deleted_while_a_topic_is_read_are_named_or_left_out(broker):
    topic = broker.create_topic()
    write_table(broker.bootstrap_servers, topic, table_of(10))
    # the start offset is read at the call; the first request is sent when the iterator is used
    strict = read_topic(broker.bootstrap_servers, topic)
    tolerant = read_topic(broker.bootstrap_servers, topic, on_data_loss="skip")
    broker.delete_records(topic, 4)
    with pytest.raises(KafkaError, match=f"{topic}-0: offsets 0 to 3 are gone"):
        list(strict)
    assert [offset for batch in tolerant for offset in batch["offset"].to_pylist()] == list(range(4, 10))


def test_what_is_written_while_a_topic_is_read_is_not_read(broker):
    topic = broker.create_topic()
    write_table(broker.bootstrap_servers, topic, table_of(1_000))
    rows = 0
    for batch in read_topic(broker.bootstrap_servers, topic, batch_bytes=4_000):
        write_table(broker.bootstrap_servers, topic, table_of(10))
        rows += batch.num_rows
    assert rows == 1_000


def test_one_partition_comes_in_answers_as_large_as_the_reader_wants(broker):
    topic = broker.create_topic()
    rows = pa.table({"value": pa.array([b"x" * 1_000] * 6_000, pa.binary())})
    write_table(broker.bootstrap_servers, topic, rows, batch_bytes=200_000)
    # the broker alone would answer with a MiB at a time
    assert [batch.num_rows > 3_000 for batch in read_topic(broker.bootstrap_servers, topic)] == [True, False]


def test_a_reader_of_what_is_not_there_yet_waits_at_the_broker():
    span = PartitionRange("later", 0, 0, 20)
    with Cluster() as cluster:
        cluster.create_topic("later")
        cluster.produce("later", *[b"now"] * 10)
        asked = cluster.faults.delay("Fetch", ms=1, times=None)
        taken: list[tuple[TopicPartition, pa.RecordBatch]] = []
        reading = threading.Thread(
            target=lambda: taken.extend(read_range(cluster.bootstrap_servers, span)), daemon=True
        )
        begin_s = time.monotonic()
        reading.start()
        cluster.wait_for(lambda: asked.times_happened >= 4)
        # the present records, none, and from then on a response after half a second
        assert asked.times_happened <= 3 + (time.monotonic() - begin_s) / 0.4
        cluster.produce("later", *[b"then"] * 10)
        reading.join(30)
    assert [value for _, batch in taken for value in batch["value"].to_pylist()] == [b"now"] * 10 + [b"then"] * 10


def test_a_range_beyond_a_truncated_log_is_lost_after_a_long_silence(broker):
    topic = broker.create_topic(2)
    write_table(broker.bootstrap_servers, topic, pa.table({"value": [b"a"] * 15, "partition": [0] * 10 + [1] * 5}))
    spans = [PartitionRange(topic, 0, 0, 20), PartitionRange(topic, 1, 0, 5)]
    hasty = ClusterAccess(broker.bootstrap_servers, retry_timeout_ms=300)
    with pytest.raises(KafkaError, match=f"{topic}-0: offsets 10 to 19 are not there: the log ends before") as caught:
        list(read_range(hasty, spans))
    assert caught.value.name == "OFFSET_OUT_OF_RANGE"
    tolerant = ReaderSettings(on_data_loss="skip")
    assert sum(batch.num_rows for _, batch in read_range(hasty, spans, tolerant)) == 15


def test_a_range_behind_an_open_transaction_is_waited_for_until_the_transaction_ends(caplog):
    """It reports that once no record has come for `retry_timeout_ms`."""
    span = PartitionRange("held", 0, 0, 11)
    with Cluster() as cluster, TransactionalWriter(cluster.bootstrap_servers, "open", "held") as writer:
        cluster.create_topic("held")
        writer.begin()
        with TopicWriter(cluster.bootstrap_servers, "held", producer=writer.share()) as one:
            one.write(table_of(10))
        asked = cluster.faults.delay("Fetch", ms=1, times=None)
        taken: list[tuple[TopicPartition, pa.RecordBatch]] = []
        hasty = ClusterAccess(cluster.bootstrap_servers, retry_timeout_ms=300)
        reading = threading.Thread(target=lambda: taken.extend(read_range(hasty, span)), daemon=True)
        reading.start()
        cluster.wait_for(lambda: asked.times_happened >= 5 and caplog.messages)
        writer.commit()
        reading.join(30)
    assert sum(batch.num_rows for _, batch in taken) == 10
    (said,) = caplog.messages
    assert said.startswith("held-0: waiting for offset 0 to be committed, in a range up to 11: the transaction")


def test_a_topic_deleted_while_it_is_read_is_said_so(broker):
    topic = broker.create_topic()
    write_table(broker.bootstrap_servers, topic, table_of(10))
    batches = read_topic(ClusterAccess(broker.bootstrap_servers, retry_timeout_ms=200), topic)
    broker.delete_topic(topic)
    with pytest.raises(KafkaError, match=topic):
        list(batches)


# --- a wire that breaks ---


def test_breaks_lose_and_double_nothing(wire):
    relay, broker = wire
    topic = broker.create_topic(3)
    table = table_of(30_000)
    relay.break_every(2_000)  # Produce responses are small
    with TopicWriter(broker.bootstrap_servers, topic, batch_bytes=20_000) as writer:
        for start in range(0, 30_000, 3_000):
            writer.write(table.slice(start, 3_000))
        written = writer.flush()
    assert relay.breaks > 3
    assert sum(row.record_count for row in written.values()) == 30_000
    produced_breaks = relay.breaks
    relay.break_every(300_000)
    back = read(broker, topic, batch_bytes=100_000)
    assert relay.breaks > produced_breaks
    assert back.num_rows == 30_000
    assert back.sort_by("timestamp")["value"].to_pylist() == table["value"].to_pylist()
    for partition in range(3):
        offsets = back.filter(pa.compute.equal(back["partition"], partition))["offset"].to_pylist()
        assert offsets == list(range(len(offsets)))
