"""Cases of the formatters that write the records of coordinators as JSON. `coordinate TOPIC` writes such records to
partition 0 of a topic, of each kind and of each version (see `coordinator_records`). See cases.
"""

from __future__ import annotations

from moldau.types import Uuid
from moldau.wire.protocol.messages.group_records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from moldau.wire.protocol.messages.transaction_records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from moldau.wire.protocol.record_codec import encode_group_key, encode_record_value, encode_transaction_key
from tests.conformance.kafka_tools.step import Step

_CREATE = "kafka-topics --bootstrap-server {b} --create --topic"
_READ = "kafka-console-consumer --bootstrap-server {b} --from-beginning --timeout-ms 20000 --topic"
_CLASS = "--formatter org.apache.kafka.tools.consumer"

FORMATTERS: dict[str, tuple[Step, ...]] = {
    "formatters-of-coordinators": (
        Step(f"{_CREATE} {{p}}g", is_quiet=True),
        Step("coordinate {p}g groups", is_quiet=True),
        Step(f"{_READ} {{p}}g --max-messages 16 {_CLASS}.OffsetsMessageFormatter"),
        Step(f"{_READ} {{p}}g --max-messages 16 {_CLASS}.GroupMetadataMessageFormatter"),
        Step(f"{_READ} {{p}}g --max-messages 1 {_CLASS}.OffsetsMessageFormatter --property print.key=true"),
        Step(f"{_CREATE} {{p}}t", is_quiet=True),
        Step("coordinate {p}t transactions", is_quiet=True),
        Step(f"{_READ} {{p}}t --max-messages 5 {_CLASS}.TransactionLogMessageFormatter"),
        Step(f"{_READ} {{p}}t --max-messages 1 {_CLASS}.OtherMessageFormatter", is_quiet=True),
    ),
    "formatters-of-what-is-none": (
        Step(f"{_CREATE} {{p}}n", is_quiet=True),
        Step("coordinate {p}n nonsense", is_quiet=True),
        Step(f"{_READ} {{p}}n --max-messages 4 {_CLASS}.OffsetsMessageFormatter"),
        Step(f"{_READ} {{p}}n --max-messages 4 {_CLASS}.OffsetsMessageFormatter --skip-message-on-error"),
        Step(f"{_READ} {{p}}n --max-messages 4 {_CLASS}.TransactionLogMessageFormatter --skip-message-on-error"),
    ),
}

Row = tuple[bytes | None, bytes | None]


def coordinator_records(kind: str) -> list[Row]:
    """Key and value of each record: `groups`, `transactions`, or `nonsense` among them."""
    return {"groups": _groups, "transactions": _transactions, "nonsense": _nonsense}[kind]()


def _groups() -> list[Row]:
    committed = OffsetCommitValue(
        7, 3, 'said "so"\n\x1f ä €', 1_700_000_000_000, 1_800_000_000_000, Uuid(bytes(range(16)))
    )
    member = MemberMetadata("m-1", "static", "client", "/127.0.0.1", 60_000, 45_000, b"\x00\x01\xff", b"")
    group = GroupMetadataValue("consumer", 4, "range", "m-1", 1_700_000_000_001, (member,))
    key = encode_group_key(OffsetCommitKey("kitchen", "orders", 2))
    group_key = encode_group_key(GroupMetadataKey("kitchen"))
    return [
        *((key, encode_record_value(committed, version)) for version in range(5)),
        (key, encode_record_value(OffsetCommitValue(), 4)),
        (encode_group_key(LegacyOffsetCommitKey("kitchen", "orders", 1)), encode_record_value(committed, 0)),
        (key, None),
        *((group_key, encode_record_value(group, version)) for version in range(5)),
        (group_key, None),
        (encode_group_key(ConsumerGroupMetadataKey("new")), b"\x00\x00\x00\x00\x00\x01\x00"),
        (None, b"without a key"),
    ]


def _transactions() -> list[Row]:
    key = encode_transaction_key(TransactionLogKey("tæll"))
    places = (TransactionPartitions("orders", (0, 2)), TransactionPartitions("bills", (1,)))
    open_one = TransactionLogValue(11, 9, 12, 3, 4, 60_000, 1, places, 1_700_000_000_000, 1_700_000_000_001, 2)
    return [
        (key, encode_record_value(open_one, 0)),
        (key, encode_record_value(open_one, 1)),
        (key, encode_record_value(TransactionLogValue(transaction_partitions=None), 1)),
        (key, None),
        (b"\x00\x07abc", None),
    ]


def _nonsense() -> list[Row]:
    key = encode_group_key(OffsetCommitKey("kitchen", "orders", 2))
    return [(key, b""), (key[:5], None), (b"", None), (key, b"\x00\x63abc")]
