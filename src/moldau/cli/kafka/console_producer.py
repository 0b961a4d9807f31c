"""`kafka-console-producer`: a record for each line of standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from moldau.cli.kafka.client_settings import (
    check_one_spelling,
    for_librdkafka,
    given_settings,
    number_of,
    unreachable_warning,
    warn_of_old,
)
from moldau.cli.kafka.connection import read_properties, split_properties
from moldau.cli.kafka.options import ArgumentError, Arguments, Option, bootstrap_server, check_required, command_config

SUMMARY = "This tool helps to read data from standard input and publish it to Kafka."
MAX_REQUEST_BYTES = 1_048_576
"""The default of `max.request.size` in Kafka's producer."""
LINE_READER = "org.apache.kafka.tools.LineMessageReader"

OPTIONS = (
    bootstrap_server(),
    command_config(),
    Option("topic", "The topic to write to.", "topic", is_required=True),
    Option("command-property", "A setting of the producer; may be repeated.", "name=value"),
    Option("producer-property", "Now --command-property.", "name=value", is_deprecated=True),
    Option("producer.config", "Now --command-config.", "config file", is_deprecated=True),
    Option("reader-property", "A setting of the reader of lines; may be repeated.", "name=value"),
    Option("reader-config", "A file of settings of the reader of lines.", "config file"),
    Option("property", "Now --reader-property.", "name=value", is_deprecated=True),
    Option("line-reader", "What reads the lines; only Kafka's own is known.", "reader class", default=LINE_READER),
    Option("sync", "Wait for each record's answer before the next."),
    Option(
        "compression-codec",
        "none, gzip, snappy, lz4 or zstd; gzip where none is named.",
        "compression codec",
        is_argument_optional=True,
    ),
    Option("batch-size", "Bytes of a batch.", "size", kind="int", default="16384"),
    Option("max-partition-memory-bytes", "Now --batch-size.", "size", kind="int", default="16384", is_deprecated=True),
    Option("message-send-max-retries", "How often a batch is sent again.", "count", kind="int", default="3"),
    Option("retry-backoff-ms", "The pause before that.", "ms", kind="long", default="100"),
    Option("timeout", "How long a batch waits for more records.", "ms", kind="long", default="1000"),
    Option("request-required-acks", "0, 1, or -1 for all replicas in sync.", "acks", default="-1"),
    Option("request-timeout-ms", "How long an answer is waited for.", "ms", kind="int", default="1500"),
    Option("metadata-expiry-ms", "When metadata is asked for again.", "ms", kind="long", default="300000"),
    Option("max-block-ms", "How long sending may wait for metadata or memory.", "ms", kind="long", default="60000"),
    Option("max-memory-bytes", "Memory for records that wait.", "bytes", kind="long", default="33554432"),
    Option("socket-buffer-size", "Bytes of the socket's buffer.", "size", kind="int", default="102400"),
)

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS = ("all", "-1", "0", "1")


class LineReader(msgspec.Struct, frozen=True):
    """Turns a line into a record: `[headers TAB] [key TAB] value`."""

    parse_key: bool = False
    parse_headers: bool = False
    key_separator: str = "\t"
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    null_marker: str | None = None
    ignore_error: bool = False

    def record(self, line: str, number: int) -> Record:
        """Raises ArgumentError if a separator is missing, unless errors are ignored."""
        headers: list[tuple[str, bytes | None]] = []
        key: str | None = None
        rest = line
        if self.parse_headers:
            text, found, rest = self._cut(rest, self.headers_delimiter, "headers delimiter", number)
            if found and text != self.null_marker:
                headers = self._headers(text, number)
        if self.parse_key:
            text, found, rest = self._cut(rest, self.key_separator, "key separator", number)
            key = text if found else None
        return Record(headers, self._bytes(key), self._bytes(rest))

    def _cut(self, text: str, separator: str, what: str, number: int) -> tuple[str, bool, str]:
        before, found, after = text.partition(separator)
        if found:
            return before, True, after
        if not self.ignore_error:
            raise ArgumentError(f"No {what} found on line number {number}: '{text}'")
        return "", False, text

    def _headers(self, text: str, number: int) -> list[tuple[str, bytes | None]]:
        found: list[tuple[str, bytes | None]] = []
        for pair in text.split(self.headers_separator):
            name, separator, value = pair.partition(self.headers_key_separator)
            if not separator and not self.ignore_error:
                raise ArgumentError(f"No header key separator found in pair '{pair}' on line number {number}")
            if name == self.null_marker:
                raise ArgumentError(f"Header keys should not be equal to the null marker '{name}'")
            found.append((name, self._bytes(value) if separator else None))
        return found

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self.null_marker else text.encode("utf-8", "surrogateescape")


class Record(msgspec.Struct, frozen=True):
    headers: list[tuple[str, bytes | None]]
    key: bytes | None
    value: bytes | None


def run(arguments: Arguments) -> int:
    check_required(arguments, "bootstrap-server", "topic")
    check_one_spelling(arguments, "reader-property", "property")
    settings, reader = producer_settings(arguments), line_reader(arguments)
    return _Sender(arguments, settings).send_all(_lines(), reader)


