"""Two of three nodes are gone for good: one command lets the third serve all it has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.cluster_of_three import NODE_IDS, cluster_of_three, moldau_command

WAIT_S = 60


def recover(config: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "moldau.cli.main", "quorum", "recover", str(config), *flags]
    return subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S, stdin=subprocess.DEVNULL, check=False)


def test_the_survivor_of_three_has_every_acknowledged_record_that_was_in_sync(tmp_path: Path) -> None:
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command)) as cluster:
        cluster.create_topic()
        cluster.wait_in_sync()
        written = cluster.produce("before", 2_000)
        refused = recover(cluster.config_of(1), "--yes")
        assert (refused.returncode, "is in use" in refused.stderr) == (1, True), refused.stderr
        for node_id in NODE_IDS:
            cluster.kill(node_id)
        cluster.lose_directory(2)
        cluster.lose_directory(3)

        shown = recover(cluster.config_of(1))
        assert shown.returncode == 1
        assert "not in sync        no partition" in shown.stdout
        assert "--yes does it" in shown.stderr
        done = recover(cluster.config_of(1), "--yes")
        assert done.returncode == 0, done.stderr
        cluster.start(1)
        assert sorted(cluster.read_all(len(written))) == sorted(written)
