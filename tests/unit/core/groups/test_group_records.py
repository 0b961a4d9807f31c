"""The records of `__consumer_offsets`, byte for byte as Apache Kafka 4.3.1 wrote them."""

from __future__ import annotations

import pytest

from moldau.core.groups.records import (
    GroupMetadataRecord,
    OffsetRecord,
    OtherKindRecord,
    decode_group_record,
    encode_group_record,
)
from moldau.errors import InvariantError, ProtocolError
from moldau.wire.protocol.messages.group_records import OffsetCommitKey

FROM_KAFKA: list[tuple[str, str]] = [
    # an offset with its topic's id (v4)
    (
        "0001000c6f313739353234393134373400017400000000",
        "00040000000000000005ffffffff01000001a1fd300e8d0100108cceb67f83e4400198a1d329171475f9",
    ),
    # an offset with a retention time (v1)
    (
        "0001000b6f3137393532343933343000017400000000",
        "000100000000000000050000000001a1fd3302fd000001a1fd331685",
    ),
    # a new group
    ("0002000c6c7331373935323439323133", "0003000000000000ffffffff000001a1fd3112d900000000"),
    # a generation of three members
    (
        "0002000c6c7331373935323439323133",
        "00030008636f6e73756d657200000003000572616e67650026632d30356532323933612d336631342d346139382d396161352d6261646563"
        "35323833666139000001a1fd311409000000030026632d30616133386137332d663733652d343764642d393337312d633033616562663535"
        "386637ffff000163000a2f3132372e302e302e310000271000002710000000016d00000001330026632d30356532323933612d336631342d"
        "346139382d396161352d626164656335323833666139ffff000163000a2f3132372e302e302e310000271000002710000000016d00000001"
        "310026632d61653966386461342d343133382d346531622d626463382d626663373261386463306634ffff000163000a2f3132372e302e30"
        "2e310000271000002710000000016d0000000132",
    ),
]


def short(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


@pytest.mark.parametrize(("key", "value"), FROM_KAFKA)
def test_what_kafka_wrote_is_read_and_written_the_same(key: str, value: str) -> None:
    record = decode_group_record(bytes.fromhex(key), bytes.fromhex(value))
    assert isinstance(record, (OffsetRecord, GroupMetadataRecord))
    assert encode_group_record(record) == (bytes.fromhex(key), bytes.fromhex(value))


@pytest.mark.parametrize("kind", [0, 1])
def test_both_kinds_of_offset_keys_are_read(kind: int) -> None:
    key = kind.to_bytes(2, "big") + short("g") + short("t") + (3).to_bytes(4, "big")
    assert decode_group_record(key, None) == OffsetRecord(OffsetCommitKey("g", "t", 3), None)


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_an_offset_is_read(version: int) -> None:
    key = b"\x00\x01" + short("g") + short("t") + bytes(4)
    value = version.to_bytes(2, "big") + (9).to_bytes(8, "big")
    value += (4).to_bytes(4, "big") if version == 3 else b""
    value += short("m") + (1).to_bytes(8, "big")
    value += (2).to_bytes(8, "big") if version == 1 else b""
    record = decode_group_record(key, value)
    assert isinstance(record, OffsetRecord)
    assert record.value is not None
    assert (record.version, record.value.offset, record.value.metadata) == (version, 9, "m")
    assert record.value.leader_epoch == (4 if version == 3 else -1)
    assert record.value.expire_timestamp == (2 if version == 1 else -1)
    assert encode_group_record(record) == (key, value)


@pytest.mark.parametrize(("kind", "name"), [(3, "consumer"), (11, "share"), (17, "streams")])
def test_groups_of_other_kinds_are_recognised(kind: int, name: str) -> None:
    key = kind.to_bytes(2, "big") + short("g")
    assert decode_group_record(key, b"whatever") == OtherKindRecord("g", name, False)
    assert decode_group_record(key, None) == OtherKindRecord("g", name, True)


def test_their_details_and_unknown_kinds_are_passed_over() -> None:
    assert decode_group_record(b"\x00\x05" + short("g") + short("m"), b"x") is None
    assert decode_group_record(b"\x7f\xff anything", b"x") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"x"),
        (b"", b"x"),
        (b"\x00", None),
        (b"\x00\x01\x00\x09g", None),
        (b"\x00\x02" + short("g"), b"\x00"),
        (b"\x00\x02" + short("g"), b"\x00\x63"),
        (b"\x00\x02" + short("g") + b"more", None),
    ],
)
def test_broken_bytes_are_a_protocol_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode_group_record(key, value)


def test_records_of_other_kinds_are_not_ours_to_write() -> None:
    with pytest.raises(InvariantError):
        encode_group_record(OtherKindRecord("g", "share", False))
