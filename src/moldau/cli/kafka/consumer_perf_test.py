"""`kafka-consumer-perf-test`: measures how fast a consumer (librdkafka) reads."""

from __future__ import annotations

import random
import time
from typing import Any

import msgspec

from moldau.cli.kafka.client_metrics import ClientMetrics
from moldau.cli.kafka.client_settings import for_librdkafka, number_of, unreachable_warning
from moldau.cli.kafka.connection import read_properties, split_properties
from moldau.cli.kafka.included_topics import IncludedTopics
from moldau.cli.kafka.java_dates import format_time
from moldau.cli.kafka.java_numbers import fixed, ratio
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    UsageError,
    bootstrap_server,
    check_excluded,
    check_required,
    command_config,
)
from moldau.cli.kafka.topics import topic_pattern
from moldau.core.config.topic_settings import INTERNAL_TOPICS

SUMMARY = "This tool is used to verify the consumer performance."

OPTIONS = (
    bootstrap_server(),
    command_config(),
    Option("command-property", "A setting of the consumer; may be repeated.", "name=value"),
    Option("consumer.config", "Now --command-config.", "config file", is_deprecated=True),
    Option("topic", "The topic to read.", "topic"),
    Option("include", "A regular expression of topics to read.", "topic expression"),
    Option("num-records", "How many records to read.", "count", kind="long", is_required=True),
    Option("messages", "Now --num-records.", "count", kind="long", is_deprecated=True),
    Option("group", "The consumer group; without it one for this call.", "gid"),
    Option("from-latest", "Begin with the last record, not the first, if the group has no committed offset."),
    Option("fetch-size", "Bytes of one partition in one answer.", "size", kind="int", default="1048576"),
    Option("socket-buffer-size", "Bytes of the socket's buffer.", "size", kind="int", default="2097152"),
    Option(
        "timeout",
        "Stop when no record came for this time.",
        "milliseconds",
        is_argument_optional=True,
        kind="long",
        default="10000",
    ),
    Option("show-detailed-stats", "A line for each interval, and no line at the end."),
    Option("reporting-interval", "How often there is one.", "interval_ms", kind="long", default="5000"),
    Option("date-format", "How times are written (SimpleDateFormat).", "format", default="yyyy-MM-dd HH:mm:ss:SSS"),
    Option("hide-header", "Leave the names of the columns out."),
    Option("print-metrics", "Print the figures of the client, which are those of librdkafka, at the end."),
)

_COLUMNS = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_RECORDS_AT_ONCE = 500
_POLL_S = 0.1
_MIB = 1024.0 * 1024.0


class Plan(msgspec.Struct, frozen=True):
    """What to read and how to report it."""

    topic: str | None
    include: str | None
    record_count: int
    timeout_ms: int
    interval_ms: int
    is_detailed: bool
    date_format: str


class Rebalances:
    """How long a consumer waited for partitions, as Kafka's tool counts it: from the start, or from the loss of its
    last partition, until it gets one."""

    def __init__(self, now_ms: int) -> None:
        self.total_ms = self.interval_ms = 0
        self._owned: set[tuple[str, int]] = set()
        self._since_ms = now_ms

    def assigned(self, partitions: set[tuple[str, int]], now_ms: int) -> None:
        if not self._owned:
            self.total_ms += now_ms - self._since_ms
            self.interval_ms += now_ms - self._since_ms
        self._owned |= partitions

    def revoked(self, partitions: set[tuple[str, int]], now_ms: int) -> None:
        self._owned -= partitions
        if not self._owned:
            self._since_ms = now_ms


