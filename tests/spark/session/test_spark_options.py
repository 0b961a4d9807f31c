"""The options of the source and the sink: Spark's own names, and options that are rejected by name."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.spark.options import (
    EARLIEST,
    LATEST,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
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
    assert parsed.access.bootstrap_servers == "a:1"
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
        ("kafka.security.protocol", "TLS"),
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
        ("kafka.group.id", " "),
        ("kafka.fetch.max.bytes", "2000000000"),
        ("kafka.request.timeout.ms", "soon"),
        ("kafka.check.crcs", "perhaps"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(name: str, value: str):
    with pytest.raises(OptionError, match=name.replace(".", r"\.")):
        parse(**{name: value})


SASL = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-512"}
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{}";'


def test_a_login_by_reference_goes_to_tasks_and_the_secret_does_not():
    in_jaas = {**SASL, "kafka.sasl.jaas.config": SCRAM.format("${env:KAFKA_PASSWORD}")}
    by_names = {**SASL, "kafka.sasl.username": "alice", "kafka.sasl.password": "${directory:/run/secrets:kafka}"}
    for options, place in ((in_jaas, "KAFKA_PASSWORD"), (by_names, "/run/secrets/kafka")):
        parsed = pickle.loads(pickle.dumps(parse(**options)))
        assert (parsed.access.security.login.username, parsed.access.security.login.password.place) == ("alice", place)
        sink = parse_sink_options({"kafka.bootstrap.servers": "localhost:9092", "topic": "t", **options})
        assert sink.access.security == parsed.access.security


def test_a_client_of_an_issuer_is_a_reference_too():
    bearer = "kafka.sasl.oauthbearer."
    secret = f"{bearer}client.credentials.client.secret"
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        f"{bearer}token.endpoint.url": "https://issuer.example.org/token",
        f"{bearer}client.credentials.client.id": "service",
        secret: "${env:CLIENT_SECRET}",
    }
    parsed = pickle.loads(pickle.dumps(parse(**options)))
    assert parsed.access.security.login.client_secret.place == "CLIENT_SECRET"
    with pytest.raises(OptionError, match=f"'{secret}' holds a secret itself") as refused:
        parse(**{**options, secret: "planted"})
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.sasl.jaas.config", SCRAM.format("planted")),
        ("kafka.sasl.password", "planted"),
        ("kafka.ssl.keystore.key", "planted"),
        ("kafka.ssl.truststore.password", "planted"),
    ],
)
def test_a_secret_in_an_option_is_refused_and_not_told(name: str, value: str):
    login = {} if "jaas" in name else {"kafka.sasl.username": "alice", "kafka.sasl.password": "${env:A}"}
    with pytest.raises(OptionError, match=f"'{name}' holds a secret itself.*or set profile") as refused:
        parse(**{**SASL, **login, name: value})
    assert "planted" not in str(refused.value)


PROFILES = """
[profiles.shop]
bootstrap.servers = "b:9093,a:9093"
security.protocol = "SASL_SSL"
sasl.mechanism = "PLAIN"
sasl.username = "alice"
sasl.password = "planted"
request.timeout.ms = 700
"""


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "moldau" / "profiles.toml"
    path.parent.mkdir()
    path.write_text(PROFILES)
    path.chmod(0o600)
    return path


def test_a_profile_says_how_the_cluster_is_reached(profiles: Path):
    access = parse_source_options({"profile": "shop", "subscribe": "orders"}, is_streaming=False).access
    assert (access.bootstrap_servers, access.request_timeout_ms) == ("b:9093,a:9093", 700)
    assert access.client_id == "moldau-spark"
    assert access.security.login.password.reference() == f"${{file:{profiles}:profiles.shop.sasl.password}}"
    own = {"kafka.bootstrap.servers": "c:1", "kafka.client.id": "x", "kafka.request.timeout.ms": "9"}
    access = parse_sink_options({"profile": "shop", **own}).access
    assert (access.bootstrap_servers, access.client_id, access.request_timeout_ms) == ("c:1", "x", 9)


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"profile": "shp"}, "'profile' cannot be read: .* has no profile shp; did you mean shop"),
        ({"profile": "shop", "kafka.sasl.password": "${env:A}"}, "'kafka.sasl.password' cannot be used with profile"),
        ({"profile": " "}, "'profile' must be set"),
    ],
)
@pytest.mark.usefixtures("profiles")
def test_a_profile_that_cannot_be_meant_is_refused(options: dict[str, str], refused: str):
    with pytest.raises(OptionError, match=refused) as error:
        parse_sink_options(options)
    assert "planted" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"startingOffsets": '{"t":{"0":3,"1":8}}', "endingOffsets": '{"t":{"0":3,"1":7}}'},
            "'startingOffsets' is 8 for t-1, behind endingOffsets, which is 7",
        ),
        (
            {"startingTimestamp": "8", "endingTimestamp": "7"},
            "the starting time 8 is later than the ending time, which is 7",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":8}}', "endingOffsetsByTimestamp": '{"t":{"0":7}}'},
            "the starting time 8 is later than that of t-0, which is 7",
        ),
    ],
)
def test_a_batch_that_starts_behind_its_end_is_refused(options: dict[str, str], said: str):
    """Like Spark's connector: otherwise it would silently read nothing."""
    with pytest.raises(OptionError, match=said):
        parse(**options)
    parse(**{name: value.replace("8", "7") for name, value in options.items()})


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
    own = {"checkpointLocation": "/x", "path": "/y", "queryName": "copies"}
    parse_sink_options({"kafka.bootstrap.servers": "a:1", **own})


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
        ({"topic": " "}, "option 'topic' must be set"),
        ({"kafka.transactional.id": "job", "write_id": "w"}, "has no meaning with write_id"),
        ({"delivery": "at_least_once", "write_id": "w"}, "there is none with delivery at_least_once"),
        ({"kafka.transaction.timeout.ms": "0"}, "above 0"),
        ({"kafka.transaction.timeout.ms": "2147483648"}, r"transaction\.timeout\.ms' must be at most 2147483647"),
        ({"kafka.request.timeout.ms": "3000000000"}, r"request\.timeout\.ms' must be at most 2147483647"),
        ({"sourceTopics": "orders"}, r"must be like \[\"orders\",\"visits-\.\*\"\], not 'orders'"),
        ({"sourceTopics": '["("]'}, "is no regular expression"),
        ({"sourceTopics": "[]", "delivery": "at_least_once"}, "there is none with delivery at_least_once"),
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
        ("kafka.sasl.kerberos.service.name", "PLAIN, SCRAM and OAUTHBEARER"),
        ("kafka.ssl.trustmanager.algorithm", "PKCS#12"),
    ],
)
def test_an_option_of_sparks_source_or_kafkas_consumer_names_its_replacement(name, instead):
    for is_streaming in (False, True):
        with pytest.raises(OptionError, match=f"(?s){re.escape(name)}.*{re.escape(instead)}"):
            parse(is_streaming=is_streaming, **{name: "SASL_SSL"})


