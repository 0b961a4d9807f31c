"""Two kills of each connector's task and two of their worker, all in the middle of batches (`make kills-connect`)."""

from __future__ import annotations

import pytest

from tests.products.connect.kills import CI, Plan, run


@pytest.mark.slow
def test_each_connector_delivers_through_kills_of_its_task_and_its_worker() -> None:
    faults, killed, _ = run(Plan(kills=2, worker_kills=2, seed=20261201, connectors=CI, chunk=1_000, tasks=1))
    assert faults == []
    assert killed == {**dict.fromkeys(CI, 2), "worker": 2}
