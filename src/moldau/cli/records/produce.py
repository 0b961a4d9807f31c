"""`moldau produce TOPIC [VALUE ...]`: sends values from the command line, or lines of standard input."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from moldau.cli.arguments import STANDARD_INPUT, Subparsers, int32
from moldau.cli.cluster import MAX_NAMED, add_cluster_arguments, client_settings, explained, in_words
from moldau.cli.output import CommandError
from moldau.cli.records.formats import FORMATS, add_format_arguments, encoded
from moldau.cli.records.input_lines import InputLines, StopSignals
from moldau.cli.records.text import Record, from_json
from moldau.types import counted

FEW_BYTES = 64 * 1024
"""Records that are there at once and no larger than this are written without idempotence. librdkafka waits half a
second before it asks for a producer id, which only allows retries without duplicates: these few records are tried once,
and a failure is reported."""
MESSAGE_TIMEOUT_MS = 15_000
MAX_RECORD_BYTES = 100_000_000
"""The broker's `max.message.bytes` is the effective limit; this one limits the memory of this process."""
_IDLE_S = 0.5


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "produce",
        help="write records to a topic",
        description="Writes each VALUE as a record; without any, each line of standard input. Ctrl-C writes the lines "
        "that were read, says how many records were written, and ends.",
        examples=(
            "moldau produce orders coffee tea",
            "moldau produce orders --key table-7 --header trace=1 coffee",
            "echo table-7:coffee | moldau produce orders --key-separator :",
            "moldau produce orders --key table-7 --null NULL NULL    # a tombstone: a key without a value",
            "echo 7:1.5 | moldau produce prices --key-separator : --key-format long --value-format double",
            "moldau consume orders --from beginning --until-end --json | moldau produce copy --json",
        ),
    )
    parser.add_argument("topic")
    parser.add_argument(
        "value", nargs="*", default=[], help="the values; without any, or for -, standard input is read"
    )
    parser.add_argument("--key", help="the key of every record")
    parser.add_argument(
        "--key-separator", metavar="TEXT", help="a line is KEY, this text, VALUE; a line without the text is a value"
    )
    parser.add_argument(
        "--header", action="append", default=[], metavar="NAME=VALUE", help="a header of every record; may be repeated"
    )
    parser.add_argument("--null", metavar="TEXT", help="a key or value that equals this text is null")
    parser.add_argument(
        "--keep-cr", action="store_true", help="a line ends with LF alone; without this, a CR before it is left out"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="each VALUE or line is a record as `moldau consume --json` prints it: key, value, headers, timestamp, "
        "partition",
    )
    add_format_arguments(parser, "written")
    parser.add_argument(
        "--partition",
        type=int32,
        metavar="N",
        help="write to this partition; -1 chooses by the hash of the key (default: the partition in the JSON, else -1)",
    )
    parser.add_argument(
        "--compression",
        choices=["none", "gzip", "snappy", "lz4", "zstd"],
        default="none",
        help="how batches are compressed (default %(default)s)",
    )
    parser.add_argument(
        "--acks",
        choices=["all", "1", "0"],
        default="all",
        help="which replicas acknowledge a record: all in sync, the leader, or none (default %(default)s)",
    )
    add_cluster_arguments(parser, produce, json=False, rights={"topic": "write"})


def produce(arguments: argparse.Namespace) -> int:
    """Exit code 0 only if every record was acknowledged; 128 plus the signal's number after Ctrl-C or SIGTERM."""
    if arguments.json and (arguments.key_separator or arguments.null is not None):
        raise CommandError("--json holds keys and nulls itself: drop --key-separator and --null")
    shape = _Shape(arguments)
    with StopSignals() as signals, explained(arguments):
        lines: InputLines | None = None
        if not arguments.value or arguments.value == [STANDARD_INPUT]:
            if sys.stdin is None:
                raise CommandError("standard input is closed: name the records after the topic")
            if sys.stdin.isatty():
                print("one record a line; Ctrl-D ends", file=sys.stderr)
            lines = InputLines(sys.stdin.fileno(), signals, max_line_bytes=MAX_RECORD_BYTES, keeps_cr=arguments.keep_cr)
        are_few = lines is None or lines.begin(FEW_BYTES)
        writer = _Writer(arguments, signals, are_few=are_few)
        try:
            texts = iter(map(os.fsencode, arguments.value)) if lines is None else lines.read(_IDLE_S, writer.idle)
            _write_all(writer, texts, shape, "record" if lines is None else "line")
        finally:
            writer.finish()
    return _report(arguments, writer, lines, signals)


def _write_all(writer: _Writer, texts: Iterator[bytes], shape: _Shape, named: str) -> None:
    """`named`: what a text is in a message."""
    for number, text in enumerate(texts, 1):
        try:
            record = shape.record(text)
        except CommandError as error:
            writer.failure = f"{named} {number}: {error}"
            return
        writer.write(record)
        if writer.failure:
            return


