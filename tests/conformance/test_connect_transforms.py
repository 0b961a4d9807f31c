"""Apache Kafka's own transforms give the answers that `tests/transforms` has recorded, and those of Moldau."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.source_tree import ROOT

SECONDS = 600


@pytest.mark.java
def test_transforms_are_kafkas() -> None:
    command = [sys.executable, "-m", "tests.transforms"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
