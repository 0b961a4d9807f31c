"""Converters and transforms of a task: records of connectors to those of topics, and back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from moldau.connect.contract.shared_settings import HEADER_CONVERTER, KEY_CONVERTER, VALUE_CONVERTER
from moldau.connect.converting.converter import Converter, Role
from moldau.connect.converting.named import new_converter
from moldau.connect.converting.plain import ByteArrayConverter, StringConverter
from moldau.connect.data.record import Header, Record
from moldau.connect.data.schema import Type
from moldau.connect.transforming.chain import Chain, chain_of

DEFAULT_CONVERTER: Final = "json"
DEFAULT_HEADER_CONVERTER: Final = "header"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)


class Outgoing(NamedTuple):
    """The arguments of `Transactions.send`."""

    topic: str
    value: bytes | str | None
    key: bytes | str | None
    partition: int | None
    timestamp_ms: int | None
    headers: Sequence[tuple[str, bytes | None]]


class Conversion:
    """`defaults`: the worker's converters, where the configuration has none. Raises ConfigError."""

    def __init__(self, config: Mapping[str, str], defaults: Mapping[str, str]) -> None:
        self.key = _converter(config, defaults, KEY_CONVERTER, Role.KEY, DEFAULT_CONVERTER)
        self.value = _converter(config, defaults, VALUE_CONVERTER, Role.VALUE, DEFAULT_CONVERTER)
        self.header = _converter(config, defaults, HEADER_CONVERTER, Role.HEADER, DEFAULT_HEADER_CONVERTER)
        self.chain: Chain = chain_of(config)

    def encode(self, record: Record) -> Outgoing | None:
        """None: a transform left the record out. Raises DataError."""
        changed = self.chain.apply(record)
        if changed is None:
            return None
        topic = changed.topic
        headers = [(one.key, self._encode_header(topic, one)) for one in changed.headers]
        return Outgoing(
            topic,
            self.value.from_value(topic, headers, changed.value_schema, changed.value),
            self.key.from_value(topic, headers, changed.key_schema, changed.key),
            changed.partition,
            changed.timestamp_ms,
            headers,
        )

    def decode(self, message: Message) -> Record | None:
        """None: a transform left the record out. Raises DataError."""
        topic, headers = message.topic(), message.headers() or []
        kind, timestamp_ms = message.timestamp()
        key_schema, key = self.key.to_value(topic, headers, message.key())
        value_schema, value = self.value.to_value(topic, headers, message.value())
        return self.chain.apply(
            Record(
                topic=topic,
                value=value,
                value_schema=value_schema,
                key=key,
                key_schema=key_schema,
                partition=message.partition(),
                timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
                headers=tuple(Header(name, *self.header.to_header(topic, name, one)) for name, one in headers),
                offset=message.offset(),
                original_topic=topic,
                original_partition=message.partition(),
            )
        )

    def encode_headers(self, record: Record) -> list[tuple[str, bytes | None]]:
        return [(one.key, self._encode_header(record.topic, one)) for one in record.headers]

    def close(self) -> None:
        for one in (self.key, self.value, self.header):
            one.close()

    def _encode_header(self, topic: str, header: Header) -> bytes | None:
        """Bytes stay as they are."""
        if isinstance(header.value, bytes) and (header.schema is None or header.schema.type is Type.BYTES):
            return header.value
        return self.header.from_header(topic, header.key, header.schema, header.value)


def keeps_bytes(converter: Converter) -> bool:
    """Whether the converter gives bytes as they are."""
    return type(converter) is ByteArrayConverter


def keeps_texts(converter: Converter, config: Mapping[str, str], key: str) -> bool:
    """Whether the converter gives a text in UTF-8."""
    return type(converter) is StringConverter and not any(name.startswith(f"{key}.") for name in config)


def to_ms(moment: dt.datetime | None) -> int | None:
    """Milliseconds since 1970. As in Spark, a time without a zone is in the zone of the process."""
    return None if moment is None else (moment.astimezone(dt.UTC) - _EPOCH) // _MILLISECOND


def _converter(
    config: Mapping[str, str], defaults: Mapping[str, str], name: str, role: Role, default: str
) -> Converter:
    """The worker's converter has the worker's settings, that of the configuration its own."""
    given: Mapping[str, Any] = config if name in config else defaults
    return new_converter(given, role, default, name)
