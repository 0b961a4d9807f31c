"""The options of the source and the sink: Spark's own words, and what is refused by its name."""

from __future__ import annotations

import re

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
        ("isolation", "serializable"),
        ("startingGroup", " "),
        ("maxRecordsPerPartition", "0"),
        ("minOffsetsPerTrigger", "10"),
        ("maxTriggerDelay", "1m"),
        ("kafka.client.id", ""),
        ("kafka.fetch.max.bytes", "2000000000"),
        ("kafka.request.timeout.ms", "soon"),
        ("kafka.check.crcs", "perhaps"),
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


SINK = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}


def test_the_options_of_a_transaction_are_known_in_any_case_of_letters():
    options = parse_sink_options(
        {
            **SINK,
            "DELIVERY": "Exactly_Once",
            "kafka.Transactional.ID": "job",
            "kafka.transaction.timeout.ms": "60000",
            "kafka.group.id": "shown",
            "checkpointlocation": "/state",
            "BATCHID": "7",
        }
    )
    assert (options.delivery, options.transactional_id, options.transaction_timeout_ms) == (
        "exactly_once",
        "job",
        60_000,
    )
    assert (options.group_id, options.checkpoint_location, options.batch_id) == ("shown", "/state", 7)
    assert parse_sink_options(SINK).delivery == "exactly_once"


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"delivery": "at_most_once"}, "must be one of exactly_once, at_least_once"),
        ({"delivery": "at_least_once", "kafka.transactional.id": "job"}, "there is none with delivery at_least_once"),
        ({"batchId": "7"}, "set checkpointLocation too"),
        ({"batchId": "-1", "checkpointLocation": "/state"}, "the number that foreachBatch gives"),
        ({"kafka.transactional.id": " "}, "must be set"),
        ({"kafka.transactional.id": "job", "write_id": "w"}, "has no meaning beside write_id"),
        ({"delivery": "at_least_once", "write_id": "w"}, "there is none with delivery at_least_once"),
        ({"kafka.transaction.timeout.ms": "0"}, "above 0"),
    ],
)
def test_what_cannot_be_meant_of_a_transaction_is_refused(options, refused):
    with pytest.raises(OptionError, match=refused):
        parse_sink_options({**SINK, **options})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("groupIdPrefix", "kafka.group.id"),
        ("kafkaConsumer.pollTimeoutMs", "kafka.request.timeout.ms"),
        ("fetchOffset.numRetries", "retryTimeoutMs"),
        ("fetchOffset.retryIntervalMs", "retryTimeoutMs"),
        ("kafka.auto.offset.reset", "startingOffsets"),
        ("kafka.enable.auto.commit", "kafka.group.id"),
        ("kafka.KEY.Deserializer", "cast the columns"),
        ("kafka.value.deserializer", "cast the columns"),
        ("kafka.isolation.level", "isolation"),
        ("kafka.interceptor.classes", "no Java class"),
        ("kafka.max.poll.records", "maxOffsetsPerTrigger"),
        ("kafka.retry.backoff.ms", "retryTimeoutMs"),
        ("kafka.session.timeout.ms", "kafka.group.id"),
        ("kafka.sasl.jaas.config", "SASL"),
        ("kafka.ssl.truststore.location", "TLS"),
        ("kafka.security.protocol", "SASL"),
    ],
)
def test_an_option_of_sparks_connector_or_of_kafkas_consumer_is_refused_with_what_to_use_instead(name, instead):
    for is_streaming in (False, True):
        with pytest.raises(OptionError, match=f"(?s){re.escape(name)}.*{re.escape(instead)}"):
            parse(is_streaming=is_streaming, **{name: "SASL_SSL"})


@pytest.mark.parametrize("name", ["kafka.linger.ms", "kafkaesque", "kafka."])
def test_an_option_that_nobody_has_is_refused_with_those_that_are_known(name):
    with pytest.raises(OptionError, match=f"{re.escape(repr(name))} is not known; .*kafka.client.id"):
        parse(**{name: "1"})


def test_what_the_client_can_do_is_passed_through():
    parsed = parse(
        is_streaming=True,
        **{
            "kafka.client.id": "orders-job",
            "kafka.request.timeout.ms": "7000",
            "kafka.socket.connection.setup.timeout.ms": "3000",
            "kafka.fetch.max.bytes": "65536",
            "kafka.check.crcs": "false",
            "kafka.security.protocol": "plaintext",
            "isolation": "READ_UNCOMMITTED",
            "maxRecordsPerPartition": "500",
        },
    )
    assert (parsed.client_id, parsed.request_timeout_ms, parsed.connect_timeout_ms) == ("orders-job", 7_000, 3_000)
    assert (parsed.fetch_max_bytes, parsed.check_crcs, parsed.isolation) == (65_536, False, "read_uncommitted")
    assert parsed.max_records_per_partition == 500
    assert parse().isolation == "read_committed"


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [("250ms", 250), ("250", 250), ("90s", 90_000), ("5M", 300_000), ("1min", 60_000), ("2h", 7_200_000)],
)
def test_a_delay_is_said_in_sparks_words(text: str, delay_ms: int):
    parsed = parse(is_streaming=True, minOffsetsPerTrigger="10", maxTriggerDelay=text)
    assert (parsed.min_offsets_per_trigger, parsed.max_trigger_delay_ms) == (10, delay_ms)
    with pytest.raises(OptionError, match="maxTriggerDelay"):
        parse(is_streaming=True, minOffsetsPerTrigger="10", maxTriggerDelay=f"{text} ago")


def test_the_least_and_the_most_of_a_batch_must_fit_together():
    with pytest.raises(OptionError, match=r"minOffsetsPerTrigger.*maxOffsetsPerTrigger"):
        parse(is_streaming=True, minOffsetsPerTrigger="10", maxOffsetsPerTrigger="9")
    with pytest.raises(OptionError, match=r"maxTriggerDelay.*minOffsetsPerTrigger"):
        parse(is_streaming=True, maxTriggerDelay="1m")
