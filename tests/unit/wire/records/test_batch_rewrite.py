"""A batch is recompressed with the topic's codec, and its records stay unchanged."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.errors import KafkaError
from moldau.types import Buffer
from moldau.wire.records.batch import MAX_TIMESTAMP_POSITION, is_crc_valid, read_header, set_max_timestamp, write_crc
from moldau.wire.records.builder import build_batch, build_batch_with_holes
from moldau.wire.records.compression import Compression
from moldau.wire.records.record import read_records
from moldau.wire.records.rewrite import BatchRewrite, TargetCompression
from moldau.wire.records.validate import NO_BOUND_MS, RECORDS_BETWEEN_PAUSES, BatchLimits, check_produced_batch

NOW_MS = 1_800_000_000_000


def rewrite(
    batch: Buffer, target: TargetCompression | None, *, is_key_required: bool = False, is_log_append_time: bool = False
) -> tuple[Buffer, int]:
    """The batch to append, and the number of pauses."""
    limits = BatchLimits(is_log_append_time=is_log_append_time)
    work = BatchRewrite(batch, read_header(batch), limits, is_key_required=is_key_required, target=target)
    work.expand()
    pauses = sum(1 for _ in work.walk(NOW_MS))
    work.pack()
    return work.finish(), pauses


values = st.one_of(st.none(), st.binary(max_size=200))
records = st.lists(
    st.tuples(values, values, st.integers(NOW_MS - 10_000, NOW_MS), st.just([("h", b"1")])), min_size=1, max_size=30
)


@settings(max_examples=60, deadline=None)
@given(records, st.sampled_from(list(Compression)), st.sampled_from(list(Compression)))
def test_the_records_stay_whatever_the_codecs(
    given_records: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]]]],
    source: Compression,
    kind: Compression,
) -> None:
    batch = build_batch(given_records, compression=source, producer_id=7, producer_epoch=1, base_sequence=4)
    found, _ = rewrite(batch, TargetCompression(kind))
    header, before = read_header(found), read_header(batch)
    assert is_crc_valid(found, 0, header.size)
    assert header.compression is kind
    assert read_records(found) == read_records(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 4)
    assert (header.base_timestamp, header.max_timestamp) == (before.base_timestamp, before.max_timestamp)


@pytest.mark.parametrize("kind", list(Compression))
def test_a_batch_of_the_topics_codec_stays_as_it_came(kind: Compression) -> None:
    batch = build_batch([(b"k", b"v", NOW_MS, ())], compression=kind)
    assert rewrite(batch, TargetCompression(kind, 1))[0] is batch
    assert rewrite(batch, None)[0] is batch


@pytest.mark.parametrize(
    ("kind", "levels"), [(Compression.GZIP, (1, 9)), (Compression.LZ4, (1, 12)), (Compression.ZSTD, (-7, 3, 22))]
)
def test_a_higher_level_takes_less_room(kind: Compression, levels: tuple[int, ...]) -> None:
    text = b" ".join(b"%d" % (number * number % 7919) for number in range(8_000))
    batch = build_batch([(None, text, NOW_MS, ())])
    sizes = [len(rewrite(batch, TargetCompression(kind, level))[0]) for level in levels]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


@pytest.mark.parametrize("target", [None, TargetCompression(Compression.ZSTD)])
def test_a_wrong_maximum_timestamp_is_corrected(target: TargetCompression | None) -> None:
    batch = bytearray(build_batch([(b"k", b"v", NOW_MS, ()), (b"k", b"v", NOW_MS + 5, ())]))
    set_max_timestamp(batch, 0, len(batch), NOW_MS + 100)
    found, _ = rewrite(batch, target)
    assert read_header(found).max_timestamp == NOW_MS + 5
    assert is_crc_valid(found, 0, len(found))
    stamped, _ = rewrite(batch, None, is_log_append_time=True)
    assert stamped is batch


def test_many_records_are_walked_with_pauses() -> None:
    batch = build_batch([(None, b"v", NOW_MS, ())] * (3 * RECORDS_BETWEEN_PAUSES + 1))
    assert rewrite(batch, TargetCompression(Compression.GZIP))[1] == 3


@pytest.mark.parametrize(
    "batch",
    [
        build_batch_with_holes([(None, b"v", NOW_MS, ())] * 2, [0, 7], 1),
        build_batch([(None, bytes(17 << 20), NOW_MS, ())], compression="gzip"),
        build_batch([(b"k", b"v", NOW_MS, ()), (None, b"v", NOW_MS, ())], compression="lz4"),
    ],
    ids=["offset deltas", "expands too far", "null key"],
)
def test_what_only_the_records_show_is_refused(batch: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        rewrite(batch, TargetCompression(Compression.SNAPPY), is_key_required=True)
    assert caught.value.name == "INVALID_RECORD"


@pytest.mark.parametrize("delta_ms", [1, NOW_MS, 2**63 - 1])
def test_a_timestamp_past_64_bits_is_one_that_no_topic_takes(delta_ms: int) -> None:
    last_ms = 2**63 - 1
    batch = bytearray(build_batch([(b"k", b"v", 0, ()), (b"k", b"v", delta_ms, ())]))
    struct.pack_into(">qq", batch, MAX_TIMESTAMP_POSITION - 8, last_ms, last_ms)  # the base timestamp is before it
    write_crc(batch, 0, len(batch))
    no_bounds = BatchLimits(timestamp_after_max_ms=NO_BOUND_MS)
    header = check_produced_batch(batch, now_ms=NOW_MS, limits=no_bounds)
    for target in (None, TargetCompression(Compression.LZ4)):
        work = BatchRewrite(batch, header, no_bounds, is_key_required=False, target=target)
        work.expand()
        with pytest.raises(KafkaError) as caught:
            list(work.walk(NOW_MS))
        assert caught.value.name == "INVALID_TIMESTAMP"
        assert [index for index, _ in caught.value.record_errors] == [1]
        # the broker's own clock replaces the client's
        assert read_header(rewrite(batch, target, is_log_append_time=True)[0]).max_timestamp == last_ms
