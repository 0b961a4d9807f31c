"""One cluster of Apache Kafka's nodes and ours: quorum, replicas and brokers of both kinds.

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.core.config.replicated import replicated
from moldau.testing import history
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA, run_java
from tests.support.certificates import authority
from tests.support.cluster_of_three import (
    NODE_IDS,
    PARTITIONS,
    SEPARATE_ROLES,
    TOPIC,
    UNSERVED,
    apache_command,
    check_that_each_may_die,
    cluster_of_three,
    moldau_command,
)
from tests.support.load import under_load
from tests.support.tls_settings import of_broker, trusting

pytestmark = NEEDS_APACHE_KAFKA


@pytest.mark.timeout(600)
@pytest.mark.parametrize("of_kafka", [(1, 2), (3,)], ids=["two of kafka", "two of moldau"])
def test_in_a_mixed_cluster_each_may_be_killed_and_nothing_is_lost_or_comes_twice(
    tmp_path: Path, of_kafka: tuple[int, ...]
) -> None:
    kafka = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    commands = {node_id: kafka if node_id in of_kafka else moldau_command for node_id in NODE_IDS}
    with cluster_of_three(tmp_path, commands, of_kafka) as cluster:
        check_that_each_may_die(cluster)


@pytest.mark.timeout(600)
def test_nodes_of_both_kinds_reach_each_other_over_tls(tmp_path: Path) -> None:
    kafka = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:SSL",
        # without it Kafka's brokers connect in plain text, in spite of the map
        "inter.broker.listener.name": "PLAINTEXT",
        **of_broker(tmp_path, client_auth="required"),
    }
    clients = trusting(tmp_path, authority().issue("CN=alice"))
    commands = {1: moldau_command, 2: kafka, 3: kafka}
    with cluster_of_three(tmp_path, commands, (2, 3), settings=settings, clients=clients) as cluster:
        check_that_each_may_die(cluster)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("of_kafka", [(1, 2), (3,)], ids=["two of kafka", "two of moldau"])
def test_clients_with_default_retries_see_no_error_while_each_node_is_killed(
    tmp_path: Path, of_kafka: tuple[int, ...]
) -> None:
    kafka = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    commands = {node_id: kafka if node_id in of_kafka else moldau_command for node_id in NODE_IDS}
    settings = replicated(len(NODE_IDS))
    with cluster_of_three(tmp_path, commands, of_kafka, settings=settings) as cluster:
        copy = history.Copy("source", "target")
        for topic in (TOPIC, copy.source, copy.target):
            cluster.create_topic(topic)
        with under_load(cluster.bootstrap_servers, tmp_path / "history.jsonl", TOPIC, PARTITIONS, copy):
            for node_id in NODE_IDS:
                cluster.wait_whole()
                cluster.check_with_kafkas_tools()
                cluster.kill(node_id)
                cluster.wait_out_of_sync(node_id)
                cluster.start(node_id)
            cluster.wait_whole()
            cluster.check_with_kafkas_tools()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("of_kafka", [(1,), (2,)], ids=["controller of kafka", "controller of moldau"])
def test_with_separate_roles_each_may_be_killed_and_kafkas_tool_sees_one_quorum(
    tmp_path: Path, of_kafka: tuple[int, ...]
) -> None:
    kafka = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    commands = {node_id: kafka if node_id in of_kafka else moldau_command for node_id in SEPARATE_ROLES}
    with cluster_of_three(tmp_path, commands, of_kafka, SEPARATE_ROLES) as cluster:
        check_that_each_may_die(cluster)
        words = ["--bootstrap-controller", cluster.bootstrap_controllers, "describe", "--replication"]
        told = run_java("org.apache.kafka.tools.MetadataQuorumCommand", *words)
        rows = [line.split() for line in told.splitlines()[1:]]
        assert sorted((row[0], row[-1]) for row in rows) == [("1", "Leader"), ("2", "Observer"), ("3", "Observer")]


@pytest.mark.timeout(600)
def test_a_lost_node_is_replaced_by_an_empty_one_of_the_other_kind_under_load(tmp_path: Path) -> None:
    kafka = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    commands = {1: kafka, 2: kafka, 3: moldau_command}
    with cluster_of_three(tmp_path, commands, (1, 2), voters_in_log=True) as cluster:
        cluster.create_topic()
        with under_load(cluster.bootstrap_servers, tmp_path / "history.jsonl", TOPIC, PARTITIONS):
            for node_id, command in ((2, moldau_command), (3, kafka)):
                cluster.replace(node_id, command)
                cluster.wait_in_sync()
        words = ["--bootstrap-server", cluster.bootstrap_servers, "describe", "--replication"]
        rows = [line.split() for line in run_java("org.apache.kafka.tools.MetadataQuorumCommand", *words).splitlines()]
        assert sorted(row[0] for row in rows if row[-1] in ("Leader", "Follower")) == ["1", "2", "3"]


@pytest.mark.timeout(900)
def test_all_nodes_are_succeeded_by_empty_ones_of_the_other_kind_and_back_under_load(tmp_path: Path) -> None:
    """When the last node of the first kind has ended, only replicated data of these nodes is left."""
    kafka = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    later = tuple(node_id + len(NODE_IDS) for node_id in NODE_IDS)
    settings = replicated(len(NODE_IDS))
    with cluster_of_three(
        tmp_path, dict.fromkeys(NODE_IDS, kafka), NODE_IDS, voters_in_log=True, settings=settings, later=later
    ) as cluster:
        copy = history.Copy("source", "target")
        for topic in (TOPIC, copy.source, copy.target):
            cluster.create_topic(topic)
        with under_load(cluster.bootstrap_servers, tmp_path / "history.jsonl", TOPIC, PARTITIONS, copy):
            for olds, news, command in ((NODE_IDS, later, moldau_command), (later, NODE_IDS, kafka)):
                for old, new in zip(olds, news, strict=True):
                    cluster.succeed(old, new, command)
                    cluster.wait_in_sync()
                    cluster.check_with_kafkas_tools()
                assert cluster.running() == dict.fromkeys(news, command)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("of_kafka", [(1, 3), (3,)], ids=["controller of kafka", "controller of moldau"])
def test_cordoned_directories_take_no_replica_and_keep_their_records(tmp_path: Path, of_kafka: tuple[int, ...]) -> None:
    kafka = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    commands = {node_id: kafka if node_id in of_kafka else moldau_command for node_id in SEPARATE_ROLES}
    with cluster_of_three(tmp_path, commands, of_kafka, SEPARATE_ROLES) as cluster:
        for broker_id, other in ((2, 3), (3, 2)):
            cluster.cordon(broker_id, "*")
            assert cluster.replicas_of_new_topic(f"beside-{broker_id}", factor=1) == [(other,)] * PARTITIONS
            cluster.cordon(broker_id, None)
        of_moldau, of_theirs = (cluster.cordonings_of(broker_id) for broker_id in (2, 3))
        assert of_moldau == of_theirs == [0, 1, 0]


@pytest.mark.timeout(300)
def test_a_node_cannot_join_a_cluster_with_features_that_it_lacks(tmp_path: Path) -> None:
    kafka = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, kafka), NODE_IDS, SEPARATE_ROLES, features=()) as cluster:
        cluster.prepare_broker(4, moldau_command)
        for taken_back in UNSERVED:
            assert f"but Moldau does not: `kafka-features downgrade --feature {taken_back}`" in cluster.refusal_of(4)
            words = ["--bootstrap-server", cluster.bootstrap_servers, "downgrade", "--feature", taken_back]
            run_java("org.apache.kafka.tools.FeatureCommand", *words)
        cluster.join(4)
