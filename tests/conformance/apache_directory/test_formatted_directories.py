"""Each starts a directory that the other's tool has formatted; feature levels move both ways.

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.core.metadata.releases import metadata_version_name
from moldau.testing import Cluster
from tests.support.apache_kafka import (
    CLUSTER_ID,
    NEEDS_APACHE_KAFKA,
    add,
    apache_kafka,
    check,
    dump,
    fill,
    java,
    run_java,
    write_properties,
)
from tests.support.cluster_of_three import UNSERVED

pytestmark = NEEDS_APACHE_KAFKA

OF_4_4 = metadata_version_name(33)
START_S = 60
WITHOUT_WHAT_WE_LACK = tuple(word for name in UNSERVED for word in ("--feature", name))


def format_by(kind: str, properties: Path, *more: str) -> None:
    words = ["format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties), *more]
    if kind == "kafka":
        run_java("kafka.tools.StorageTool", *words)
    else:
        command = [sys.executable, "-m", "moldau.cli.main", "kafka-storage", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=START_S)


def levels_in(data: Path) -> str:
    """The first records of the metadata log, where other nodes read the levels."""
    return dump(data / "__cluster_metadata-0" / f"{0:020d}.log", decoder="--cluster-metadata-decoder")


@pytest.mark.parametrize("features", [(), WITHOUT_WHAT_WE_LACK], ids=["default", "taken back"])
def test_we_start_first_on_a_directory_that_kafkas_tool_has_formatted(
    tmp_path: Path, features: tuple[str, ...]
) -> None:
    data = tmp_path / "data"
    properties, _ = write_properties(tmp_path, data, {})
    format_by("kafka", properties, *features)
    with Cluster(data_dir=data) as cluster:
        content = fill(cluster.bootstrap_servers)
    assert '"name":"metadata.version"' in levels_in(data)
    with apache_kafka(tmp_path / "kafka", data) as servers:
        check(servers, content)
        content = add(servers, content, "by Kafka")
    with Cluster(data_dir=data) as cluster:
        check(cluster.bootstrap_servers, content)


def test_apache_kafka_starts_first_on_a_directory_that_our_tool_has_formatted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    properties, _ = write_properties(tmp_path, data, {})
    format_by("moldau", properties)
    with apache_kafka(tmp_path / "kafka", data) as servers:
        content = fill(servers)
    assert '"name":"metadata.version"' in levels_in(data)
    with Cluster(data_dir=data) as cluster:
        check(cluster.bootstrap_servers, content)


def test_a_default_cluster_moves_here_with_lowered_features_and_raises_them_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with apache_kafka(tmp_path / "kafka", data) as servers:
        for feature in UNSERVED:
            words = ["--bootstrap-server", servers, "downgrade", "--feature", feature]
            run_java("org.apache.kafka.tools.FeatureCommand", *words)
        content = fill(servers)
    with Cluster(data_dir=data) as cluster:
        check(cluster.bootstrap_servers, content)
        content = add(cluster.bootstrap_servers, content, "by Moldau")
    with apache_kafka(tmp_path / "kafka", data) as servers:
        check(servers, content)
        words = ["--bootstrap-server", servers, "upgrade", "--feature", "group.version=1"]
        run_java("org.apache.kafka.tools.FeatureCommand", *words)


def test_a_level_of_4_4_is_opened_by_4_4_and_refused_by_4_3(tmp_path: Path) -> None:
    data = tmp_path / "data"
    properties, _ = write_properties(tmp_path, data, {})
    format_by("moldau", properties, "--release-version", "4.4")
    with Cluster(data_dir=data) as cluster:
        content = fill(cluster.bootstrap_servers)
    is_kafka_4_3 = any("4.3." in jar.name for jar in Path(os.environ["MOLDAU_KAFKA_LIBS"]).glob("kafka-clients-*.jar"))
    if not is_kafka_4_3:
        with apache_kafka(tmp_path / "kafka", data) as servers:
            check(servers, content)
            words = ["--bootstrap-server", servers, "describe"]
            assert f"FinalizedVersionLevel: {OF_4_4}" in run_java("org.apache.kafka.tools.FeatureCommand", *words)
        return
    command = [java(), "-Xmx256m", "-cp", os.environ["MOLDAU_KAFKA_LIBS"] + "/*", "kafka.Kafka", str(properties)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=START_S, check=False)
    assert done.returncode != 0
    with Cluster(data_dir=data) as cluster:
        check(cluster.bootstrap_servers, content)
