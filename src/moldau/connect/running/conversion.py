"""Converters and transforms of a task: records of connectors to those of topics, and back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from moldau.connect.contract.shared_settings import HEADER_CONVERTER, KEY_CONVERTER, VALUE_CONVERTER
from moldau.connect.converting.converter import Converter, Role
from moldau.connect.converting.named import new_converter
from moldau.connect.converting.plain import ByteArrayConverter, StringConverter
from moldau.connect.data.record import Header, Record
from moldau.connect.data.schema import Type
from moldau.connect.handling.stages import Stage
from moldau.connect.running.errors import Errors
from moldau.connect.running.transactions import Outgoing
from moldau.connect.transforming.chain import Chain, chain_of

DEFAULT_CONVERTER: Final = "json"
DEFAULT_HEADER_CONVERTER: Final = "header"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_Made = TypeVar("_Made")


class Staged(Protocol):
    """Runs an operation of a stage. `executing`: the object that runs."""

    def __call__(self, stage: Stage, executing: object, operation: Callable[[], Any]) -> Any: ...


class _LeftOut(Exception):
    pass


def _at_once(stage: Stage, executing: object, operation: Callable[[], Any]) -> Any:
    return operation()


class Conversion:
    """`defaults`: the worker's converters, where the configuration has none. Raises ConfigError.

    A record is converted at once. Only if that fails, it is converted again stage by stage, which costs more, so that
    the stage is known, and a retriable error is tried again.
    """

    def __init__(self, config: Mapping[str, str], defaults: Mapping[str, str], errors: Errors) -> None:
        self._errors = errors
        self.key = _converter(config, defaults, KEY_CONVERTER, Role.KEY, DEFAULT_CONVERTER)
        self.value = _converter(config, defaults, VALUE_CONVERTER, Role.VALUE, DEFAULT_CONVERTER)
        self.header = _converter(config, defaults, HEADER_CONVERTER, Role.HEADER, DEFAULT_HEADER_CONVERTER)
        self.chain: Chain = chain_of(config)

    def encode(self, record: Record) -> Outgoing | None:
        """None: a transform left the record out, or its error is tolerated. Raises the error otherwise."""
        try:
            return self._encode(record, _at_once)
        except Exception:
            return self._in_stages(lambda stage: self._encode(record, stage), None)

    def decode(self, message: Message) -> Record | None:
        """None: a transform left the record out, or its error is tolerated. Raises the error otherwise."""
        try:
            return self._decode(message, _at_once)
        except Exception:
            return self._in_stages(lambda stage: self._decode(message, stage), message)

    def _in_stages(self, convert: Callable[[Staged], _Made | None], message: Message | None) -> _Made | None:
        def staged(stage: Stage, executing: object, operation: Callable[[], Any]) -> Any:
            name = type(executing).__qualname__
            passed = self._errors.run(stage, f"{type(executing).__module__}.{name}", operation, message)
            if passed is None:
                raise _LeftOut
            return passed.value

        try:
            return convert(staged)
        except _LeftOut:
            return None

    def _encode(self, record: Record, staged: Staged) -> Outgoing | None:
        changed: Record | None = staged(Stage.TRANSFORMATION, self.chain, lambda: self.chain.apply(record))
        if changed is None:
            return None
        one, topic = changed, changed.topic
        headers = staged(Stage.HEADER_CONVERTER, self.header, lambda: self.encode_headers(one)) if one.headers else []
        key = staged(
            Stage.KEY_CONVERTER, self.key, lambda: self.key.from_value(topic, headers, one.key_schema, one.key)
        )
        value = staged(
            Stage.VALUE_CONVERTER,
            self.value,
            lambda: self.value.from_value(topic, headers, one.value_schema, one.value),
        )
        return topic, value, key, one.partition, one.timestamp_ms, headers

    def _decode(self, message: Message, staged: Staged) -> Record | None:
        topic, headers = message.topic(), message.headers() or []
        kind, timestamp_ms = message.timestamp()
        key_schema, key = staged(
            Stage.KEY_CONVERTER, self.key, lambda: self.key.to_value(topic, headers, message.key())
        )
        value_schema, value = staged(
            Stage.VALUE_CONVERTER, self.value, lambda: self.value.to_value(topic, headers, message.value())
        )
        read = staged(Stage.HEADER_CONVERTER, self.header, lambda: self._headers(topic, headers)) if headers else ()
        record = Record(
            topic=topic,
            value=value,
            value_schema=value_schema,
            key=key,
            key_schema=key_schema,
            partition=message.partition(),
            timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
            headers=read,
            offset=message.offset(),
            original_topic=topic,
            original_partition=message.partition(),
        )
        changed: Record | None = staged(Stage.TRANSFORMATION, self.chain, lambda: self.chain.apply(record))
        return changed

    def _headers(self, topic: str, headers: Sequence[tuple[str, bytes | None]]) -> tuple[Header, ...]:
        return tuple(Header(name, *self.header.to_header(topic, name, one)) for name, one in headers)

    def encode_headers(self, record: Record) -> list[tuple[str, bytes | None]]:
        return [(one.key, self._encode_header(record.topic, one)) for one in record.headers]

    def headers_again(self, topic: str, headers: Sequence[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
        """The headers of a sink's row: the converter reads and writes them."""
        return [(one.key, self._encode_header(topic, one)) for one in self._headers(topic, headers)]

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


def keeps_texts(converter: Converter) -> bool:
    """Whether the converter gives a text in UTF-8."""
    return isinstance(converter, StringConverter) and converter.encoding == "utf-8"


def to_ms(moment: dt.datetime | None) -> int | None:
    """Milliseconds since 1970. As in Spark, a time without a zone is in the zone of the process."""
    return None if moment is None else (moment.astimezone(dt.UTC) - _EPOCH) // _MILLISECOND


def _converter(
    config: Mapping[str, str], defaults: Mapping[str, str], name: str, role: Role, default: str
) -> Converter:
    """The worker's converter has the worker's settings, that of the configuration its own."""
    given: Mapping[str, Any] = config if name in config else defaults
    return new_converter(given, role, default, name)
