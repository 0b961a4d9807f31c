"""Three processes form one cluster: each may die, and no acknowledged record is lost."""

from __future__ import annotations

from pathlib import Path

from tests.support.cluster_of_three import NODE_IDS, check_that_each_may_die, cluster_of_three, moldau_command


def test_each_node_may_be_killed_and_no_acknowledged_record_is_lost_or_comes_twice(tmp_path: Path) -> None:
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command)) as cluster:
        check_that_each_may_die(cluster)
