"""Three brokers under the faults of one seed: the small form of `make chaos`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.__main__ import run

WAIT_S = 600


def may_unshare() -> bool:
    """Whether this is root on a machine that allows namespaces; some containers do not."""
    command = ["unshare", "--net", "--mount", "--", "mount", "-t", "tmpfs", "tmpfs", "/run"]
    is_root = sys.platform == "linux" and os.geteuid() == 0
    return is_root and subprocess.run(command, capture_output=True, timeout=WAIT_S).returncode == 0


@pytest.mark.slow
def test_every_promise_is_kept_through_troubles_of_a_cluster(tmp_path: Path) -> None:
    assert run(tmp_path, duration_s=20, rate=300, seed=4996) == []


@pytest.mark.slow
def test_every_promise_is_kept_where_packets_are_lost_and_a_disk_is_full(tmp_path: Path) -> None:
    if not may_unshare():
        pytest.skip("needs root, and namespaces")
    words = ["--root", "--minutes", "0.3", "--rate", "300", "--seed", "1311", "--folder", str(tmp_path)]
    command = [sys.executable, "-m", "tests.chaos", *words]
    told = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "a full disk 1" in told.stdout