@pytest.mark.parametrize("name", ["kafka.linger", "kafkaesque", "kafka."])
def test_an_option_that_nobody_has_is_refused_with_those_that_are_known(name):
    with pytest.raises(OptionError, match=f"{re.escape(repr(name))} is not known; .*kafka.client.id"):
        parse(**{name: "1"})
    with pytest.raises(OptionError, match=f"{re.escape(repr(name))} is not known; .*kafka.client.id"):
        parse_sink_options({**SINK, name: "1"})


# as in the ConsumerConfig and ProducerConfig of Kafka 4.3.1; both also have sasl.* and ssl.*
OF_BOTH = """
bootstrap.servers client.dns.lookup client.id config.providers connections.max.idle.ms enable.metrics.push
interceptor.classes metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes
reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms security.protocol
security.providers send.buffer.bytes socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
"""
OF_CONSUMERS = """
allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack default.api.timeout.ms
enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id
group.protocol group.remote.assignor heartbeat.interval.ms isolation.level key.deserializer max.partition.fetch.bytes
max.poll.interval.ms max.poll.records partition.assignment.strategy session.timeout.ms share.acknowledgement.mode
share.acquire.mode value.deserializer
"""
OF_PRODUCERS = """
acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type compression.zstd.level
delivery.timeout.ms enable.idempotence key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection
max.request.size metadata.max.idle.ms partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
partitioner.class partitioner.ignore.keys retries transaction.timeout.ms transaction.two.phase.commit.enable
transactional.id value.serializer
"""


@pytest.mark.parametrize("name", (OF_BOTH + OF_CONSUMERS + OF_PRODUCERS).split())
def test_each_option_of_kafkas_clients_is_taken_or_rejected_with_a_reason(name):
    for known, read in ((SOURCE_OPTIONS, lambda given: parse(**given)), (SINK_OPTIONS, read_sink)):
        full_name = f"kafka.{name}"
        if full_name not in known:
            with pytest.raises(OptionError, match=f"^option {re.escape(repr(full_name))} has no place here: ."):
                read({full_name: "1"})