class Progress:
    """Counts the records and formats the lines. Times are wall clock, in ms."""

    def __init__(self, plan: Plan, now_ms: int) -> None:
        self.records = self.bytes = 0
        self.rebalances = Rebalances(now_ms)
        self._plan = plan
        self._start_ms = self._reported_ms = now_ms
        self._reported_records = self._reported_bytes = 0

    def record(self, size: int, now_ms: int) -> str | None:
        """Counts a record of `size` bytes; returns the line of the interval that it ends, if lines are requested."""
        self.records += 1
        self.bytes += size
        if now_ms - self._reported_ms < self._plan.interval_ms:
            return None
        line = self._interval_line(now_ms) if self._plan.is_detailed else None
        self.rebalances.interval_ms = 0
        self._reported_ms = now_ms
        self._reported_records, self._reported_bytes = self.records, self.bytes
        return line

    def _interval_line(self, now_ms: int) -> str:
        elapsed_ms = now_ms - self._reported_ms
        fetch_ms = elapsed_ms - self.rebalances.interval_ms
        megabytes = (self.bytes - self._reported_bytes) / _MIB
        records = self.records - self._reported_records
        return (
            f"{format_time(self._plan.date_format, now_ms)}, 0, {fixed(self.bytes / _MIB, 4)}, "
            f"{fixed(ratio(1000.0 * megabytes, elapsed_ms), 4)}, {self.records}, "
            f"{fixed(ratio(1000.0 * records, elapsed_ms), 4)}, {self.rebalances.interval_ms}, {fetch_ms}, "
            f"{fixed(1000.0 * megabytes / fetch_ms if fetch_ms > 0 else 0.0, 4)}, "
            f"{fixed(1000.0 * records / fetch_ms if fetch_ms > 0 else 0.0, 4)}"
        )

    def last_line(self, now_ms: int) -> str:
        elapsed_s = (now_ms - self._start_ms) / 1000.0
        fetch_ms = now_ms - self._start_ms - self.rebalances.total_ms
        megabytes = self.bytes / _MIB
        pattern = self._plan.date_format
        return (
            f"{format_time(pattern, self._start_ms)}, {format_time(pattern, now_ms)}, {fixed(megabytes, 4)}, "
            f"{fixed(ratio(megabytes, elapsed_s), 4)}, {self.records}, {fixed(ratio(self.records, elapsed_s), 4)}, "
            f"{self.rebalances.total_ms}, {fetch_ms}, {fixed(ratio(megabytes, fetch_ms / 1000.0), 4)}, "
            f"{fixed(ratio(self.records, fetch_ms / 1000.0), 4)}"
        )


def run(arguments: Arguments) -> int:
    check(arguments)
    is_detailed = arguments.has("show-detailed-stats")
    if not arguments.has("hide-header"):
        print(f"{'time, threadId' if is_detailed else 'start.time, end.time'}, {_COLUMNS}", flush=True)
    plan = make_plan(arguments)
    metrics = ClientMetrics() if arguments.has("print-metrics") else None
    reader = _Reader(plan, consumer_settings(arguments, metrics))
    try:
        reader.read()
        if not is_detailed:
            print(reader.progress.last_line(_now_ms()), flush=True)
        if metrics is not None:
            metrics.print_now(reader.consumer)
    finally:
        reader.consumer.close()
    return 0


def check(arguments: Arguments) -> None:
    """Raises UsageError for flags that contradict each other."""
    check_required(arguments, "bootstrap-server")
    for first, second in (("messages", "num-records"), ("topic", "include")):
        if arguments.has(first) == arguments.has(second):
            raise UsageError(f"Exactly one of the following arguments is required: [{first}], [{second}]")
    check_excluded(arguments, "consumer.config", "command-config")
    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if arguments.has(old):
            print(f"Warning: --{old} is deprecated. Use --{new} instead.", flush=True)


def make_plan(arguments: Arguments) -> Plan:
    interval_ms = number_of(arguments, "reporting-interval")
    if interval_ms <= 0:
        raise ArgumentError("Reporting interval must be greater than 0.")
    date_format = arguments.required("date-format")
    format_time(date_format, 0)  # report an unknown letter before reading
    return Plan(
        topic=arguments.text("topic"),
        include=arguments.text("include"),
        record_count=number_of(arguments, "messages" if arguments.has("messages") else "num-records"),
        timeout_ms=number_of(arguments, "timeout"),
        interval_ms=interval_ms,
        is_detailed=arguments.has("show-detailed-stats"),
        date_format=date_format,
    )


