"""`kafka-console-consumer`: prints the records of topics, one a line."""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import msgspec

from moldau.cli.kafka.client_settings import (
    check_one_spelling,
    for_librdkafka,
    given_settings,
    unreachable_warning,
    warn_of_old,
)
from moldau.cli.kafka.formatters import RecordWriter, make_formatter
from moldau.cli.kafka.included_topics import IncludedTopics
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    UsageError,
    bootstrap_server,
    check_required,
    command_config,
)
from moldau.cli.kafka.topics import topic_pattern
from moldau.core.config.topic_settings import INTERNAL_TOPICS

SUMMARY = "This tool helps to read data from Kafka topics and outputs it to standard output."

OPTIONS = (
    bootstrap_server(),
    command_config(),
    Option("topic", "The topic to read.", "topic"),
    Option("include", "A regular expression of topics to read.", "topic expression"),
    Option(
        "partition", "Read this partition only, from its end unless --offset says otherwise.", "partition", kind="int"
    ),
    Option("offset", "Where to begin: a number, earliest or latest.", "offset", default="latest"),
    Option("group", "The consumer group; without it one for this call.", "consumer group id"),
    Option("from-beginning", "Begin with the first record if the group has no committed offset."),
    Option("max-messages", "Stop after this number of records.", "num_messages", kind="int"),
    Option("timeout-ms", "Stop when no record came for this time.", "timeout_ms", kind="long"),
    Option("isolation-level", "read_committed or read_uncommitted.", "isolation level", default="read_uncommitted"),
    Option("skip-message-on-error", "Go on after a record that cannot be printed."),
    Option(
        "formatter", "What prints records.", "class", default="org.apache.kafka.tools.consumer.DefaultMessageFormatter"
    ),
    Option("formatter-property", "A setting of it; may be repeated.", "name=value"),
    Option("formatter-config", "A file of its settings.", "config file"),
    Option("property", "Now --formatter-property.", "name=value", is_deprecated=True),
    Option("key-deserializer", "How keys are read.", "class"),
    Option("value-deserializer", "How values are read.", "class"),
    Option("command-property", "A setting of the consumer; may be repeated.", "name=value"),
    Option("consumer-property", "Now --command-property.", "name=value", is_deprecated=True),
    Option("consumer.config", "Now --command-config.", "config file", is_deprecated=True),
    Option("enable-systest-events", "Say when it has ended, for tests of the system."),
)

_ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
_POLL_S = 0.1


class Plan(msgspec.Struct, frozen=True):
    """The records to read: where from, and how long."""

    topic: str | None
    include: str | None
    partition: int | None
    offset: int | None
    """None: from the group's committed offset, else by `auto.offset.reset`."""
    max_messages: int | None
    timeout_ms: int | None
    skips_errors: bool
    left_out: tuple[str, ...]
    """Topics that `include` excludes."""


def run(arguments: Arguments) -> int:
    settings, left_out = check(arguments)
    if sys.stdout is None:
        raise ArgumentError("standard output is closed")
    formatter = make_formatter(arguments)
    printed = 0
    plan = make_plan(arguments, left_out)
    reader = _Reader(settings, plan, formatter)
    try:
        return reader.read()
    except ArgumentError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        printed = reader.printed
        reader.close()
        sys.stdout.flush()
        print(f"Processed a total of {printed} messages", file=sys.stderr)
        if arguments.has("enable-systest-events"):
            print("shutdown_complete")


def check(arguments: Arguments) -> tuple[dict[str, object], tuple[str, ...]]:
    """The settings for librdkafka, and the topics that an expression leaves out. Raises UsageError for flags that
    contradict each other."""
    if arguments.has("topic") == arguments.has("include"):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    check_one_spelling(arguments, "property", "formatter-property")
    check_required(arguments, "bootstrap-server")
    if arguments.has("partition"):
        if not arguments.has("topic"):
            raise UsageError("The topic is required when partition is specified.")
        arguments.integer("partition")
    elif arguments.has("offset"):
        raise UsageError("The partition is required when offset is specified.")
    if arguments.has("offset"):
        text = arguments.required("offset").lower()
        if text not in ("earliest", "latest") and not (text.isdecimal() and int(text) < 1 << 63):
            raise UsageError(
                f"The provided offset value '{arguments.text('offset')}' is incorrect. "
                "Valid values are 'earliest', 'latest', or a non-negative long."
            )
        if arguments.has("from-beginning"):
            raise UsageError("Options from-beginning and offset cannot be specified together.")
    warn_of_old(arguments, "property", "formatter-property")
    if arguments.text("isolation-level") not in _ISOLATION_LEVELS:
        raise ArgumentError(f"Invalid value {arguments.text('isolation-level')} for configuration isolation.level")
    java_settings = given_settings(arguments, "consumer.config", "consumer-property")
    reads_internal = java_settings.get("exclude.internal.topics", "true").strip().lower() == "false"
    return _consumer_settings(arguments, java_settings), () if reads_internal else INTERNAL_TOPICS


