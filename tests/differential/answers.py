"""A response in plain values, without values that differ between brokers: ids, addresses, the present time.

Lists of structs are sorted: Kafka gives many of them in the order of a hash map.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from moldau.types import ZERO_UUID
from moldau.wire.protocol.api_keys import API_VERSIONS
from moldau.wire.protocol.messages.api_versions import ApiVersion
from moldau.wire.protocol.messages.delegation_tokens import DescribedDelegationToken
from moldau.wire.protocol.messages.fetch import FetchResponse
from moldau.wire.protocol.messages.transactions import DescribeTransactionsTopic
from moldau.wire.protocol.schema import Array, Bytes, Nested, fields_of
from moldau.wire.records.batch import HEADER_SIZE, iterate_batches
from moldau.wire.records.record import read_records
from tests.differential.step import Bindings

DROPPED = frozenset(
    ("throttle_time_ms", "cluster_id", "host", "port", "total_bytes", "usable_bytes", "log_dir", "client_host")
)
"""They depend on the machine, the address or the moment. `partition_size` and offsets stay."""
HOUR_MS = 3_600_000
TOKEN_GRAIN_MS = 300_000
OFFSETS_TOPIC = "__consumer_offsets"


GROWING = {
    "DescribeQuorumResponse": frozenset(("high_watermark", "log_end_offset", "leader_epoch")),
    "ApiVersionsResponse": frozenset(("finalized_features_epoch",)),
}
"""Offsets of the metadata log, into which each broker writes its own records."""
OWNED = {"ListedGroup": "group_id", "ListedConfigResource": "resource_name", "ListedTransaction": "transactional_id"}
"""Lists of everything: entries of other sequences are left out."""


def plain(answer: Any, version: int, bindings: Bindings, prefix: str) -> Any:
    """The JSON values of this version's response, in a canonical order. `prefix`: of the sequence."""
    return _struct(answer, version, Words(bindings, prefix, GROWING.get(type(answer).__name__, frozenset())))


class Words:
    """Replaces a value that each broker makes up: by the sequence's name for it."""

    def __init__(self, bindings: Bindings, prefix: str, dropped: frozenset[str]) -> None:
        self.prefix = prefix
        self.dropped = DROPPED | dropped
        self.base_ms = bindings.base_ms
        self.names: dict[object, str] = {ZERO_UUID: "none"}
        for name, value in bindings.values.items():
            kind, _, label = name.partition(":")
            if kind == "topic":
                self.names[value] = f"id of {label}"
            elif kind in ("member", "producer"):
                self.names[value[0]] = f"{kind} {label}"
            elif kind == "token":
                token_id, hmac = value
                self.names |= {token_id: f"token {label}", hmac: f"hmac {label}"}

    def is_mine(self, item: Any) -> bool:
        if isinstance(item, ApiVersion):
            # features that are not served are not advertised
            return item.api_key in API_VERSIONS
        if isinstance(item, DescribedDelegationToken):
            return item.token_id in self.names
        name = OWNED.get(type(item).__name__)
        return name is None or self.prefix in getattr(item, name)

    def word_of_token(self, field: str, value: Any) -> Any:
        """Of a delegation token: its times in steps of five minutes, so a slow response is no difference."""
        if field in ("token_id", "hmac"):
            return self.names.get(value, value)
        if "timestamp" in field and value > 0:
            return f"base+{round((value - self.base_ms) / TOKEN_GRAIN_MS) * TOKEN_GRAIN_MS}"
        return value

    def word(self, field: str, value: Any) -> Any:
        if field in ("topic_id", "replica_directory_id"):
            return self.names.get(value, "an id") if field == "topic_id" else "an id"
        if field in ("member_id", "leader", "skipped_member") and isinstance(value, str):
            return self.names.get(value, "a member" if value else "")
        if field == "producer_id":
            return self.names.get(value, value if value < 0 else "an id")
        if field == "session_id":
            return value != 0
        if field == "documentation":
            return value is not None
        if isinstance(value, int) and not isinstance(value, bool) and value > 1_000_000_000_000:
            distance = value - self.base_ms
            return f"base+{distance}" if 0 <= distance < HOUR_MS // 2 else "now" if distance < 3 * HOUR_MS else value
        return value


def _struct(message: msgspec.Struct, version: int, words: Words) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(message, DescribeTransactionsTopic) and message.topic == OFFSETS_TOPIC:
        # by the hashes of the groups, whose names differ in each run
        message = DescribeTransactionsTopic(message.topic)
    for field in fields_of(type(message)):
        if field.name in words.dropped or not field.is_present(version):
            continue
        value = getattr(message, field.name)
        if value is None:
            found[field.name] = None
        elif isinstance(field.type, Nested):
            found[field.name] = _struct(value, version, words)
        elif isinstance(field.type, Array):
            is_nested = isinstance(field.type.element, Nested)
            mine = [item for item in value if words.is_mine(item)]
            items = [_struct(item, version, words) if is_nested else _value(item) for item in mine]
            if isinstance(message, FetchResponse) and field.name == "responses":
                items = _joined(items)
            found[field.name] = sorted(items, key=json.dumps)
        elif isinstance(field.type, Bytes) and field.type.is_view:
            found[field.name] = _records(value, words)
        elif "DelegationToken" in type(message).__name__:
            found[field.name] = _value(words.word_of_token(field.name, value))
        else:
            found[field.name] = _value(words.word(field.name, value))
    return found


def _joined(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merges the entries of a topic: it repeats for each run of its partitions, in any order."""
    joined: dict[str, dict[str, Any]] = {}
    for topic in topics:
        known = joined.setdefault(topic.get("topic") or topic["topic_id"], {**topic, "partitions": []})
        known["partitions"] = sorted([*known["partitions"], *topic["partitions"]], key=json.dumps)
    return list(joined.values())


def _value(value: Any) -> Any:
    return bytes(value).hex() if isinstance(value, (bytes, bytearray, memoryview)) else value


def _records(data: memoryview, words: Words) -> list[Any]:
    """Each batch: its header fields, and its records. A batch that is cut off at the end is left out."""
    rows: list[Any] = []
    for position, header in iterate_batches(data):
        batch = bytes(data[position : position + header.size])
        assert len(batch) > HEADER_SIZE
        rows.append(
            {
                "base_offset": header.base_offset,
                "attributes": header.attributes,
                "leader_epoch": header.partition_leader_epoch,
                "producer_id": words.word("producer_id", header.producer_id),
                "base_sequence": header.base_sequence,
                "max_timestamp": words.word("timestamp", header.max_timestamp),
                "records": [
                    [record.offset, words.word("timestamp", record.timestamp), _value(record.key), _value(record.value)]
                    for record in read_records(batch)
                ],
            }
        )
    return rows


def differences(ours: Any, theirs: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """(path, ours, theirs) of every leaf that differs; the path has no list positions."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        return [row for name in ours for row in differences(ours[name], theirs[name], f"{path}.{name}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [row for a, b in zip(ours, theirs, strict=True) for row in differences(a, b, path)]
    return [] if ours == theirs else [(path, ours, theirs)]
