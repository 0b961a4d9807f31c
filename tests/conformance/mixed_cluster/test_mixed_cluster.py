"""One cluster of Apache Kafka's nodes and ours: quorum, replicas and brokers of both kinds.

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.apache_kafka import NEEDS_APACHE_KAFKA
from tests.support.cluster_of_three import apache_command, check_that_each_may_die, cluster_of_three, moldau_command

pytestmark = NEEDS_APACHE_KAFKA


@pytest.mark.timeout(600)
def test_beside_two_nodes_of_kafka_each_may_be_killed_and_nothing_is_lost_or_comes_twice(tmp_path: Path) -> None:
    kafka = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    commands = {1: kafka, 2: kafka, 3: moldau_command}
    with cluster_of_three(tmp_path, commands, formatted_by_kafka=(1, 2)) as cluster:
        check_that_each_may_die(cluster)
