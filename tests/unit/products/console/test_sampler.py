"""The console's knowledge of a cluster at one moment."""

from __future__ import annotations

from moldau.products.console.sampler import NOTHING


def test_an_empty_cluster_has_no_record_no_byte_and_no_lag() -> None:
    assert (NOTHING.own.records, NOTHING.size_bytes, NOTHING.lag) == (0, 0, 0)
    assert NOTHING.transactions.oldest_s is None
