"""`moldau consume TOPIC`: follows a topic, or reads a part of it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from moldau.cli.access import access_of
from moldau.cli.arguments import TIMES, Subparsers, int32, int64, time_ms
from moldau.cli.cluster import (
    TIMEOUT_S,
    add_cluster_arguments,
    add_registry_argument,
    client_settings,
    explained,
    in_words,
    registry_of,
)
from moldau.cli.diagnosis.refusals import is_denial
from moldau.cli.output import CommandError, print_json
from moldau.cli.records.formats import FORMATS, Part, RecordFormat, add_format_arguments
from moldau.cli.records.text import TEMPLATE_FIELDS, parse_template
from moldau.products.record_json import record_as_json
from moldau.types import hint

if TYPE_CHECKING:
    from moldau.products.registered_values import RegisteredValues

BEGINNING, END = "beginning", "end"
MAX_LAST = 100_000
_POLL_S = 0.5
Printer = Callable[[Any], None]


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "consume",
        help="read records of a topic",
        description="Prints the value of each record on a line; an absent key or value (a tombstone) as null. Without "
        "a flag that ends the reading it waits for new records until Ctrl-C.",
        examples=(
            "moldau consume orders --from beginning",
            "moldau consume orders --last 10",
            "moldau consume orders --from 1h --until-end --keys",
            "moldau consume orders --from 2026-01-31 --until 2026-02-01 --partition 0",
            "moldau consume orders --from beginning --registry http://127.0.0.1:8081",
            "moldau consume prices --from beginning --keys --key-format long --value-format double",
            r"moldau consume orders --template '{time} {partition}:{offset}\t{key}\t{value}'",
            "moldau consume orders --from beginning --until-end --json > orders.json",
        ),
    )
    parser.add_argument("topic")
    parser.add_argument(
        "--from",
        dest="start",
        type=_where,
        default=END,
        metavar="WHERE",
        help=f"beginning, end (default), an offset, or a time: {TIMES}; with --group only where nothing is committed",
    )
    parser.add_argument("--last", type=int64, metavar="N", help="print the last N records, then stop")
    parser.add_argument("--until-end", action="store_true", help="stop at the end that the topic has at the start")
    parser.add_argument(
        "--until", type=time_ms, metavar="TIME", help="stop in each partition at its first record of this time or later"
    )
    parser.add_argument("--count", type=int64, metavar="N", help="stop after N records")
    parser.add_argument("--group", help="read as a member of this group, and commit offsets of printed records")
    parser.add_argument("--partition", type=int32, metavar="N", help="only this partition (not with --group)")
    parser.add_argument("--keys", action="store_true", help="print the key before the value, with a tab between")
    parser.add_argument(
        "--template",
        metavar="TEXT",
        help="print each record by this text, in which these fields are replaced: "
        + " ".join(f"{{{name}}}" for name in TEMPLATE_FIELDS),
    )
    add_format_arguments(parser, "read")
    add_registry_argument(
        parser,
        "decode keys and values by the schemas of this registry (Avro, Protobuf, JSON), and print them as JSON",
        "not at all",
        "; what names no schema is printed as it is, and what has a format by that",
    )
    parser.add_argument(
        "--null", default="null", metavar="TEXT", help="printed for a missing value (default %(default)s)"
    )
    add_cluster_arguments(parser, consume, rights={"topic": "read", "group": "read"})


class Moment(msgspec.Struct, frozen=True):
    """A place in a topic: the first record of this time or later."""

    timestamp_ms: int


Where = str | int | Moment


def _where(text: str) -> Where:
    if text in (BEGINNING, END):
        return text
    if text.isdecimal() and text.isascii() and int(text) < 1 << 63:
        return int(text)
    try:
        return Moment(time_ms(text))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"takes beginning, end, an offset, or a time ({TIMES}), not {text!r}"
        ) from None


def consume(arguments: argparse.Namespace) -> int:
    from confluent_kafka import Consumer

    _check(arguments)
    printer = _printer(arguments)
    settings = client_settings(
        arguments,
        **{
            "group.id": arguments.group or "moldau-cli",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest" if arguments.start == BEGINNING else "latest",
            "error_cb": _outage_teller(str(access_of(arguments))),
        },
    )
    with explained(arguments):
        consumer = Consumer(settings)
        try:
            partitions = _partitions(consumer, arguments)
            if arguments.last is not None:
                from moldau.cli.records.last_records import last_records

                for message in last_records(consumer, arguments.topic, partitions, arguments.last):
                    printer(message)
            else:
                _follow(consumer, arguments, partitions, printer)
        finally:
            consumer.close()
    return 0


def _check(arguments: argparse.Namespace) -> None:
    for flag, number in (("--count", arguments.count), ("--last", arguments.last)):
        if number is not None and number < 1:
            raise CommandError(f"{flag} takes a number from 1 on, not {number}")
    if arguments.last is not None:
        beside = [
            flag
            for flag, is_given in (
                ("--from", arguments.start != END),
                ("--until", arguments.until is not None),
                ("--count", arguments.count is not None),
                ("--group", arguments.group),
            )
            if is_given
        ]
        if beside:
            raise CommandError(f"--last says which records and when to stop: drop {' and '.join(beside)}")
        if arguments.last > MAX_LAST:
            raise CommandError(f"--last takes at most {MAX_LAST}; --from reads more")
    if arguments.group and (arguments.partition is not None or arguments.start not in (BEGINNING, END)):
        raise CommandError("--group takes its partitions and offsets from the group: drop --partition and the offset")
    if arguments.template is not None and (arguments.json or arguments.keys):
        raise CommandError("--template says what is printed: drop --json and --keys")


def _outage_teller(address: str) -> Callable[[Any], None]:
    """Prints once that no broker answers any more: the consumer itself waits silently."""
    told: list[str] = []

    def tell(error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN and not told:
            told.append(address)
            print(f"moldau: {address} does not answer any more; trying again", file=sys.stderr, flush=True)

    return tell


def _partitions(consumer: Any, arguments: argparse.Namespace) -> list[int]:
    """The partitions to read."""
    metadata = consumer.list_topics(arguments.topic, timeout=TIMEOUT_S)
    found = metadata.topics.get(arguments.topic)
    if found is not None and found.error is not None and is_denial(found.error.code()):
        raise CommandError(in_words(found.error, arguments))
    partitions = sorted(found.partitions) if found is not None else []
    if not partitions:
        known = consumer.list_topics(timeout=TIMEOUT_S).topics
        raise CommandError(f"unknown topic: {arguments.topic}{hint(arguments.topic, known)}")
    if arguments.partition is None:
        return partitions
    if arguments.partition not in partitions:
        raise CommandError(f"{arguments.topic} has no partition {arguments.partition}")
    return [arguments.partition]


def _start_offsets(consumer: Any, arguments: argparse.Namespace, partitions: list[int]) -> dict[int, int]:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    start: Where = arguments.start
    if isinstance(start, Moment):
        asked = [TopicPartition(arguments.topic, number, start.timestamp_ms) for number in partitions]
        # -1 (OFFSET_END) if every record is earlier
        return {row.partition: row.offset for row in consumer.offsets_for_times(asked, timeout=TIMEOUT_S)}
    if isinstance(start, int):
        return dict.fromkeys(partitions, start)
    return dict.fromkeys(partitions, OFFSET_BEGINNING if start == BEGINNING else OFFSET_END)


def _follow(consumer: Any, arguments: argparse.Namespace, partitions: list[int], printer: Printer) -> None:
    """Prints records until the count, the time or the end is reached, or Ctrl-C comes. Commits the offset of a record
    after printing it."""
    from confluent_kafka import TopicPartition

    starts = _start_offsets(consumer, arguments, partitions)
    reading = _Reading(arguments, partitions)
    if arguments.until_end:
        for number in partitions:
            first, end = consumer.get_watermark_offsets(TopicPartition(arguments.topic, number), timeout=TIMEOUT_S)
            begin = end if starts[number] == -1 and not arguments.group else max(first, starts[number])
            reading.ends_at(number, begin, end)
    if arguments.group:
        consumer.subscribe([arguments.topic])
    else:
        consumer.assign([TopicPartition(arguments.topic, number, starts[number]) for number in partitions])
    if sys.stderr.isatty() and arguments.start == END and not arguments.until_end:
        print("waiting for new records (--from beginning reads all); Ctrl-C ends", file=sys.stderr)
    next_offsets: dict[int, int] = {}
    while not reading.is_done:
        message = reading.next_record(consumer)
        if message is None:
            continue
        printer(message)
        if arguments.group:
            next_offsets[message.partition()] = message.offset() + 1
            consumer.commit(message, asynchronous=True)
    if next_offsets:
        # passed explicitly, because librdkafka forgets stored offsets at a rebalance
        offsets = [TopicPartition(arguments.topic, *position) for position in next_offsets.items()]
        consumer.commit(offsets=offsets, asynchronous=False)


class _Reading:
    """The partitions that are still read, and the number of records so far."""

    def __init__(self, arguments: argparse.Namespace, partitions: list[int]) -> None:
        self.printed = 0
        self._count: int | None = arguments.count
        self._until_ms: int | None = arguments.until
        self._open = set(partitions)
        self._at_end: set[int] = set()
        self._ends: dict[int, int] = {}

    @property
    def is_done(self) -> bool:
        return not self._open or (self._count is not None and self.printed >= self._count)

    def ends_at(self, partition: int, start: int, end: int) -> None:
        """Reads the partition up to this offset, exclusive."""
        self._ends[partition] = end
        if start >= end:
            self._open.discard(partition)

    def next_record(self, consumer: Any) -> Any | None:
        """The next record to print; None if none came in time."""
        from confluent_kafka import KafkaError, KafkaException

        message = consumer.poll(_POLL_S)
        if message is None:
            if self._until_ms is not None and time.time() * 1000 >= self._until_ms:
                self._open -= self._at_end
            return None
        partition, offset, error = message.partition(), message.offset(), message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            self._at_end.add(partition)
            # The end is also reached if only markers or gaps are left before it.
            if offset >= self._ends.get(partition, sys.maxsize):
                self._open.discard(partition)
            return None
        self._at_end.discard(partition)
        if self._until_ms is not None and message.timestamp()[1] >= self._until_ms:
            self._open.discard(partition)
        if offset + 1 >= self._ends.get(partition, sys.maxsize):
            is_inside = partition in self._open and offset < self._ends[partition]
            self._open.discard(partition)
        else:
            is_inside = partition in self._open
        self.printed += is_inside
        return message if is_inside else None


def _printer(arguments: argparse.Namespace) -> Printer:
    if sys.stdout is None:
        raise CommandError("standard output is closed")
    shown = _ShownParts(arguments)
    if arguments.json:
        return lambda message: print_json(record_as_json(message) | shown.json_fields(message))
    null = os.fsencode(arguments.null)
    if arguments.template is not None:
        write = parse_template(arguments.template, null)
    else:
        write = parse_template("{key}\t{value}" if arguments.keys else "{value}", null)

    def print_line(message: Any) -> None:
        sys.stdout.buffer.write(write(_ShownMessage(message, shown) if shown.any else message) + b"\n")
        sys.stdout.buffer.flush()

    return print_line


def _registered_values(arguments: argparse.Namespace) -> RegisteredValues | None:
    """Raises CommandError if the registry does not answer."""
    registry = registry_of(arguments)
    if registry is None:
        return None
    from moldau.errors import MoldauError
    from moldau.extras import MissingExtraError
    from moldau.products.registered_values import RegisteredValues

    try:
        values = RegisteredValues(registry)
        values.check(int(TIMEOUT_S * 1_000))
    except (MoldauError, MissingExtraError) as error:
        raise CommandError(str(error)) from error
    return values


class _ShownParts:
    """Keys and values as text or JSON: by their format, else by a schema of the registry, else unchanged. The methods
    raise CommandError for bytes that a format rejects."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._formats: dict[Part, RecordFormat | None] = {
            "key": FORMATS.get(arguments.key_format or ""),
            "value": FORMATS.get(arguments.value_format or ""),
        }
        self._values = _registered_values(arguments)
        self.any = self._values is not None or any(self._formats.values())

    def json_fields(self, message: Any) -> dict[str, object]:
        """The key and the value, if a format or a schema decodes them."""
        found: dict[str, object] = {}
        for part, record_format in self._formats.items():
            data = _data_of(part, message)
            if record_format is not None and data is not None:
                found[part] = _read(part, message, data, record_format.to_json)
            elif record_format is None and self._values is not None:
                decoded = self._values.decoded(data)
                if decoded is not None:
                    found[part] = decoded.value
        return found

    def text(self, part: Part, message: Any) -> bytes | None:
        data, record_format = _data_of(part, message), self._formats[part]
        if data is None:
            return None
        if record_format is not None:
            text: bytes = _read(part, message, data, record_format.to_text)
            return text
        found = None if self._values is None else self._values.decoded(data)
        return data if found is None else found.text().encode("utf-8", "replace")


def _data_of(part: Part, message: Any) -> bytes | None:
    data: bytes | None = message.key() if part == "key" else message.value()
    return data


def _read(part: Part, message: Any, data: bytes, read: Callable[[bytes], Any]) -> Any:
    try:
        return read(data)
    except ValueError as error:
        place = f"{message.topic()}-{message.partition()} at {message.offset()}"
        raise CommandError(f"{place}: the {part} {error}") from None


class _ShownMessage:
    """A message with the key and value as text."""

    def __init__(self, message: Any, shown: _ShownParts) -> None:
        self._message = message
        self._shown = shown

    def key(self) -> bytes | None:
        return self._shown.text("key", self._message)

    def value(self) -> bytes | None:
        return self._shown.text("value", self._message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)
