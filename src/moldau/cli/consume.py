"""`moldau consume TOPIC`: follows a topic, or reads it to its present end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from moldau.cli.arguments import Subparsers, int32, int64
from moldau.cli.cluster import TIMEOUT_S, add_cluster_arguments, client_settings, explained
from moldau.cli.output import CommandError, print_json


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("consume", help="read records of a topic")
    parser.add_argument("topic")
    parser.add_argument(
        "--from",
        dest="start",
        default="end",
        metavar="WHERE",
        help="beginning, end (default) or an offset; with --group only where nothing is committed",
    )
    parser.add_argument("--until-end", action="store_true", help="stop at the end that the topic has at the start")
    parser.add_argument("--count", type=int64, metavar="N", help="stop after N records")
    parser.add_argument("--group", help="read as a member of this group and commit what was printed")
    parser.add_argument("--keys", action="store_true", help="print the key before the value, with a tab between")
    parser.add_argument("--partition", type=int32, help="only this partition (not with --group)")
    add_cluster_arguments(parser)
    parser.set_defaults(run=consume)


def consume(arguments: argparse.Namespace) -> int:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer

    if arguments.count is not None and arguments.count < 1:
        raise CommandError(f"--count takes a number from 1 on, not {arguments.count}")
    if arguments.group and (arguments.partition is not None or arguments.start not in ("beginning", "end")):
        raise CommandError("--group takes its partitions and offsets from the group: drop --partition and the offset")
    starts = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}
    start = starts.get(arguments.start)
    if start is None:
        start = int(arguments.start) if arguments.start.isdecimal() else -1
        if not 0 <= start < 1 << 63:
            raise CommandError(f"--from takes beginning, end or an offset, not {arguments.start!r}")
    settings = client_settings(
        arguments,
        **{
            "group.id": arguments.group or "moldau-cli",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest" if arguments.start == "beginning" else "latest",
            "error_cb": _outage_teller(arguments.bootstrap_server),
        },
    )
    with explained(arguments):
        consumer = Consumer(settings)
        try:
            ends = _open(consumer, arguments, start)
            _print_records(consumer, arguments, ends)
        finally:
            consumer.close()
    return 0


def _outage_teller(address: str) -> Callable[[Any], None]:
    """Says once that nobody answers any more: the consumer itself waits in silence until somebody does."""
    told: list[str] = []

    def tell(error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN and not told:
            told.append(address)
            print(f"moldau: {address} does not answer any more; trying on", file=sys.stderr, flush=True)

    return tell


def _open(consumer: Any, arguments: argparse.Namespace, start: int | None) -> dict[int, int]:
    """Points the consumer at its partitions; gives the end offset of each partition (as it is now) that has records."""
    from confluent_kafka import TopicPartition

    metadata = consumer.list_topics(arguments.topic, timeout=TIMEOUT_S)
    partitions = sorted(metadata.topics[arguments.topic].partitions)
    if not partitions:
        raise CommandError(f"unknown topic: {arguments.topic}")
    if arguments.partition is not None:
        if arguments.partition not in partitions:
            raise CommandError(f"{arguments.topic} has no partition {arguments.partition}")
        partitions = [arguments.partition]
    ends = {}
    for number in partitions:
        first, end = consumer.get_watermark_offsets(TopicPartition(arguments.topic, number), timeout=TIMEOUT_S)
        if end > max(first, start if start is not None and start > 0 else 0):
            ends[number] = end
    if arguments.group:
        consumer.subscribe([arguments.topic])
    else:
        consumer.assign([TopicPartition(arguments.topic, number, start) for number in partitions])
    return ends


def _print_records(consumer: Any, arguments: argparse.Namespace, ends: dict[int, int]) -> None:
    """Until the count, the end, or Ctrl-C. Offsets are committed after the record was printed."""
    from confluent_kafka import KafkaError, KafkaException

    printed = 0
    waiting = dict(ends)
    while (arguments.count is None or printed < arguments.count) and not (arguments.until_end and not waiting):
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            # The end also counts as reached where only markers or holes are left before it.
            if message.offset() >= waiting.get(message.partition(), 0):
                waiting.pop(message.partition(), None)
            continue
        _print_record(message, arguments)
        printed += 1
        if arguments.group:
            consumer.commit(message, asynchronous=True)
        if message.offset() + 1 >= waiting.get(message.partition(), sys.maxsize):
            waiting.pop(message.partition())
    if arguments.group and printed:
        consumer.commit(asynchronous=False)


def _print_record(message: Any, arguments: argparse.Namespace) -> None:
    key, value = message.key(), message.value()
    if arguments.json:
        print_json(
            {
                "topic": message.topic(),
                "partition": message.partition(),
                "offset": message.offset(),
                "timestamp": message.timestamp()[1],
                "key": _text(key),
                "value": _text(value),
                "headers": [[name, _text(header)] for name, header in message.headers() or []],
            }
        )
        return
    if arguments.keys:
        sys.stdout.buffer.write((key if key is not None else b"null") + b"\t")
    sys.stdout.buffer.write((value if value is not None else b"null") + b"\n")
    sys.stdout.buffer.flush()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
