"""`moldau produce TOPIC [VALUE ...]`: records from the command line, or a line of standard input each."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

from moldau.cli.arguments import Subparsers, int32
from moldau.cli.cluster import add_cluster_arguments, client_settings, explained
from moldau.cli.output import CommandError, print_json

FEW_BYTES = 64 * 1024
"""Records that are there at once and are no more than this are written without idempotence. librdkafka waits half a
second before it asks for a producer id, which serves only to try again without writing twice: these few are tried
once, and what failed is told."""


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("produce", help="write records to a topic")
    parser.add_argument("topic")
    parser.add_argument("value", nargs="*", help="records; without any, one for each line of standard input")
    parser.add_argument("--key", help="one key for all records")
    parser.add_argument("--key-separator", metavar="TEXT", help="what stands before it in a line is the key")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    parser.add_argument("--partition", type=int32, default=-1, help="default: by the hash of the key")
    parser.add_argument("--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="none")
    parser.add_argument("--acks", choices=["all", "1", "0"], default="all")
    add_cluster_arguments(parser)
    parser.set_defaults(run=produce)


def produce(arguments: argparse.Namespace) -> int:
    """Exit code 0 only if every record was acknowledged; the first failure is told in one sentence."""
    from confluent_kafka import Producer

    failures: list[str] = []
    acknowledged = 0

    def delivered(error: Any, _: object) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        elif not failures:
            failures.append(error.str())

    headers = [_split_header(text) for text in arguments.header]
    with explained(arguments):
        begun, are_few = (b"", True) if arguments.value else _begin_input()
        producer = Producer(_settings(arguments, are_few=are_few))
        for key, value in _records(arguments, begun, is_all=are_few):
            while True:
                try:
                    producer.produce(
                        arguments.topic,
                        value=value,
                        key=key,
                        headers=headers or None,
                        partition=arguments.partition,
                        on_delivery=delivered,
                    )
                    break
                except BufferError:
                    producer.poll(0.5)
            producer.poll(0)
            if failures:
                break
        producer.flush()
    if failures:
        raise CommandError(f"not all records were written ({acknowledged} were): {failures[0]}")
    if arguments.json:
        print_json({"topic": arguments.topic, "records": acknowledged})
    else:
        print(f"{acknowledged} record{'' if acknowledged == 1 else 's'} to {arguments.topic}", file=sys.stderr)
    return 0


def _settings(arguments: argparse.Namespace, *, are_few: bool) -> dict[str, object]:
    settings: dict[str, object] = {
        "acks": arguments.acks,
        "enable.idempotence": arguments.acks == "all" and not are_few,
        "compression.type": arguments.compression,
        # As Kafka's own producers choose, so that equal keys meet whoever wrote them.
        "partitioner": "murmur2_random",
        "message.timeout.ms": 15_000,
    }
    if are_few:
        settings["retries"] = 0
    return client_settings(arguments, **settings)


def _begin_input() -> tuple[bytes, bool]:
    """What standard input has at once, at most FEW_BYTES, and whether that is all of it. Waits for its first bytes."""
    import select

    if sys.stdin is None:
        raise CommandError("standard input is closed: name the records after the topic")
    descriptor, begun = sys.stdin.fileno(), b""
    while len(begun) < FEW_BYTES:
        if begun and not select.select([descriptor], [], [], 0)[0]:
            return begun, False
        read = os.read(descriptor, FEW_BYTES - len(begun))
        if not read:
            return begun, True
        begun += read
    return begun, False


def _input_lines(begun: bytes, *, is_all: bool) -> Iterator[bytes]:
    """The lines of standard input, of which `begun` is read already."""
    if is_all:
        yield from io.BytesIO(begun)
        return
    for line in io.BytesIO(begun):
        yield line if line.endswith(b"\n") else line + sys.stdin.buffer.readline()
    yield from sys.stdin.buffer


def _records(arguments: argparse.Namespace, begun: bytes, *, is_all: bool) -> Iterator[tuple[bytes | None, bytes]]:
    key = None if arguments.key is None else arguments.key.encode()
    if arguments.value:
        lines = (value.encode() for value in arguments.value)
    else:
        lines = (line.rstrip(b"\r\n") for line in _input_lines(begun, is_all=is_all))
    separator = (arguments.key_separator or "").encode()
    for line in lines:
        if separator and separator in line:
            own_key, _, value = line.partition(separator)
            yield own_key, value
        else:
            yield key, line


def _split_header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"--header takes NAME=VALUE, not {text!r}")
    return name, value.encode()
