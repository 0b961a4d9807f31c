"""The codec's guarantees beyond the bytes of good messages: bounds, nulls, tags, and one kind of error."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from moldau.errors import InvariantError, ProtocolError
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.messages.api_versions import ApiVersionsResponse
from moldau.wire.protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from moldau.wire.protocol.messages.groups_classic import JoinGroupRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.protocol.messages.produce import ProduceRequest
from moldau.wire.protocol.schema import Int32, Uint16, Versions, fields_of, message, wire

ALL_TOPICS_V1 = b"\xff\xff\xff\xff"


def metadata_names(*names: bytes) -> bytes:
    return len(names).to_bytes(4, "big") + b"".join(len(name).to_bytes(2, "big") + name for name in names)


def test_a_null_array_is_told_from_an_empty_one():
    assert decode_message(MetadataRequest, 1, ALL_TOPICS_V1)[0].topics is None
    assert decode_message(MetadataRequest, 1, bytes(4))[0].topics == ()
    assert encode_message(MetadataRequest(topics=None), 1) == ALL_TOPICS_V1
    assert encode_message(MetadataRequest(topics=None), 9) == b"\x00\x01\x00\x00\x00"


@pytest.mark.parametrize(
    ("cls", "version", "body"),
    [
        (MetadataRequest, 1, b"\xff\xff\xff\xfb"),  # an array of -5, which Kafka reads as "all topics"
        (MetadataRequest, 0, ALL_TOPICS_V1),  # null where the version has none
        (MetadataRequest, 1, b"\x00\x00\x00\x01\xff\xff"),  # a null name
        (MetadataRequest, 1, metadata_names(b"a")[:-1]),  # cut
        (MetadataRequest, 1, b"\x00\x00\x00\x02\x00\x01a"),  # one element too few
        (MetadataRequest, 1, b"\x00\x00\x00\x01\x00\x05a"),  # string longer than the rest
        (MetadataRequest, 9, b"\xff\xff\xff\xff\xff\x01"),  # varint over five bytes
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f"),  # an array of 2^32 - 2
        (MetadataRequest, 9, b"\x02\x81\x80\x02" + bytes(40_000)),  # a string of 32,768 bytes
        (MetadataRequest, 9, b"\x01\x01\x00\x00\x91\x4e" + b"\x7f\x00" * 10_001),  # 10,001 tagged fields
        (MetadataRequest, 9, b"\x01\x01\x00\x00\x01\x7f\x05ab"),  # a tagged field longer than the rest
        (MetadataRequest, 9, b""),
        (FetchRequest, 15, b"\x00"),
        (ProduceRequest, 9, b"\x00\x00\x01\x00\x00\x00\x00\x00"),  # topics null
        (ProduceRequest, 3, b"\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01"),
    ],
)
def test_what_is_no_message_is_a_protocol_error(cls, version, body):
    with pytest.raises(ProtocolError):
        decode_message(cls, version, body)


def test_an_array_has_at_most_a_million_elements_and_a_struct_ten_thousand_tags():
    million = (1_000_000).to_bytes(4, "big") + bytes(2_000_000)
    assert len(decode_message(MetadataRequest, 1, million)[0].topics) == 1_000_000
    with pytest.raises(ProtocolError):
        decode_message(MetadataRequest, 1, (1_000_001).to_bytes(4, "big") + bytes(2_000_002))
    tags = b"\x01\x01\x00\x00\x90\x4e" + b"\x7f\x00" * 10_000
    assert decode_message(MetadataRequest, 9, tags) == (MetadataRequest(), len(tags))


def test_invalid_utf8_is_replaced():
    request, _ = decode_message(MetadataRequest, 1, metadata_names(b"\xffa"))
    assert request.topics[0].name == "\ufffda"


def test_unknown_tagged_fields_are_read_over_wherever_they_stand():
    body = b"\x02" + bytes(16) + b"\x02t" + b"\x02\x05\x03abc\x09\x00" + b"\x01\x00" + b"\x01\x7f\x01z"
    request, end = decode_message(MetadataRequest, 12, body)
    assert end == len(body)
    assert request == MetadataRequest(topics=(MetadataRequestTopic(name="t"),))


def test_tagged_fields_are_sent_in_order_and_only_if_not_the_default():
    request = FetchRequest(cluster_id="c", replica_state=ReplicaState(7, 9))
    body = encode_message(request, 15)
    assert body.endswith(b"\x02" + b"\x00\x02\x02c" + b"\x01\x0d\x00\x00\x00\x07" + bytes(7) + b"\x09\x00")
    assert decode_message(FetchRequest, 15, body)[0] == request
    assert encode_message(FetchRequest(), 15).endswith(b"\x00")


def test_a_known_tagged_field_that_lies_about_its_size_is_a_protocol_error():
    good = encode_message(FetchRequest(cluster_id="c"), 15)
    assert good.endswith(b"\x01\x00\x02\x02c")
    with pytest.raises(ProtocolError):
        decode_message(FetchRequest, 15, good[:-3] + b"\x03\x02c\x00")


def test_a_field_that_the_version_lacks_is_dropped_if_ignorable_and_else_rejected():
    assert encode_message(JoinGroupRequest(reason="why"), 0) == encode_message(JoinGroupRequest(), 0)
    with pytest.raises(ProtocolError, match="group_instance_id"):
        encode_message(JoinGroupRequest(group_instance_id="i"), 0)
    with pytest.raises(ProtocolError, match="allow_auto_topic_creation"):
        encode_message(MetadataRequest(allow_auto_topic_creation=False), 3)
    assert encode_message(MetadataRequest(allow_auto_topic_creation=True), 3) == bytes(4)


@pytest.mark.parametrize(
    ("bad", "version"),
    [
        (MetadataRequest(topics=None), 0),
        (MetadataRequest(topics=(MetadataRequestTopic(name=None),)), 9),
        (MetadataRequest(topics=(MetadataRequestTopic(name="x" * 32_768),)), 1),
        (MetadataRequest(topics=(MetadataRequestTopic(name="x" * 32_768),)), 9),
        (MetadataRequest(topics=(MetadataRequestTopic(name="\ud800"),)), 1),
        (MetadataResponse(controller_id=2**31), 1),
        (MetadataRequest(), 14),
        (MetadataRequest(), -1),
    ],
)
def test_what_does_not_fit_is_refused_by_the_encoder(bad, version):
    with pytest.raises(ProtocolError):
        encode_message(bad, version)


def test_a_string_of_the_greatest_length_comes_back():
    for version in (1, 9):
        request = MetadataRequest(topics=(MetadataRequestTopic(name="x" * 32_767),))
        body = encode_message(request, version)
        assert decode_message(MetadataRequest, version, body) == (request, len(body))


def test_an_unknown_version_is_refused_by_the_decoder():
    for version in (-1, 14):
        with pytest.raises(ProtocolError):
            decode_message(MetadataRequest, version, bytes(100))


def test_records_are_views_of_the_buffer_and_everything_else_is_copied():
    body = bytearray(b"\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01" + bytes(4))
    body += b"\x00\x00\x00\x05batch"
    request, _ = decode_message(ProduceRequest, 3, body)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    body[-5:] = b"BATCH"
    assert bytes(records) == b"BATCH"
    records.release()
    body.clear()  # no other reference holds the buffer

    names = bytearray(metadata_names(b"t"))
    decode_message(MetadataRequest, 1, names)
    names.clear()


def test_arrays_longer_than_one_byte_of_length_come_back():
    for count in (126, 127, 128, 200, 20_000):
        response = FetchResponse(session_id=count)
        request = MetadataRequest(topics=tuple(MetadataRequestTopic(name=str(index)) for index in range(count)))
        for version in (1, 8, 9, 12):
            body = encode_message(request, version)
            assert decode_message(MetadataRequest, version, body) == (request, len(body))
        assert decode_message(FetchResponse, 12, encode_message(response, 12))[0] == response


# -- a message of our own, with all features that the served ones do not use


class Inner(msgspec.Struct, frozen=True):
    number: Int32 = 7
    name: Annotated[str | None, wire(nullable="1+")] = ""


@message(versions="0-2", flexible="1+")
class Outer(msgspec.Struct, frozen=True):
    ratio: float = 0.0
    port: Uint16 = 0
    inner: Annotated[Inner | None, wire(nullable="0+")] = None
    blob: Annotated[bytes | None, wire("2+", nullable="2+", ignorable=True)] = None
    tagged: Annotated[Inner | None, wire("1+", nullable="1+", tag=3)] = None
    moved: Annotated[Int32, wire(tag=0, tagged="2+")] = 5


def test_a_new_message_needs_only_its_declaration():
    assert (
        encode_message(Outer(0.5, 65_535, moved=6), 0)
        == b"\x3f\xe0" + bytes(6) + b"\xff\xff" + b"\xff" + b"\x00\x00\x00\x06"
    )
    full = Outer(0.5, 1, Inner(1, "i"), b"b", Inner(2, None), 9)
    for version in (1, 2):
        message_of_version = full if version == 2 else Outer(0.5, 1, Inner(1, "i"), None, Inner(2, None), 9)
        body = encode_message(message_of_version, version)
        assert decode_message(Outer, version, body) == (message_of_version, len(body))
    assert encode_message(Outer(), 2).endswith(b"\xff\x00\x00")
    assert encode_message(full, 2).endswith(
        b"\x00\x02b" + b"\x02" + b"\x00\x04\x00\x00\x00\x09" + b"\x03\x07\x01\x00\x00\x00\x02\x00\x00"
    )


def test_a_declaration_that_contradicts_itself_is_found():
    class NoNull(msgspec.Struct, frozen=True):
        name: str | None = None

    class NoDefault(msgspec.Struct, frozen=True):
        name: str

    for wrong in (NoNull, NoDefault):
        with pytest.raises(InvariantError):
            fields_of(wrong)
    with pytest.raises(InvariantError):
        encode_message(Inner(), 0)


def test_version_ranges_are_read_as_kafka_writes_them():
    assert Versions.parse("3") == Versions(3, 3)
    assert Versions.parse("0-12") == Versions(0, 12)
    assert 32_767 in Versions.parse("4+")
    assert 0 not in Versions.parse("none")


def test_the_features_of_api_versions_are_tagged_and_absent_before_version_3():
    response = ApiVersionsResponse(finalized_features_epoch=4, throttle_time_ms=1)
    assert encode_message(response, 0) == b"\x00\x00\x00\x00\x00\x00"
    assert encode_message(response, 3) == b"\x00\x00\x01\x00\x00\x00\x01\x01\x01\x08" + bytes(7) + b"\x04"