def _report(arguments: argparse.Namespace, writer: _Writer, lines: InputLines | None, signals: StopSignals) -> int:
    if writer.failure:
        written = f"{counted(writer.acknowledged, 'record')} written to {arguments.topic}"
        lost = writer.taken - writer.acknowledged
        raise CommandError(f"{writer.failure} ({written}{f', {lost} not' if lost else ''})")
    end = ""
    if signals.received:
        end = f"; stopped by {'Ctrl-C' if signals.received == signal.SIGINT else signals.name}"
        if lines is not None and lines.unfinished:
            end += f"; a line without its end ({lines.unfinished} bytes) was not written"
        if sys.stderr is not None and sys.stderr.isatty():
            print(file=sys.stderr)  # the terminal shows ^C in this line
    if lines is not None and lines.without_cr and not arguments.json:
        end += f"; {counted(lines.without_cr, 'line')} ended with CR LF: the CR was left out (--keep-cr)"
    print(f"{counted(writer.acknowledged, 'record')} to {arguments.topic}{writer.places()}{end}", file=sys.stderr)
    return 128 + signals.received if signals.received else 0


class _Shape:
    """How a text becomes a record. Raises CommandError for a key that its format rejects."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._is_json = bool(arguments.json)
        self._key_format = FORMATS.get(arguments.key_format or "")
        self._value_format = FORMATS.get(arguments.value_format or "")
        self._separator = os.fsencode(arguments.key_separator or "")
        self._null = None if arguments.null is None else os.fsencode(arguments.null)
        self._headers: list[tuple[str, bytes | None]] = [_split_header(text) for text in arguments.header]
        self._partition: int | None = arguments.partition
        self._key = None if arguments.key is None else self._key_of(os.fsencode(arguments.key))

    def record(self, text: bytes) -> Record:
        """Raises CommandError for a text that is not a record."""
        if self._is_json:
            read = from_json(text, self._key_format, self._value_format)
            return Record(
                read.key if self._key is None else self._key,
                read.value,
                [*read.headers, *self._headers],
                read.timestamp_ms,
                read.partition if self._partition is None else self._partition,
            )
        key, value = self._key, text
        if self._separator and self._separator in text:
            key_text, _, value = text.partition(self._separator)
            key = self._key_of(key_text)
        data = None if value == self._null else encoded("value", self._value_format, value)
        return Record(key, data, self._headers, partition=self._partition)

    def _key_of(self, text: bytes) -> bytes | None:
        return None if text == self._null else encoded("key", self._key_format, text)


class _Writer:
    """Writes records and counts them. `failure`: the reason of the first failed record."""

    def __init__(self, arguments: argparse.Namespace, signals: StopSignals, *, are_few: bool) -> None:
        from confluent_kafka import Producer

        self._producer: Any = Producer(_settings(arguments, are_few=are_few))
        self._arguments = arguments
        self._signals = signals
        self.taken = 0
        self.acknowledged = 0
        self.failure = ""
        self._offsets: dict[int, tuple[int, int]] = {}

    def write(self, record: Record) -> None:
        """Waits while too many records are unacknowledged."""
        from confluent_kafka import KafkaException

        # for librdkafka, no timestamp means "now"
        optional = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        self.taken += 1
        while not self.failure:
            try:
                self._producer.produce(
                    self._arguments.topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers or None,
                    partition=-1 if record.partition is None else record.partition,
                    on_delivery=self._delivered,
                    **optional,
                )
                break
            except BufferError:
                self._producer.poll(_IDLE_S)
            except KafkaException as error:
                self.failure = in_words(error.args[0], self._arguments)
        self._producer.poll(0)

    def idle(self) -> bool:
        """Handles acknowledgements while no input comes; False ends the reading."""
        self._producer.poll(0)
        return not self.failure

    def finish(self) -> None:
        """Waits until each record is acknowledged or has failed; a second Ctrl-C gives up the rest."""
        has_spoken = False
        while waiting := self._producer.flush(1.0):
            if self._signals.received and not has_spoken:
                has_spoken = True
                print(f"{counted(waiting, 'record')} not acknowledged yet; Ctrl-C again gives up", file=sys.stderr)

    def places(self) -> str:
        """The first and the last offset of each partition, as the end of a sentence; empty without acknowledgements.
        Records of other producers may lie between them."""
        found = [
            f"{self._arguments.topic}-{partition} at {first}{f' to {last}' if last > first else ''}"
            for partition, (first, last) in sorted(self._offsets.items())
        ]
        more = f" and {len(found) - MAX_NAMED} more partitions" if len(found) > MAX_NAMED else ""
        return f": {', '.join(found[:MAX_NAMED])}{more}" if found else ""

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
            offset, partition = message.offset(), message.partition()
            if offset is not None and offset >= 0:
                first, last = self._offsets.get(partition, (offset, offset))
                self._offsets[partition] = (min(first, offset), max(last, offset))
        elif not self.failure:
            self.failure = in_words(error, self._arguments)


def _settings(arguments: argparse.Namespace, *, are_few: bool) -> dict[str, object]:
    settings: dict[str, object] = {
        "acks": arguments.acks,
        "enable.idempotence": arguments.acks == "all" and not are_few,
        "compression.type": arguments.compression,
        # Kafka's own choice, so equal keys of all producers meet in one partition.
        "partitioner": "murmur2_random",
        "message.timeout.ms": MESSAGE_TIMEOUT_MS,
        "message.max.bytes": MAX_RECORD_BYTES,
    }
    if are_few:
        settings["retries"] = 0
    return client_settings(arguments, **settings)


def _split_header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"--header takes NAME=VALUE, not {text!r}")
    return name, os.fsencode(value)
