"""The options of the source and the sink: Spark's own words, and what is refused by its name."""

from __future__ import annotations

import pytest

from moldau.spark.options import (
    EARLIEST,
    LATEST,
    OptionError,
    StartOrEnd,
    Subscription,
    offsets_to_json,
    parse_sink_options,
    parse_source_options,
    wants_headers,
)
from moldau.types import TopicPartition

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def parse(*, is_streaming: bool = False, **options: str):
    return parse_source_options({**BASE, **options}, is_streaming=is_streaming)


def test_a_stream_starts_at_latest_and_a_batch_at_earliest():
    assert parse(is_streaming=True).start == StartOrEnd(position=LATEST)
    assert parse().start == StartOrEnd(position=EARLIEST)
    assert parse().end == StartOrEnd(position=LATEST)


def test_option_names_are_case_insensitive():
    options = {"KAFKA.BOOTSTRAP.SERVERS": "a:1", "SubScribe": "x, y,x", "failondataloss": "FALSE"}
    parsed = parse_source_options(options, is_streaming=True)
    assert parsed.bootstrap_servers == "a:1"
    assert parsed.subscription == Subscription(topics=("x", "y"))
    assert parsed.fail_on_data_loss is False


def test_offsets_are_spark_json_with_its_two_words():
    parsed = parse(is_streaming=True, startingOffsets='{"orders":{"0":23,"1":-2,"2":-1}}')
    assert parsed.start.offsets == {
        TopicPartition("orders", 0): 23,
        TopicPartition("orders", 1): EARLIEST,
        TopicPartition("orders", 2): LATEST,
    }


def test_a_time_for_all_goes_before_times_and_times_before_offsets():
    by_time = {"startingOffsetsByTimestamp": '{"orders":{"0":5}}', "startingOffsets": "earliest"}
    assert parse(**by_time).start == StartOrEnd(timestamps_ms={TopicPartition("orders", 0): 5})
    assert parse(startingTimestamp="7", **by_time).start == StartOrEnd(timestamps_ms={None: 7})


def test_assign_names_single_partitions():
    parsed = parse_source_options(
        {"kafka.bootstrap.servers": "a:1", "assign": '{"b":[1,0],"a":[2]}'}, is_streaming=False
    )
    assert parsed.subscription.partitions == (TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.security.protocol", "SSL"),
        ("startingOffset", "earliest"),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"orders":{"0":-2}}'),
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"orders":{"0":-1}}'),
        ("startingOffsets", '{"orders":{"0":-3}}'),
        ("startingOffsets", '{"orders":[0]}'),
        ("startingOffsets", "yesterday"),
        ("startingTimestamp", "-5"),
        ("startingOffsetsByTimestampStrategy", "never"),
        ("minPartitions", "0"),
        ("minPartitions", "many"),
        ("maxOffsetsPerTrigger", "10"),
        ("failOnDataLoss", "perhaps"),
        ("includeHeaders", "1"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(name: str, value: str):
    with pytest.raises(OptionError, match=name.replace(".", r"\.")):
        parse(**{name: value})


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str):
    with pytest.raises(OptionError, match=name):
        parse(is_streaming=True, **{name: "latest"})


@pytest.mark.parametrize("more", [{}, {"subscribe": "a", "assign": '{"a":[0]}'}])
def test_exactly_one_subscription_is_needed(more: dict[str, str]):
    with pytest.raises(OptionError, match="subscribe, subscribePattern, assign"):
        parse_source_options({"kafka.bootstrap.servers": "a:1", **more}, is_streaming=True)


@pytest.mark.parametrize(
    "more", [{"subscribe": " , "}, {"subscribePattern": "("}, {"assign": "{}"}, {"assign": '{"a":["0"]}'}]
)
def test_a_subscription_to_nothing_is_refused(more: dict[str, str]):
    with pytest.raises(OptionError, match=next(iter(more))):
        parse_source_options({"kafka.bootstrap.servers": "a:1", **more}, is_streaming=True)


def test_the_servers_must_be_named():
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        parse_source_options({"subscribe": "a"}, is_streaming=True)


def test_the_schema_needs_only_the_headers_option():
    assert wants_headers({"includeHeaders": "TRUE"})
    assert not wants_headers(BASE)


def test_the_sink_takes_a_topic_and_a_compression():
    parsed = parse_sink_options({"kafka.bootstrap.servers": "a:1", "topic": "t", "kafka.compression.type": "LZ4"})
    assert (parsed.topic, parsed.compression_type) == ("t", "lz4")
    with pytest.raises(OptionError, match=r"kafka\.acks"):
        parse_sink_options({"kafka.bootstrap.servers": "a:1", "kafka.acks": "0"})
    with pytest.raises(OptionError, match=r"kafka\.compression\.type"):
        parse_sink_options({"kafka.bootstrap.servers": "a:1", "kafka.compression.type": "brotli"})


def test_what_spark_adds_itself_is_no_option():
    parse_sink_options({"kafka.bootstrap.servers": "a:1", "checkpointLocation": "/x", "path": "/y"})


def test_offsets_as_text_stand_in_order():
    offsets = {TopicPartition("b", 0): 1, TopicPartition("a", 10): 2, TopicPartition("a", 9): 3}
    assert offsets_to_json(offsets) == '{"a":{"9":3,"10":2},"b":{"0":1}}'
