"""`format("moldau")` for reading, against a broker: columns, offsets, limits, losses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from moldau.spark.source import reading

CONNECTOR_SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
)


@pytest.fixture
def reader(spark, bootstrap_servers):
    """`reader(subscribe=...)` gives a batch DataFrame, with `stream=True` a streaming one."""

    def make(*, stream: bool = False, **options):
        source = (spark.readStream if stream else spark.read).format("moldau")
        source = source.option("kafka.bootstrap.servers", bootstrap_servers)
        for name, value in options.items():
            source = source.option(name, value)
        return source.load()

    return make


def run_once(frame, checkpoint: Path) -> list[dict]:
    """Runs a stream over all present records; gives the progress of every batch that read something."""
    query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = query.start()
    query.awaitTermination()
    return [progress for progress in query.recentProgress if progress["numInputRows"] > 0]


def end_offset(progress) -> dict:
    return json.loads(progress["sources"][0]["endOffset"].replace("'", '"'))


def values(frame) -> list[bytes]:
    return [bytes(row["value"]) for row in frame.orderBy("topic", "partition", "offset").collect()]


def numbered(count: int, start: int = 0) -> list[tuple[bytes | None, bytes]]:
    return [(b"k%d" % number, b"v%d" % number) for number in range(start, start + count)]


def test_the_columns_are_those_of_sparks_connector(reader, new_topic, produce):
    topic = new_topic()
    produce(topic, [(b"k", b"v"), (None, None)], timestamp=1_700_000_000_123, headers=[("h", b"x"), ("n", None)])
    frame = reader(subscribe=topic, includeHeaders="true")
    with_headers = CONNECTOR_SCHEMA[:-1] + ",headers:array<struct<key:string,value:binary>>>"
    assert frame.schema.simpleString() == with_headers
    first, second = frame.orderBy("offset").collect()
    assert (first["key"], first["value"], first["topic"], first["partition"], first["offset"]) == (
        b"k", b"v", topic, 0, 0,
    )  # fmt: skip
    assert (second["key"], second["value"], first["timestampType"]) == (None, None, 0)
    assert [(header["key"], header["value"]) for header in first["headers"]] == [("h", b"x"), ("n", None)]
    shown = frame.selectExpr("cast(unix_millis(timestamp) as string) as ms").first()
    assert shown["ms"] == "1700000000123"
    assert reader(subscribe=topic).schema.simpleString() == CONNECTOR_SCHEMA


def test_the_time_of_appending_shows_in_its_type(reader, new_topic, produce):
    topic = new_topic(**{"message.timestamp.type": "LogAppendTime"})
    produce(topic, [(None, b"v")], timestamp=1_700_000_000_000)
    row = reader(subscribe=topic).selectExpr("timestampType", "unix_millis(timestamp) as ms").first()
    assert row["timestampType"] == 1
    assert row["ms"] > 1_700_000_000_000


def test_a_time_beyond_sparks_timestamps_is_null(reader, new_topic, produce):
    """As from a producer that counts in nanoseconds. The other records keep their times."""
    topic = new_topic(**{"message.timestamp.after.max.ms": str(2**63 - 1)})
    for time in (1_700_000_000_000, 1_700_000_000_000_000_000):
        produce(topic, [(None, b"v")], timestamp=time)
    rows = reader(subscribe=topic).orderBy("offset").selectExpr("value", "unix_millis(timestamp) as ms").collect()
    assert [(row["value"], row["ms"]) for row in rows] == [(b"v", 1_700_000_000_000), (b"v", None)]


def test_arrow_batches_have_exactly_the_schema_that_spark_asks_for(spark, reader, new_topic):
    from pyspark.sql.pandas.types import to_arrow_schema

    topic = new_topic()
    assert to_arrow_schema(reader(subscribe=topic).schema, timezone="UTC") == reading.SCHEMA
    with_headers = reader(subscribe=topic, includeHeaders="true").schema
    assert to_arrow_schema(with_headers, timezone="UTC") == reading.SCHEMA_WITH_HEADERS


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_schema_of_the_users_own_is_refused(spark, new_topic, bootstrap_servers, tmp_path, is_stream):
    source = (spark.readStream if is_stream else spark.read).format("moldau").schema("value string")
    frame = source.option("kafka.bootstrap.servers", bootstrap_servers).option("subscribe", new_topic()).load()
    with pytest.raises(
        Exception, match=r"the columns of a topic are struct<key:binary,value:binary,.*leave out schema"
    ):
        run_once(frame, tmp_path) if is_stream else frame.collect()


def test_a_batch_reads_the_range_that_it_is_told(reader, new_topic, produce):
    topic = new_topic(2)
    for partition in (0, 1):
        produce(topic, numbered(10), partition=partition)
    starting, ending = json.dumps({topic: {"0": 7, "1": -2}}), json.dumps({topic: {"0": -1, "1": 2}})
    frame = reader(subscribe=topic, startingOffsets=starting, endingOffsets=ending)
    assert values(frame) == [b"v7", b"v8", b"v9", b"v0", b"v1"]
    assert values(reader(assign=json.dumps({topic: [1]}))) == [b"v%d" % number for number in range(10)]
    cut = reader(subscribe=topic, minPartitions="7")
    assert cut.rdd.getNumPartitions() >= 7
    assert sorted(values(cut)) == sorted([b"v%d" % number for number in range(10)] * 2)


def test_a_batch_reads_by_time(reader, new_topic, produce):
    topic = new_topic()
    for number in range(5):
        produce(topic, [(None, b"v%d" % number)], timestamp=1_000_000 + number * 1_000)
    assert values(reader(subscribe=topic, startingTimestamp="1002500", endingTimestamp="1004000")) == [b"v3"]
    by_partition = json.dumps({topic: {"0": 1_003_000}})
    assert values(reader(subscribe=topic, startingOffsetsByTimestamp=by_partition)) == [b"v3", b"v4"]
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy"):
        reader(subscribe=topic, startingTimestamp="2000000").count()
    late = reader(subscribe=topic, startingTimestamp="2000000", startingOffsetsByTimestampStrategy="latest")
    assert late.count() == 0


def test_a_pattern_reads_every_topic_that_matches(reader, new_topic, new_name, produce):
    base = new_name("several")
    for suffix in ("a", "b"):
        produce(new_topic(name=f"{base}.{suffix}"), numbered(3))
    new_topic(name=f"x{base}.c")
    assert reader(subscribePattern=f"{base}\\..*").count() == 6


def test_what_is_wrong_is_said_by_name(reader, new_topic):
    with pytest.raises(Exception, match=r"kafka\.security\.protocol"):
        reader(subscribe="x", **{"kafka.security.protocol": "TLS"}).count()
    with pytest.raises(Exception, match="'never-made' does not exist"):
        reader(subscribe="never-made").count()


def test_a_batch_beyond_the_end_is_a_loss_or_what_is_there(reader, new_topic, produce):
    topic = new_topic()
    produce(topic, numbered(3))
    options = {"subscribe": topic, "endingOffsets": json.dumps({topic: {"0": 9}})}
    with pytest.raises(Exception, match="failOnDataLoss"):
        reader(**options).count()
    assert reader(**options, failOnDataLoss="false").count() == 3


def test_a_stream_goes_on_where_it_stopped_and_limits_its_batches(reader, new_topic, produce, tmp_path):
    topic = new_topic(2)
    produce(topic, numbered(50), partition=0)
    produce(topic, numbered(10), partition=1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "24"}
    progress = run_once(reader(stream=True, **options), tmp_path)
    assert [one["numInputRows"] for one in progress] == [24, 24, 12]
    assert [end_offset(one)[topic] for one in progress] == [{"0": 20, "1": 4}, {"0": 40, "1": 8}, {"0": 50, "1": 10}]
    produce(topic, numbered(5), partition=1)
    again = run_once(reader(stream=True, **options), tmp_path)
    assert [one["numInputRows"] for one in again] == [5]


def test_a_stream_starts_at_the_end_unless_told(reader, new_topic, produce, tmp_path):
    topic = new_topic()
    produce(topic, numbered(5))
    assert run_once(reader(stream=True, subscribe=topic), tmp_path) == []
    produce(topic, numbered(2))
    assert [one["numInputRows"] for one in run_once(reader(stream=True, subscribe=topic), tmp_path)] == [2]


def test_a_topic_made_anew_is_noticed_by_its_id(reader, new_topic, produce, tmp_path, bootstrap_servers):
    topic = new_topic()
    produce(topic, numbered(5))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    first = run_once(reader(stream=True, **options), tmp_path)
    assert end_offset(first[-1])["@topic_ids"][topic]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)
    new_topic(name=topic)
    produce(topic, numbered(9, start=100))  # more than before: offsets alone would not show it
    with pytest.raises(Exception, match="deleted and created again"):
        run_once(reader(stream=True, **options), tmp_path)
    again = run_once(reader(stream=True, **options, failOnDataLoss="false"), tmp_path)
    assert sum(one["numInputRows"] for one in again) == 9


def test_a_group_shows_the_progress_of_a_plain_stream(
    reader, new_topic, new_name, produce, tmp_path, bootstrap_servers
):
    from confluent_kafka import Consumer, TopicPartition

    topic, group = new_topic(), new_name("group")
    produce(topic, numbered(30))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    run_once(reader(stream=True, **options, **{"kafka.group.id": group}), tmp_path)
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    committed = consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset
    consumer.close()
    assert committed in (20, 30)  # Spark informs a source of a batch when the next one is done


def test_an_error_of_ours_is_a_sentence_without_a_trace_of_python(spark, bootstrap_servers: str):
    frame = spark.read.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
    with pytest.raises(Exception) as refused:
        frame.option("subscribe", "no-such-topic").option("startingOffset", "earliest").load().count()
    assert "moldau.spark.options.OptionError: " in str(refused.value)
    assert "Traceback" not in str(refused.value)
