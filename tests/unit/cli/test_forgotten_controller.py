"""`kafka-cluster unregister-controller` removes a controller that will not come back, from 4.4-IV2 on."""

from __future__ import annotations

import pytest

from moldau.cli.main import main
from moldau.testing import Cluster


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code, and the output."""
    code = main(list(words))
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.slow
def test_a_controller_that_is_gone_is_forgotten_at_the_level_of_4_4(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(brokers=3) as cluster:
        servers = ("--bootstrap-server", cluster.bootstrap_servers)
        forget = ("kafka-cluster", "unregister-controller", *servers, "--id")
        assert "does not support the controller unregistration API" in told(capsys, *forget, "3")[1]
        raised = ("kafka-features", *servers, "upgrade", "--feature", "metadata.version=33")
        assert told(capsys, *raised)[0] == 0
        assert "Controller ID 77 is not currently registered." in told(capsys, *forget, "77")[1]
        cluster.wait_for(lambda: cluster.controller > 0)
        leader = cluster.controller
        gone = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        assert "Controller cannot unregister itself while it is active." in told(capsys, *forget, str(leader))[1]
        cluster.kill(gone)
        assert told(capsys, *forget, str(gone)) == (0, f"Controller {gone} is no longer registered.\n")