def consumer_settings(arguments: Arguments, metrics: ClientMetrics | None) -> dict[str, object]:
    """Settings for librdkafka. The tool's flags override settings, as in Kafka's tool."""
    path = arguments.text("command-config") or arguments.text("consumer.config")
    given = read_properties(path) if path else {}
    given.update(split_properties(arguments.texts("command-property")))
    servers = arguments.required("bootstrap-server")
    return {
        "client.id": "perf-consumer-client",
        "check.crcs": "false",
        **for_librdkafka(given),
        "bootstrap.servers": servers,
        "group.id": arguments.text("group") or f"perf-consumer-{random.randrange(100_000)}",
        "auto.offset.reset": "latest" if arguments.has("from-latest") else "earliest",
        "socket.receive.buffer.bytes": number_of(arguments, "socket-buffer-size"),
        "max.partition.fetch.bytes": number_of(arguments, "fetch-size"),
        "log_level": 0,
        "error_cb": unreachable_warning(servers),
        **({} if metrics is None else metrics.settings()),
    }


class _Reader:
    def __init__(self, plan: Plan, settings: dict[str, object]) -> None:
        from confluent_kafka import Consumer, KafkaException

        self._plan = plan
        callbacks = {"on_assign": self._assigned, "on_revoke": self._revoked, "on_lost": self._revoked}
        self._included: IncludedTopics | None = None
        try:
            self.consumer: Any = Consumer(settings)
            self.progress = Progress(plan, _now_ms())
            pattern = topic_pattern(plan.include)
            if pattern is not None:
                self._included = IncludedTopics(self.consumer, pattern, INTERNAL_TOPICS, **callbacks)
            else:
                self.consumer.subscribe([plan.topic], **callbacks)
        except (KafkaException, ValueError) as error:
            raise ArgumentError(str(error.args[0])) from error

    def _assigned(self, _: object, partitions: list[Any]) -> None:
        self.progress.rebalances.assigned({(one.topic, one.partition) for one in partitions}, _now_ms())

    def _revoked(self, _: object, partitions: list[Any]) -> None:
        self.progress.rebalances.revoked({(one.topic, one.partition) for one in partitions}, _now_ms())

    def read(self) -> None:
        """Reads until the count is reached, or no record arrives within the time-out."""
        plan, progress = self._plan, self.progress
        now_ms = last_ms = _now_ms()
        while progress.records < plan.record_count and now_ms - last_ms <= plan.timeout_ms:
            if self._included is not None:
                self._included.look()
            messages = self._messages(min(_RECORDS_AT_ONCE, plan.record_count - progress.records))
            now_ms = _now_ms()
            for message in messages:
                last_ms = now_ms
                line = progress.record(len(message) + len(message.key() or b""), now_ms)
                if line is not None:
                    print(line, flush=True)
        if progress.records < plan.record_count:
            print(
                "WARNING: Exiting before consuming the expected number of records: timeout "
                f"({plan.timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout.",
                flush=True,
            )

    def _messages(self, most: int) -> list[Any]:
        """The records that are available, or the next one. Raises ArgumentError for any error except a missing
        topic."""
        from confluent_kafka import KafkaError as ClientError

        found = self.consumer.consume(most, 0)
        if not found:
            message = self.consumer.poll(_POLL_S)
            found = [] if message is None else [message]
        records = []
        for message in found:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() not in (
                ClientError.UNKNOWN_TOPIC_OR_PART,
                ClientError._UNKNOWN_PARTITION,
                ClientError._UNKNOWN_TOPIC,
            ):
                raise ArgumentError(error.str())
        return records


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
