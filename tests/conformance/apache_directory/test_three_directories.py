"""Three nodes of Apache Kafka start on the directories of three nodes of Moldau and find everything; and back again.

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.apache_kafka import NEEDS_APACHE_KAFKA, add, check, fill
from tests.support.cluster_of_three import NODE_IDS, apache_command, cluster_of_three, moldau_command

pytestmark = NEEDS_APACHE_KAFKA


@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("begins", ["moldau", "kafka"])
def test_three_directories_go_to_the_other_kind_and_back(tmp_path: Path, begins: str, is_clean: bool) -> None:
    kinds = {"moldau": moldau_command, "kafka": apache_command(os.environ["MOLDAU_KAFKA_LIBS"])}
    first = kinds.pop(begins)
    [second] = kinds.values()
    of_kafka = NODE_IDS if begins == "kafka" else ()
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, first), of_kafka) as cluster:
        servers = cluster.bootstrap_servers
        content = fill(servers, factor=len(NODE_IDS))
        for number, command in enumerate((second, first)):
            cluster.restart_all(dict.fromkeys(NODE_IDS, command), is_clean=is_clean)
            check(servers, content, NODE_IDS)
            content = add(servers, content, f"after change {number}")