def line_reader(arguments: Arguments) -> LineReader:
    warn_of_old(arguments, "property", "reader-property", word="Warning:")
    if arguments.text("line-reader") != LINE_READER:
        raise ArgumentError(f"java.lang.ClassNotFoundException: {arguments.text('line-reader')}")
    path = arguments.text("reader-config")
    values = read_properties(path) if path else {}
    # split by hand: a separator may be a blank
    for name in ("reader-property", "property"):
        values.update(_unstripped(arguments.texts(name)))
    defaults = LineReader()
    return LineReader(
        parse_key=values.get("parse.key", "").strip().lower() == "true",
        parse_headers=values.get("parse.headers", "").strip().lower() == "true",
        key_separator=values.get("key.separator", defaults.key_separator),
        headers_delimiter=values.get("headers.delimiter", defaults.headers_delimiter),
        headers_separator=values.get("headers.separator", defaults.headers_separator),
        headers_key_separator=values.get("headers.key.separator", defaults.headers_key_separator),
        null_marker=values.get("null.marker"),
        ignore_error=values.get("ignore.error", "").strip().lower() == "true",
    )


def _unstripped(pairs: list[str]) -> dict[str, str]:
    split_properties(pairs)
    return {pair.partition("=")[0]: pair.partition("=")[2] for pair in pairs}


def producer_settings(arguments: Arguments) -> dict[str, str]:
    """Java's settings of the producer; `--command-property` overrides the flags of the tool."""
    codec = "none"
    if arguments.has("compression-codec"):
        codec = arguments.text("compression-codec") or "gzip"
    if codec not in _CODECS:
        raise ArgumentError(
            f"Invalid value {codec} for configuration compression.type: String must be one of: {', '.join(_CODECS)}"
        )
    acks = arguments.required("request-required-acks")
    if acks not in _ACKS:
        raise ArgumentError(f"Invalid value {acks} for configuration acks: String must be one of: {', '.join(_ACKS)}")
    old_size = arguments.has("max-partition-memory-bytes") and not arguments.has("batch-size")
    batch_size = number_of(arguments, "max-partition-memory-bytes" if old_size else "batch-size")
    number_of(arguments, "max-memory-bytes")
    from_flags = {
        "acks": acks,
        "compression.type": codec,
        "batch.size": str(batch_size),
        "retries": str(number_of(arguments, "message-send-max-retries")),
        "retry.backoff.ms": str(number_of(arguments, "retry-backoff-ms")),
        "linger.ms": str(number_of(arguments, "timeout")),
        "request.timeout.ms": str(number_of(arguments, "request-timeout-ms")),
        "metadata.max.age.ms": str(number_of(arguments, "metadata-expiry-ms")),
        "send.buffer.bytes": str(number_of(arguments, "socket-buffer-size")),
        "client.id": "console-producer",
    }
    settings = {**from_flags, **given_settings(arguments, "producer.config", "producer-property", word="Warning:")}
    # As in Kafka's producer: idempotence needs acks=all, and only a retried batch could be in the log twice.
    may_repeat = settings["acks"] in ("-1", "all") and settings["retries"] != "0"
    return {"enable.idempotence": "true", **settings} if may_repeat else settings


def _lines() -> Iterator[str]:
    if sys.stdin is None:
        raise ArgumentError("standard input is closed")
    is_terminal = sys.stdin.isatty()
    while True:
        if is_terminal:
            print(">", end="", flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        yield line.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")


class _Sender:
    """Sends records and prints failures. As with Kafka's tool, failures do not change the exit code."""

    def __init__(self, arguments: Arguments, settings: dict[str, str]) -> None:
        from confluent_kafka import KafkaException, Producer

        self._topic = arguments.required("topic")
        self._is_sync = arguments.has("sync")
        self._flush_s = number_of(arguments, "max-block-ms") / 1000 + 30
        try:
            self._producer: Any = Producer(
                {
                    "message.max.bytes": MAX_REQUEST_BYTES,
                    **for_librdkafka(settings),
                    "bootstrap.servers": arguments.required("bootstrap-server"),
                    "partitioner": "murmur2_random",
                    "log_level": 0,
                    "error_cb": unreachable_warning(arguments.required("bootstrap-server")),
                    # give up an unknown topic after this time, as max.block.ms does
                    "topic.metadata.propagation.max.ms": min(number_of(arguments, "max-block-ms"), 3_600_000),
                }
            )
        except (KafkaException, ValueError) as error:
            raise ArgumentError(str(error.args[0])) from error

    def send_all(self, lines: Iterator[str], reader: LineReader) -> int:
        try:
            for number, line in enumerate(lines, 1):
                self._send(reader.record(line, number))
        finally:
            # send the records before a bad line
            self._producer.flush(self._flush_s)
        return 0

    def _send(self, record: Record) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers or None,
                    on_delivery=self._delivered,
                )
                break
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                self._delivered(error.args[0])
                break
        if self._is_sync:
            self._producer.flush(self._flush_s)
        else:
            self._producer.poll(0)

    def _delivered(self, error: Any, _: object = None) -> None:
        if error is not None:
            print(f"Error when sending message to topic {self._topic}: {error.str()}", file=sys.stderr)
