"""Three brokers through troubles of one seed: the small form of `make chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.__main__ import run


@pytest.mark.slow
def test_every_promise_is_kept_through_troubles_of_a_cluster(tmp_path: Path) -> None:
    assert run(tmp_path, duration_s=20, rate=300, seed=4) == []
