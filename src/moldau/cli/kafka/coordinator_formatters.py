"""Formats records of `__consumer_offsets` and `__transaction_state` for `kafka-console-consumer`.

Each record is one JSON object. As with Kafka's own formatters, no line break separates the objects.
"""

from __future__ import annotations

from typing import Any, BinaryIO, Final

import msgspec

from moldau.cli.dump.decoders import DECODE_ERRORS, as_json, json_text
from moldau.wire.protocol.messages.group_records import GroupMetadataValue, OffsetCommitValue
from moldau.wire.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from moldau.wire.protocol.record_codec import GROUP_KEYS, decode_record_value

Kinds = dict[int, tuple[type[msgspec.Struct], type[msgspec.Struct]]]
"""The first number of a key -> the classes of the key and the value."""

_WRITTEN: Final[dict[str, Kinds]] = {
    "OffsetsMessageFormatter": {
        0: (GROUP_KEYS[0], OffsetCommitValue),
        1: (GROUP_KEYS[1], OffsetCommitValue),
    },
    "GroupMetadataMessageFormatter": {2: (GROUP_KEYS[2], GroupMetadataValue)},
    "TransactionLogMessageFormatter": {0: (TransactionLogKey, TransactionLogValue)},
}
"""The kinds of records that each of Kafka's formatter classes writes; it skips all others."""


class CoordinatorFormatter:
    """Kafka's formatter of this name."""

    def __init__(self, name: str) -> None:
        self._kinds = _WRITTEN[name]

    def write(self, message: Any, output: BinaryIO) -> None:
        """Writes one record. Raises ValueError for bytes that are no such record."""
        key: bytes | None = message.key()
        if key is None:
            return
        try:
            found = self._as_json(key, message.value())
        except DECODE_ERRORS as error:
            raise ValueError(f"Could not read record at offset {message.offset()} due to {error}") from error
        if found is not None:
            output.write(json_text(found).encode())

    def _as_json(self, key: bytes, value: bytes | None) -> dict[str, object] | None:
        """None for a kind that this formatter skips."""
        kind = int.from_bytes(key[:2], "big", signed=True)
        if kind not in self._kinds:
            return None
        key_class, value_class = self._kinds[kind]
        # the first number of a key is its kind: keys have only one version
        key_data = as_json(decode_record_value(key_class, bytes(2) + key[2:])[0], 0)
        document: dict[str, object] = {"key": {"type": kind, "data": key_data}, "value": None}
        if value is not None:
            decoded, version = decode_record_value(value_class, value)
            document["value"] = {"version": version, "data": as_json(decoded, version)}
        return document