def read_sink(given: dict[str, str]):
    return parse_sink_options({**SINK, **given})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("kafka.receive.buffer.bytes", "tcp_rmem"),
        ("kafka.send.buffer.bytes", "tcp_wmem"),
        ("kafka.client.dns.lookup", "every address of a name is tried"),
        ("kafka.metadata.recovery.strategy", "kafka.bootstrap.servers are asked again, for retryTimeoutMs"),
        ("kafka.metadata.recovery.rebootstrap.trigger.ms", "retryTimeoutMs"),
        ("kafka.security.providers", "kafka.sasl.*"),
        ("kafka.metrics.num.samples", "moldau.spark.watch"),
        ("kafka.metrics.recording.level", "moldau.spark.watch"),
        ("kafka.metrics.sample.window.ms", "moldau.spark.watch"),
        ("kafka.enable.metrics.push", "moldau.spark.watch"),
        ("kafka.config.providers", "needs none"),
        ("kafka.retries", "retryTimeoutMs"),
        ("kafka.ssl.keymanager.algorithm", "PKCS#12"),
        ("kafka.sasl.login.class", "PLAIN, SCRAM and OAUTHBEARER"),
    ],
)
def test_what_no_client_here_has_is_refused_by_the_source_and_the_sink_alike(name, instead):
    for read in (lambda given: parse(**given), read_sink):
        with pytest.raises(OptionError, match=f"{re.escape(name)}.*{re.escape(instead)}"):
            read({name: "1"})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("kafka.acks", "all in-sync replicas"),
        ("kafka.ENABLE.idempotence", "a retry doubles none"),
        ("kafka.linger.ms", "sent as they come"),
        ("kafka.batch.size", "512 KiB in a record batch"),
        ("kafka.max.request.size", "max.message.bytes"),
        ("kafka.key.serializer", "cast the columns"),
        ("kafka.delivery.timeout.ms", "retryTimeoutMs"),
        ("kafka.partitioner.class", "a column partition"),
        ("kafka.compression.zstd.level", "kafka.compression.type"),
        ("kafka.transaction.two.phase.commit.enable", "use delivery"),
        ("kafka.auto.offset.reset", "for a consumer, and this is the sink"),
        ("includeHeaders", "a column headers"),
        ("kafka.fetch.max.bytes", "an option of the source"),
    ],
)
def test_an_option_of_sparks_sink_or_kafkas_producer_names_its_replacement(name, instead):
    with pytest.raises(OptionError, match=f"{re.escape(name)}.*{re.escape(instead)}"):
        read_sink({name: "1"})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kafka.acks", "for a producer, and this is the source"),
        ("kafka.transactional.id", "an option of the sink"),
        ("kafka.compression.type", "an option of the sink"),
    ],
)
def test_an_option_of_kafkas_producer_is_refused_by_the_source_as_one(name, said):
    with pytest.raises(OptionError, match=f"{re.escape(name)}.*{said}"):
        parse(**{name: "1"})


def test_the_sink_passes_through_what_its_client_can_do():
    given = {
        "kafka.client.id": "orders-job",
        "KAFKA.request.timeout.ms": "7000",
        "kafka.socket.connection.setup.timeout.ms": "3000",
        "kafka.security.protocol": "plaintext",
    }
    parsed = read_sink(given)
    assert parsed.access == ClusterAccess(
        "localhost:9092", "orders-job", request_timeout_ms=7_000, connect_timeout_ms=3_000
    )
    plain = read_sink({})
    assert plain.access == ClusterAccess(
        "localhost:9092", "moldau-spark", request_timeout_ms=30_000, connect_timeout_ms=10_000
    )
    for name, value in (
        ("kafka.client.id", " "),
        ("kafka.request.timeout.ms", "soon"),
        ("kafka.socket.connection.setup.timeout.ms", "0"),
        ("kafka.security.protocol", "KERBEROS"),
    ):
        with pytest.raises(OptionError, match=re.escape(name)):
            read_sink({name: value})


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
    assert parsed.access == ClusterAccess(
        "localhost:9092", "orders-job", request_timeout_ms=7_000, connect_timeout_ms=3_000
    )
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


def test_the_options_of_an_access_read_back_as_that_access():
    access = ClusterAccess("a:1,b:2", "job", 2, 3, 4, 5)
    assert parse_source_options({**BASE, **access.spark_options()}, is_streaming=True).access == access
    assert parse_sink_options(access.spark_options()).access == access
    assert ClusterAccess("a").spark_options() == {"kafka.bootstrap.servers": "a:9092"}
