"""A key goes to the partition in which every Kafka client looks for it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from moldau.columnar.partitioner import StickyPartitions, murmur2, partitions_of_keys


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_murmur2_is_kafkas(keys):
    column = pa.array([b"before", *keys, b"behind"], pa.binary()).slice(1, len(keys))
    assert murmur2(column).tolist() == [kafka_python_murmur2(key) & 0xFFFFFFFF for key in keys]


def test_the_keys_of_a_slice_cost_what_they_are_not_what_the_whole_column_is():
    """A writer hashes the keys of a large table slice by slice."""
    column = pa.array([b"%08d" % number for number in range(500_000)], pa.binary())
    murmur2(column.slice(0, 10))
    tracemalloc.start()
    try:
        murmur2(column.slice(250_000, 1_000))
        assert tracemalloc.get_traced_memory()[1] < column.nbytes / 10
    finally:
        tracemalloc.stop()


def test_partitions_are_those_of_the_java_client():
    # from the tests of Kafka's Utils.murmur2 (as signed numbers)
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"": 275646681}
    hashes = murmur2(pa.array(list(known), pa.binary())).astype(np.int32).tolist()
    assert hashes == list(known.values())
    partitions = partitions_of_keys(pa.array([b"21", None, b"foobar"], pa.binary()), 12)
    assert partitions.tolist() == [(-973932308 & 0x7FFFFFFF) % 12, -1, (-790332482 & 0x7FFFFFFF) % 12]


def test_records_without_a_key_go_in_runs_to_each_partition_in_turn():
    sticky = StickyPartitions(3, 100)
    first = sticky.assign(np.full(7, 50)).tolist()
    second = sticky.assign(np.full(4, 50)).tolist()
    assert first + second == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2]
    assert sticky.assign(np.array([], dtype=np.int64)).tolist() == []
    assert StickyPartitions(3, 100, first=7).assign(np.full(7, 50)).tolist() == [1, 1, 2, 2, 0, 0, 1]
