"""`format("moldau")` for writing: rows as records, streams in append mode, and values that a record cannot hold."""

from __future__ import annotations

import pytest

from moldau.spark import by_target_partition


@pytest.fixture
def write(bootstrap_servers):
    def save(frame, **options):
        writer = frame.write.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        for name, value in options.items():
            writer = writer.option(name, value)
        writer.mode("append").save()

    return save


def test_rows_become_records(spark, write, new_topic, read_back):
    topic = new_topic()
    frame = spark.sql("select * from values ('a', 'x'), (null, 'y'), ('c', null) as t(key, value)")
    write(frame, topic=topic, delivery="at_least_once")
    assert sorted(read_back(topic), key=str) == [(None, b"y"), (b"a", b"x"), (b"c", None)]


def test_a_row_may_have_the_time_of_its_record(spark, write, new_topic, bootstrap_servers):
    from moldau.columnar.reader import read_topic

    topic = new_topic()
    times = "timestamp'2026-01-02 03:04:05.678901Z', timestamp'1969-12-31 23:59:59.999Z', cast(null as timestamp)"
    write(spark.sql(f"select 'x' as value, explode(array({times})) as timestamp"), topic=topic)
    found = [time for batch in read_topic(bootstrap_servers, topic) for time in batch.column("timestamp").to_pylist()]
    assert [round(time.timestamp() * 1_000) for time in found[:2]] == [1767323045678, -1]
    assert found[2] > found[0]


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_equal_keys_go_where_any_kafka_producer_sends_them(
    delivery, spark, write, new_topic, produce, bootstrap_servers
):
    from confluent_kafka import Producer

    from moldau.columnar.reader import read_topic

    topic = new_topic(5)
    keys = [f"key-{number}" for number in range(40)]
    frame = spark.createDataFrame([(key, "spark") for key in keys], "key string, value string")
    if delivery == "exactly_once":
        frame = by_target_partition(frame, bootstrap_servers, topic)
    write(frame, topic=topic, delivery=delivery)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(topic, b"client", key)
    assert producer.flush(30) == 0
    places: dict[bytes, list[int]] = {}
    for batch in read_topic(bootstrap_servers, topic):
        for key, partition in zip(batch.column("key").to_pylist(), batch.column("partition").to_pylist(), strict=True):
            places.setdefault(key, []).append(partition)
    assert len(places) == 40
    assert all(len(found) == 2 and found[0] == found[1] for found in places.values())


def test_rows_may_name_their_topic_and_partition(spark, write, new_topic, read_back):
    one, two = new_topic(), new_topic(3)
    write(spark.sql(f"select '{one}' as topic, 0 as partition, 'x' as value union all select '{two}', 2, 'y'"))
    assert read_back(one) == [(None, b"x")]
    assert read_back(two) == [(None, b"y")]


def test_headers_and_compression_arrive(spark, write, new_topic, bootstrap_servers):
    topic = new_topic()
    frame = spark.sql(
        "select cast('v' as binary) as value, array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers"
    )
    write(frame, topic=topic, **{"kafka.compression.type": "zstd"})
    read = spark.read.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
    row = read.option("subscribe", topic).option("includeHeaders", "true").load().first()
    assert [(header["key"], header["value"]) for header in row["headers"]] == [("h", b"x")]


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_many_rows_from_several_tasks_all_arrive(spark, write, new_topic, read_back, bootstrap_servers, delivery):
    topic = new_topic(3)
    key = "case when id % 3 > 0 then cast(id as string) end as key"
    frame = spark.range(0, 50_000, 1, 4).selectExpr(key, "cast(id as string) as value")
    if delivery == "exactly_once":
        frame = by_target_partition(frame, bootstrap_servers, topic)
    write(frame, topic=topic, delivery=delivery)
    assert sorted(int(value) for _, value in read_back(topic)) == list(range(50_000))


@pytest.mark.parametrize(
    ("sql", "refused"),
    [
        ("select 'x' as value, 1 as price", "price"),
        ("select 1 as value", "must be string or binary"),
        ("select 'k' as key", "no column 'value'"),
        ("select 'x' as value, 't' as topic", "both the option"),
    ],
)
def test_what_has_no_place_in_a_record_is_refused(spark, write, new_topic, sql, refused):
    with pytest.raises(Exception, match=refused):
        write(spark.sql(sql), topic=new_topic())


def test_without_a_topic_nothing_is_written(spark, write, bootstrap_servers):
    with pytest.raises(Exception, match="no topic"):
        write(spark.sql("select 'x' as value"))
    writer = spark.sql("select 'x' as value").write.format("moldau").option("topic", "t")
    writer = writer.option("kafka.bootstrap.servers", bootstrap_servers).mode("overwrite")
    with pytest.raises(Exception, match="cannot be overwritten"):
        writer.save()


def test_a_stream_in_append_mode_goes_from_topic_to_topic(
    spark, new_topic, produce, read_back, bootstrap_servers, tmp_path
):
    source, target = new_topic(), new_topic()
    produce(source, [(b"k%d" % number, b"%d" % number) for number in range(100)])
    stream = spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
    frame = stream.option("subscribe", source).option("startingOffsets", "earliest").load()
    result = frame.selectExpr("key", "cast(cast(value as string) * 2 as string) as value")
    writer = result.writeStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
    writer = writer.option("topic", target).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    query = writer.queryName(f"to {target}").start()
    query.awaitTermination()
    assert [(key, float(value)) for key, value in read_back(target)] == [
        (b"k%d" % number, number * 2.0) for number in range(100)
    ]
