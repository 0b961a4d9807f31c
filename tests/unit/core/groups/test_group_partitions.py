"""Every broker and tool must find a group in the same partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.core.groups.group_partitions import java_string_hash, partition_for_group


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),
        ("\U0001f600", 55357 * 31 + 56832),
        ("console-consumer", -648006740),
    ],
)
def test_strings_hash_as_in_java(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_the_hash_without_a_positive_twin_is_partition_0() -> None:
    assert partition_for_group("polygenelubricants", 50) == 0


@given(st.text(), st.integers(1, 100))
def test_a_group_has_one_partition(group_id: str, partitions: int) -> None:
    assert 0 <= partition_for_group(group_id, partitions) < partitions
