"""`kafka-producer-perf-test`: measures throughput and latency of a producer.

The client is librdkafka with the defaults of Kafka's Java producer: batches of 16 KiB, 5 ms of linger, acks=all.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

from moldau.cli.arguments import input_path
from moldau.cli.kafka.client_metrics import ClientMetrics
from moldau.cli.kafka.client_settings import for_librdkafka, unreachable_warning
from moldau.cli.kafka.connection import read_properties
from moldau.cli.kafka.latencies import Latencies
from moldau.cli.kafka.options import ArgumentError, Arguments, Option, UsageError, bootstrap_server, is_number
from moldau.cli.kafka.subcommands import Command

SUMMARY = "This tool is used to verify the producer performance."

OPTIONS = (
    bootstrap_server(is_required=False),
    Option("topic", "The topic to write to.", "topic", is_required=True),
    Option("num-records", "How many records to write.", "num-records", is_required=True),
    Option("throughput", "Records per second at most, about; -1: as many as can be.", "throughput", is_required=True),
    Option("record-size", "Bytes of a record. This, --payload-file or --payload-monotonic.", "record-size"),
    Option("payload-file", "A file of UTF-8 whose parts are the values of records, drawn at random.", "payload-file"),
    Option("payload-delimiter", "What stands between those parts, an expression.", "delimiter", default="\\n"),
    Option("payload-monotonic", "The values are 0, 1, 2 and so on."),
    Option("command-property", "Settings of the producer, as name=value.", "name=value", is_list=True),
    Option("producer-props", "Now --command-property.", "name=value", is_list=True, is_deprecated=True),
    Option("command-config", "A file of settings of the producer.", "config file"),
    Option("producer.config", "Now --command-config.", "config file", is_deprecated=True),
    Option("print-metrics", "Print the figures of the client, which are those of librdkafka, at the end."),
    Option("transactional-id", "Write in transactions of this id.", "transactional-id"),
    Option("transaction-duration-ms", "Commit a transaction after this time; 3000 where an id is given.", "ms"),
    Option("warmup-records", "The first records have no part in a last line, of the others.", "count", default="0"),
    Option("reporting-interval", "How often a line says how far it is.", "ms", default="5000"),
    Option("key-distribution", "none, range (0, 1, 2 and again) or random; of Kafka 4.4.", "keys", default="none"),
    Option("record-key-range", "How many keys there are; of Kafka 4.4.", "count"),
    Option("random-seed", "What payloads and keys are drawn with; of Kafka 4.4.", "seed", default="0"),
)

COMMANDS: Final[dict[str, Command]] = {}
"""Empty, but its presence means that flags are read as argparse reads them."""

_REQUIRED = ("topic", "num-records", "throughput")
_PAYLOADS = ("record-size", "payload-file", "payload-monotonic")
_SETTINGS = ("bootstrap-server", "command-property", "producer-props", "producer.config", "command-config")
_DISTRIBUTIONS = ("none", "range", "random")
_DEFAULT_DURATION_MS = 3_000
_DEFAULTS = {
    "acks": "all",
    "batch.size": "16384",
    "client.id": "perf-producer-client",
    "linger.ms": "5",
    "max.request.size": "1048576",
}
_MAX_BLOCK_S = 60.0
_FLUSH_S = 150.0
_LETTERS = bytes(65 + number % 26 for number in range(256))


class Plan(msgspec.Struct, frozen=True):
    """What to write, and how fast. `duration_ms` is None outside transactions."""

    topic: str
    record_count: int
    throughput: float
    record_size: int | None
    payloads: tuple[bytes, ...]
    warmup_count: int
    interval_ms: int
    duration_ms: int | None
    distribution: str
    key_range: int
    seed: int


def run(arguments: Arguments) -> int:
    plan, settings = check(arguments)
    metrics = ClientMetrics() if arguments.has("print-metrics") else None
    sender = _Sender(plan, settings, metrics)
    sender.send_all()
    for line in sender.totals():
        print(line, flush=True)
    if metrics is not None:
        metrics.print_now(sender.producer)
    return 0


def check(arguments: Arguments) -> tuple[Plan, dict[str, str]]:
    """The plan and the settings of the producer. Raises UsageError for flags that contradict each other."""
    if arguments.words:
        raise UsageError(f"unrecognized arguments: '{' '.join(arguments.words)}'")
    for name in _REQUIRED:
        if not arguments.has(name):
            raise UsageError(f"argument --{name} is required")
    payloads = [name for name in _PAYLOADS if arguments.has(name)]
    if not payloads:
        raise UsageError("one of the arguments --record-size --payload-file --payload-monotonic is required")
    if len(payloads) > 1:
        raise UsageError(f"argument --{payloads[1]}: not allowed with argument --{payloads[0]}")
    record_count = _above_zero(arguments, "num-records") or 0
    warmup_count = max(_whole(arguments, "warmup-records") or 0, 0)
    if warmup_count >= record_count:
        raise UsageError(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records."
        )
    record_size, duration_ms = (
        _above_zero(arguments, "record-size", 31),
        _above_zero(arguments, "transaction-duration-ms"),
    )
    interval_ms = _above_zero(arguments, "reporting-interval") or 0
    key_range = _key_range(arguments)
    throughput = _throughput(arguments)
    settings = _settings(arguments, is_transactional=duration_ms is not None)
    if duration_ms is None and "transactional.id" in settings:
        duration_ms = _DEFAULT_DURATION_MS
    plan = Plan(
        topic=arguments.required("topic"),
        record_count=record_count,
        throughput=throughput,
        record_size=record_size,
        payloads=read_payloads(arguments),
        warmup_count=warmup_count,
        interval_ms=interval_ms,
        duration_ms=duration_ms,
        distribution=arguments.required("key-distribution"),
        key_range=key_range,
        seed=_whole(arguments, "random-seed") or 0,
    )
    return plan, settings


def _whole(arguments: Arguments, name: str, bits: int = 63) -> int | None:
    text = arguments.text(name)
    if text is None:
        return None
    if not is_number(text, bits):
        kind = "Long" if bits > 31 else "Integer"
        raise UsageError(f"argument --{name}: could not convert '{text}' to {kind} (For input string: \"{text}\")")
    return int(text)


def _above_zero(arguments: Arguments, name: str, bits: int = 63) -> int | None:
    value = _whole(arguments, name, bits)
    if value is not None and value <= 0:
        raise UsageError(f"--{name} should be greater than zero.")
    return value


def _throughput(arguments: Arguments) -> float:
    text = arguments.required("throughput")
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"argument --throughput: could not convert '{text}' to Double (For input string: \"{text}\")"
        ) from None


def _key_range(arguments: Arguments) -> int:
    distribution = arguments.required("key-distribution")
    if distribution not in _DISTRIBUTIONS:
        choices = ",".join(_DISTRIBUTIONS)
        raise UsageError(f"argument --key-distribution: invalid choice: '{distribution}' (choose from {{{choices}}})")
    key_range = _above_zero(arguments, "record-key-range")
    if key_range is None and distribution != "none":
        raise UsageError("--record-key-range is required when --key-distribution is 'range' or 'random'.")
    if key_range is not None and distribution == "none":
        raise UsageError("--key-distribution must be 'range' or 'random' when --record-key-range is specified.")
    return key_range or 0


def _settings(arguments: Arguments, *, is_transactional: bool) -> dict[str, str]:
    if not arguments.has(*_SETTINGS):
        raise UsageError(
            "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or "
            "--command-config must be specified."
        )
    for new, old in (("command-property", "producer-props"), ("command-config", "producer.config")):
        if arguments.has(new) and arguments.has(old):
            raise UsageError(f"--{new} and --{old} cannot be specified together.")
        if arguments.has(old):
            print(
                f"Option --{old} has been deprecated and will be removed in a future version. Use --{new} instead.",
                flush=True,
            )
    path = arguments.text("command-config") or arguments.text("producer.config")
    given = read_properties(path) if path else {}
    for pair in (*arguments.texts("command-property"), *arguments.texts("producer-props")):
        pieces = pair.split("=")
        if len(pieces) != 2 or not all(pieces):
            raise ArgumentError(f"Invalid property: {pair}")
        given[pieces[0]] = pieces[1]
    if arguments.has("bootstrap-server"):
        given["bootstrap.servers"] = arguments.required("bootstrap-server")
    if not given.get("bootstrap.servers"):
        raise ArgumentError("No resolvable bootstrap urls given in bootstrap.servers")
    if arguments.has("transactional-id"):
        given["transactional.id"] = arguments.required("transactional-id")
    elif is_transactional:
        given.setdefault("transactional.id", f"performance-producer-{uuid4()}")
    settings = {**_DEFAULTS, **given}
    if settings["acks"] in ("-1", "all"):
        settings.setdefault("enable.idempotence", "true")
    elif "transactional.id" in settings:
        raise ArgumentError("Cannot set a transactional.id without also enabling idempotence.")
    return settings


def read_payloads(arguments: Arguments) -> tuple[bytes, ...]:
    """The parts of the `--payload-file`; empty without one. Raises ArgumentError."""
    name = arguments.text("payload-file")
    if name is None:
        return ()
    print(f"Reading payloads from: {Path(name).absolute()}", flush=True)
    try:
        text = input_path(name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    if not text:
        raise ArgumentError("File does not exist or empty file provided.")
    written = arguments.required("payload-delimiter")
    try:
        delimiter = re.compile("\n" if written == "\\n" else written)
    except re.error as error:
        raise ArgumentError(f"{written} is an invalid regex.") from error
    found = tuple(part.encode() for part in _parts(text, delimiter))
    print(f"Number of records read: {len(found)}", flush=True)
    if not found:
        raise ArgumentError(f"{name} holds no payload")
    return found


def _parts(text: str, delimiter: re.Pattern[str]) -> Iterator[str]:
    """Splits as Java's Scanner does: a delimiter at the beginning or the end gives no empty part."""
    start = 0
    for found in delimiter.finditer(text):
        if found.end() > found.start() and found.end() > 0:
            if found.start() > 0:
                yield text[start : found.start()]
            start = found.end()
    if start < len(text):
        yield text[start:]