def _consumer_settings(arguments: Arguments, java_settings: dict[str, str]) -> dict[str, object]:
    groups = {name for name in (arguments.text("group"), java_settings.get("group.id")) if name}
    if len(groups) > 1:
        listed = ", ".join(f"'{name}'" for name in sorted(groups))
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            f"or via '--consumer.config') do not match. Detected group ids: {listed}"
        )
    if arguments.has("group") and arguments.has("partition"):
        raise UsageError("Options group and partition cannot be specified together.")
    reset = java_settings.get("auto.offset.reset", "earliest" if arguments.has("from-beginning") else "latest")
    if arguments.has("from-beginning") and reset != "earliest":
        raise UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    settings = for_librdkafka(java_settings)
    settings.setdefault("client.id", "console-consumer")
    settings.update(
        {
            "bootstrap.servers": arguments.required("bootstrap-server"),
            "auto.offset.reset": reset,
            "isolation.level": arguments.required("isolation-level"),
            "log_level": 0,
            "error_cb": unreachable_warning(arguments.required("bootstrap-server")),
        }
    )
    if groups:
        settings["group.id"] = next(iter(groups))
    else:
        # a temporary group that commits nothing
        settings["group.id"] = f"console-consumer-{random.randrange(100_000)}"
        settings.setdefault("enable.auto.commit", "false")
    return settings


def make_plan(arguments: Arguments, left_out: tuple[str, ...]) -> Plan:
    """`left_out`: topics that an expression leaves out."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

    partition = arguments.integer("partition")
    offset: int | None = None
    if partition is not None:
        text = "earliest" if arguments.has("from-beginning") else arguments.required("offset").lower()
        offset = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}.get(text)
        if offset is None:
            offset = int(text)
    try:
        max_messages, timeout_ms = arguments.integer("max-messages"), arguments.integer("timeout-ms")
    except ArgumentError:
        print("Processed a total of 0 messages", file=sys.stderr)
        raise
    return Plan(
        arguments.text("topic"),
        arguments.text("include"),
        partition,
        offset,
        None if max_messages is None or max_messages < 0 else max_messages,
        None if timeout_ms is None or timeout_ms < 0 else timeout_ms,
        arguments.has("skip-message-on-error"),
        left_out,
    )


class _Reader:
    def __init__(self, settings: dict[str, object], plan: Plan, formatter: RecordWriter) -> None:
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        self.printed = 0
        self._plan = plan
        self._formatter = formatter
        try:
            self._consumer: Any = Consumer(settings)
            if plan.partition is not None:
                self._consumer.assign([TopicPartition(plan.topic, plan.partition, plan.offset)])
            elif plan.topic is not None:
                self._consumer.subscribe([plan.topic])
        except (KafkaException, ValueError) as error:
            raise ArgumentError(str(error.args[0])) from error
        pattern = None if plan.include is None else topic_pattern(plan.include)
        self._included = None if pattern is None else IncludedTopics(self._consumer, pattern, plan.left_out)

    def read(self) -> int:
        """Prints records until the count is reached, no record arrives within the time-out, or the user presses
        Ctrl-C."""
        from confluent_kafka import KafkaError as ClientError

        waits_for_topic = (
            ClientError.UNKNOWN_TOPIC_OR_PART,
            ClientError._UNKNOWN_PARTITION,
            ClientError._UNKNOWN_TOPIC,
        )
        plan = self._plan
        last = time.monotonic()
        while plan.max_messages is None or self.printed < plan.max_messages:
            if self._included is not None:
                self._included.look()
            message = self._consumer.poll(_POLL_S)
            if message is None or (message.error() is not None and message.error().code() in waits_for_topic):
                if plan.timeout_ms is not None and (time.monotonic() - last) * 1000 >= plan.timeout_ms:
                    return 0
                continue
            last = time.monotonic()
            error = message.error()
            if error is not None:
                raise ArgumentError(f"Error processing message, terminating consumer process: {error.str()}")
            self.printed += 1
            try:
                self._formatter.write(message, sys.stdout.buffer)
            except ValueError as problem:
                if not plan.skips_errors:
                    raise ArgumentError(
                        f"Error processing message, terminating consumer process: {problem}"
                    ) from problem
            sys.stdout.buffer.flush()
        return 0

    def close(self) -> None:
        self._consumer.close()
