"""Times and durations as users write them."""

from __future__ import annotations

import pytest

from moldau.cli.administration.offset_arguments import parse_datetime, parse_duration_ms
from moldau.types import TopicPartition
from moldau.wire.protocol.consumer_protocol import assigned_partitions


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_a_time_without_a_zone_is_utc(text: str, milliseconds: int) -> None:
    assert parse_datetime(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H30M", 5_400_000),
        ("P2D", 172_800_000),
        ("PT0.25S", 250),
        ("P1DT2H3M4.005S", 93_784_005),
        ("-PT1S", -1_000),
        ("PT-1S", -1_000),
    ],
)
def test_a_duration_is_iso_8601(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "P1H", "PTS"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["", "xx", "2026-01-01", "2026-13-01T00:00:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_datetime(text)


def test_bytes_of_another_form_are_no_assignment() -> None:
    whole = bytes.fromhex("0000 00000001 0001 61 00000002 00000001 00000000 ffffffff")
    assert assigned_partitions(whole) == (TopicPartition("a", 0), TopicPartition("a", 1))
    assert assigned_partitions(b"") == ()
    assert assigned_partitions(whole[:-6]) == ()
    assert assigned_partitions(b"\xff" * 40) == ()
