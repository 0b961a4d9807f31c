"""Benchmarks that use the broker's own classes, with little work: they run at each change of those classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.micro import recovery


@pytest.mark.parametrize("name", recovery.WORKLOADS)
def test_a_recovered_log_has_all_its_batches(name: str, tmp_path: Path) -> None:
    row = recovery.measure(name, recovery.WORKLOADS[name], 100_000, str(tmp_path))
    assert row["batches"] == {"16 KiB batches": 7, "one-record batches, 100 B": 589}[name]
