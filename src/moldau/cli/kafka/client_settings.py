"""Translates settings of Kafka's Java clients for librdkafka.

Most names are the same. Settings that only Java has are ignored, as Kafka's clients ignore unknown names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from moldau.cli.kafka.connection import read_properties, split_properties
from moldau.cli.kafka.options import ArgumentError, Arguments, UsageError
from moldau.client.protocol.secrets import AccessError
from moldau.client.protocol.security import ClientSecurity
from moldau.errors import KafkaError
from moldau.transport.librdkafka import security_settings

_RENAMED = {
    "max.block.ms": None,
    "buffer.memory": None,
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.poll.records": None,
    "default.api.timeout.ms": None,
    "key.serializer": None,
    "value.serializer": None,
    "key.deserializer": None,
    "value.deserializer": None,
    "interceptor.classes": None,
    "metric.reporters": None,
    "partitioner.class": None,
    "exclude.internal.topics": None,
}
_KNOWN = frozenset(
    {
        "acks",
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "batch.size",
        "bootstrap.servers",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "compression.type",
        "connections.max.idle.ms",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.idempotence",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "isolation.level",
        "linger.ms",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.request.size",
        "message.max.bytes",
        "metadata.max.age.ms",
        "partition.assignment.strategy",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "session.timeout.ms",
        "transaction.timeout.ms",
        "transactional.id",
    }
)


def given_settings(arguments: Arguments, old_file: str, old_property: str, *, word: str = "Option") -> dict[str, str]:
    """Java's settings from the files and flags, whose names are those of 4.2 or the older ones; flags override
    files."""
    for new, old in (("command-config", old_file), ("command-property", old_property)):
        check_one_spelling(arguments, new, old)
    warn_of_old(arguments, old_file, "command-config", word=word)
    warn_of_old(arguments, old_property, "command-property", word=word)
    path = arguments.text("command-config") or arguments.text(old_file)
    settings = read_properties(path) if path else {}
    for name in ("command-property", old_property):
        settings.update(split_properties(arguments.texts(name)))
    return settings


def check_one_spelling(arguments: Arguments, first: str, second: str) -> None:
    if arguments.has(first) and arguments.has(second):
        raise UsageError(f"Options --{first} and --{second} cannot be specified together.")


def warn_of_old(arguments: Arguments, old: str, new: str, *, word: str = "Option") -> None:
    if arguments.has(old):
        print(f"{word} --{old} is deprecated and will be removed in a future version. Use --{new} instead.", flush=True)


def unreachable_warning(address: str) -> Callable[[Any], None]:
    """A callback for `error_cb`: prints once that no broker answers. The client goes on trying, as Kafka's tools do."""
    said: list[str] = []

    def warn(error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN and not said:
            said.append(address)
            print(f"WARN Connection to {address} could not be established. Trying again.", file=sys.stderr, flush=True)

    return warn


def for_librdkafka(settings: Mapping[str, str]) -> dict[str, object]:
    """librdkafka's names of these settings, including passwords. Raises ArgumentError for unsupported security."""
    try:
        found = security_settings(ClientSecurity.from_properties(settings))
    except (AccessError, KafkaError) as error:
        raise ArgumentError(str(error)) from error
    for name, value in settings.items():
        if name in _RENAMED:
            renamed = _RENAMED[name]
            if renamed is not None:
                found[renamed] = value
        elif name in _KNOWN:
            found[name] = value
    if "max.request.size" in found:
        found["message.max.bytes"] = found.pop("max.request.size")
    if found.get("acks") == "-1":
        found["acks"] = "all"
    return found


def number_of(arguments: Arguments, name: str) -> int:
    """The number of a flag that has a default. Raises ArgumentError."""
    value = arguments.integer(name)
    if value is None:
        raise ArgumentError(f"Option {name} requires an argument")
    return value