class _Sender:
    """Sends records, and prints progress and failures; failures do not change the exit code."""

    def __init__(self, plan: Plan, settings: dict[str, str], metrics: ClientMetrics | None) -> None:
        from confluent_kafka import KafkaException, Producer

        self._plan = plan
        self._random = random.Random(plan.seed)
        try:
            self.producer: Any = Producer(
                {
                    **for_librdkafka(settings),
                    "partitioner": "murmur2_random",
                    "log_level": 0,
                    "error_cb": unreachable_warning(settings["bootstrap.servers"]),
                    "topic.metadata.propagation.max.ms": int(_MAX_BLOCK_S * 1000),
                    **({} if metrics is None else metrics.settings()),
                }
            )
            if plan.duration_ms is not None:
                self.producer.init_transactions(_MAX_BLOCK_S)
        except (KafkaException, ValueError) as error:
            raise ArgumentError(str(error.args[0])) from error
        self._all = Latencies(plan.record_count, _now_ms(), plan.interval_ms)
        self._steady: Latencies | None = None

    def send_all(self) -> None:
        from confluent_kafka import KafkaException

        try:
            self._send_all()
        except KafkaException as error:
            raise ArgumentError(error.args[0].str()) from error

    def _send_all(self) -> None:
        plan = self._plan
        if plan.warmup_count:
            print(
                f"Warmup first {plan.warmup_count} records. Steady state results will print after the complete test "
                "summary.",
                flush=True,
            )
        begin_ms = transaction_ms = _now_ms()
        is_open = False
        for number in range(plan.record_count):
            if plan.duration_ms is not None and not is_open:
                self.producer.begin_transaction()
                is_open, transaction_ms = True, _now_ms()
            now_ms = _now_ms()
            if plan.warmup_count and number == plan.warmup_count:
                self._steady = Latencies(plan.record_count - number, now_ms, plan.interval_ms, is_steady=True)
                self._all.end_windows()
            self._send(number)
            if plan.duration_ms is not None and plan.duration_ms <= now_ms - transaction_ms:
                self.producer.commit_transaction(_FLUSH_S)
                is_open = False
            self._wait_for_turn(number, begin_ms)
        if is_open:
            self.producer.commit_transaction(_FLUSH_S)
        self.producer.flush(_FLUSH_S)

    def _value(self, number: int) -> bytes:
        plan = self._plan
        if plan.payloads:
            return self._random.choice(plan.payloads)
        if plan.record_size is not None:
            return self._random.randbytes(plan.record_size).translate(_LETTERS)
        return str(number).encode()

    def _key(self, number: int) -> bytes | None:
        plan = self._plan
        if plan.distribution == "none":
            return None
        key = number % plan.key_range if plan.distribution == "range" else self._random.randrange(plan.key_range)
        return str(key).encode()

    def _send(self, number: int) -> None:
        from confluent_kafka import KafkaException

        delivered = partial(self._delivered, _now_ms(), self._steady)
        value, key = self._value(number), self._key(number)
        while True:
            try:
                self.producer.produce(self._plan.topic, value=value, key=key, on_delivery=delivered)
                break
            except BufferError:
                self.producer.poll(0.1)
            except KafkaException as error:
                print(error.args[0].str(), file=sys.stderr)
                break
        self.producer.poll(0)

    def _wait_for_turn(self, number: int, begin_ms: int) -> None:
        """Waits while the rate would exceed `--throughput`. With 0 only one record is sent."""
        rate = self._plan.throughput
        if rate < 0:
            return
        if rate == 0:
            while True:
                self.producer.poll(1.0)
        due_ms = begin_ms + 1000.0 * number / rate
        while (left_ms := due_ms - _now_ms()) > 0:
            self.producer.poll(left_ms / 1000)

    def _delivered(self, start_ms: int, steady: Latencies | None, error: Any, message: Any) -> None:
        if error is not None:
            print(error.str(), file=sys.stderr)
            return
        now_ms = _now_ms()
        for latencies in (self._all, steady):
            if latencies is not None:
                for line in latencies.record(now_ms - start_ms, len(message), now_ms):
                    print(line, flush=True)

    def totals(self) -> list[str]:
        now_ms = _now_ms()
        return [latencies.total(now_ms) for latencies in (self._all, self._steady) if latencies is not None]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
