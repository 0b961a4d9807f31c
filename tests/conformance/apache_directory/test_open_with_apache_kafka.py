"""Apache Kafka starts on a directory of Moldau and finds everything; and back again.

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory. Selected
by the marker: `pytest -m java tests/conformance/apache_directory`.
"""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from moldau.core.metadata.image import MetadataImage
from moldau.testing import Cluster
from tests.support.apache_kafka import (
    CLIENT_S,
    CONFIGS,
    GROUP,
    NEEDS_APACHE_KAFKA,
    add,
    apache_kafka,
    check,
    copy_of,
    dump,
    fill,
)

pytestmark = NEEDS_APACHE_KAFKA


def configs_in_kafka(servers: str, topic: str) -> dict[str, str]:
    """The topic's own settings."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": servers})  # kept: a deleted client cancels its futures
    [future] = admin.describe_configs([resource]).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in future.result(CLIENT_S).items() if entry.source == own}


def image_of(cluster: Cluster) -> MetadataImage:
    """The metadata of the running broker. DescribeConfigs is not served yet, so no client can ask for it."""
    return cluster.node.broker.image


def test_apache_kafka_opens_our_directory_and_we_open_it_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(data_dir=data) as cluster:
        content = fill(cluster.bootstrap_servers)
    with apache_kafka(tmp_path / "kafka", copied := copy_of(data, "copied")) as servers:
        check(servers, content)
        assert configs_in_kafka(servers, "small") == CONFIGS
        assert configs_in_kafka(servers, "orders") == {}
        assert configs_in_kafka(servers, "__consumer_offsets")["cleanup.policy"] == "compact"
        content = add(servers, content, "by Kafka")
    with Cluster(data_dir=copied) as cluster:
        check(cluster.bootstrap_servers, content)
        assert image_of(cluster).topic_configs("small") == CONFIGS
        content = add(cluster.bootstrap_servers, content, "by Moldau")
    with apache_kafka(tmp_path / "kafka", copied) as servers:
        check(servers, content)


def test_we_open_the_directory_of_apache_kafka_with_its_snapshots(tmp_path: Path) -> None:
    data = tmp_path / "data"
    frequent = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    with apache_kafka(tmp_path / "kafka", data, frequent) as servers:
        content = fill(servers)
    assert len(list(data.glob("__cluster_metadata-0/*.checkpoint"))) > 1
    with Cluster(data_dir=data) as cluster:
        image = image_of(cluster)
        assert image.next_producer_id >= 1_000
        assert image.topic_configs("small") == CONFIGS
        assert image.cluster_defaults() == {"min.insync.replicas": "1"}
        check(cluster.bootstrap_servers, content)
        content = add(cluster.bootstrap_servers, content, "by Moldau")
    with apache_kafka(tmp_path / "kafka", data, frequent) as servers:
        check(servers, content)


def test_apache_kafka_opens_what_a_crash_of_ours_left_and_our_snapshots(tmp_path: Path) -> None:
    data = tmp_path / "data"
    frequent = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    with Cluster(data_dir=data, settings=frequent) as cluster:
        content = fill(cluster.bootstrap_servers)
        crashed = copy_of(data, "crashed")
    assert len(list(crashed.glob("__cluster_metadata-0/*.checkpoint"))) > 1
    with apache_kafka(tmp_path / "kafka", crashed) as servers:
        check(servers, content)
        content = add(servers, content, "by Kafka")
    with Cluster(data_dir=crashed) as cluster:
        check(cluster.bootstrap_servers, content)


def test_kafkas_tool_reads_every_file_of_ours(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(data_dir=data, settings={"metadata.log.max.record.bytes.between.snapshots": "2000"}) as cluster:
        fill(cluster.bootstrap_servers)
    metadata = data / "__cluster_metadata-0"
    printed = dump(
        data / "bootstrap.checkpoint",
        *sorted(metadata.glob("*.checkpoint")),
        metadata / f"{0:020d}.log",
        decoder="--cluster-metadata-decoder",
    )
    assert printed.count('"type":"REGISTER_BROKER_RECORD"') >= 1
    assert "isvalid: false" not in printed
    offsets = sorted(data.glob("__consumer_offsets-*/*.log"))
    assert GROUP in dump(*offsets, decoder="--offsets-decoder")
    others = [
        file
        for suffix in ("log", "index", "timeindex", "snapshot")
        for file in sorted(data.glob(f"[os]*-?/*.{suffix}"))
        if file.stat().st_size
    ]
    printed = dump(*others)
    assert printed.count("Dumping ") == len(others)
    for complaint in ("isvalid: false", "mismatch", "Mismatch", "Found ", "not in"):
        assert complaint not in printed


def test_our_directory_holds_the_files_that_apache_kafka_leaves(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with Cluster(data_dir=ours) as cluster:
        fill(cluster.bootstrap_servers)
    with apache_kafka(tmp_path / "kafka", theirs) as servers:
        fill(servers)
    assert files_of(ours) == files_of(theirs)


def files_of(data: Path) -> list[str]:
    """The files of the directory itself, of the metadata log and of partitions that hold records.

    Left out: producer snapshots, whose names contain offsets; the lock, which is not data; the file of the flushed
    offset, which Apache Kafka leaves alone (decision 0014); empty partitions, whose segment files Moldau creates with
    their first record; and `bootstrap.checkpoint`, which Apache Kafka 4.3 needs at a first start and 4.4 no longer
    creates (KIP-1170).
    """
    paths = [path for place in (".", "__cluster_metadata-0", "[os]*-?") for path in data.glob(f"{place}/*")]
    names = [str(path.relative_to(data)) for path in paths if path.is_file()]
    left_out = (".snapshot", ".lock", "/flushed-offset", "bootstrap.checkpoint")
    return sorted(name for name in names if not name.endswith(left_out))
