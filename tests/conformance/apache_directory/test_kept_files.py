"""Moldau's own files next to the logs do not disturb Apache Kafka 4.3, which keeps them unchanged.

Has the requirements of test_open_with_apache_kafka.
"""

from __future__ import annotations

from pathlib import Path

from moldau.ports import FLUSH_FAILED_MARK
from moldau.testing import Cluster
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA, apache_kafka, check, fill

pytestmark = NEEDS_APACHE_KAFKA


def test_apache_kafka_passes_over_what_was_cut_and_what_was_set_aside(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(data_dir=data) as cluster:
        content = fill(cluster.bootstrap_servers)
    segment = (data / "orders-0/00000000000000000000.log").read_bytes()
    stray = f"gone-0.{'ab' * 16}-stray"
    kept = {
        "orders-0/00000000000000000000.log.cut-10": segment,
        "orders-0/00000000000000000000.log.cut-10.2": b"torn",
        "orders-0/00000000000000000000.log.cut-0": segment,
        "__cluster_metadata-0/00000000000000000000.log.cut-99": b"torn",
        "__cluster_metadata-0/00000000000000000099-0000000001.checkpoint.damaged": b"damaged",
        f"{stray}/00000000000000000000.log": segment,
        f"{stray}/partition.metadata": b"version: 0\ntopic_id: Rndvag4jTpe_UzRf1cFmTg",
    }
    for name, content_of in kept.items():
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_bytes(content_of)
    assert (data / "__cluster_metadata-0/flushed-offset").is_file()
    (data / FLUSH_FAILED_MARK).write_text("orders-0/00000000000000000000.log")
    with apache_kafka(tmp_path / "kafka", data) as servers:
        check(servers, content)
    assert (data / FLUSH_FAILED_MARK).read_text() == "orders-0/00000000000000000000.log"
    found = {name: (data / name).read_bytes() for name in kept}
    assert found == kept
    with Cluster(data_dir=data) as cluster:
        check(cluster.bootstrap_servers, content)
    assert not (data / FLUSH_FAILED_MARK).exists()
    assert {name: (data / name).read_bytes() for name in kept} == kept
