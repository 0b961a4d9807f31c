"""Output for a pipeline whose topics are on several clusters, without Spark."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.checkpoints.checkpoint import claim_checkpoint, write_whole
from moldau.products.pipelines.running.group import GroupOffsets
from moldau.products.pipelines.spec.spec import load_spec
from moldau.spark.source.offsets import StreamOffset, offset_to_dict
from moldau.testing import Cluster
from moldau.types import TopicPartition


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_status_tells_topics_of_one_name_on_two_clusters_from_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], order: tuple[int, int]
) -> None:
    """By two patterns that share topics; a pipeline with one pattern for both is rejected. `order`: of the sources in
    Spark's checkpoint."""
    with Cluster() as cluster, Cluster() as other:
        name, more = cluster.topic(), "more"
        cluster.produce(name, "a", "b", "c", "d")
        for topic in (name, more):
            other.create_topic(topic)
            other.produce(topic, "a", "b")
        spec = tmp_path / "spec.yaml"
        spec.write_text(
            f"""
name: of-{name}
bootstrap_servers: {cluster.bootstrap_servers}
sources:
  here: {{pattern: "{name}|{more}", format: string}}
  there: {{pattern: "{more}|{name}", format: string, bootstrap_servers: "{other.bootstrap_servers}"}}
flows:
  all: select value from here union all select value from there
targets:
  out: {{from: all, path: out}}
""",
            encoding="utf-8",
        )
        (query,) = load_spec(spec).queries

        def standing() -> tuple[int, str]:
            main(["pipeline", "status", str(spec), "--json"])
            (told,) = json.loads(capsys.readouterr().out)["queries"]
            return told["lag"], told["next_run"]

        read = []
        for one, offsets in ((cluster, {name: 3}), (other, {name: 2, more: 1})):
            with closing(GroupOffsets(ClusterAccess(one.bootstrap_servers), query.group)) as group:
                ends = {TopicPartition(topic, 0): offset for topic, offset in offsets.items()}
                read.append(offset_to_dict(StreamOffset(ends, group.topic_ids(list(offsets)))))
        claim_checkpoint(query.checkpoint, query.step.facts(), pipeline=query.name)
        lines = [json.dumps(read[source]) for source in order]
        write_whole(query.checkpoint / "offsets" / "7", "\n".join(["v1", "{}", *lines]))
        write_whole(query.checkpoint / "commits" / "7", "v1\n{}")
        assert standing() == (2, "goes on after batch 7")
        advice = "write `lost_records: skip` in its source, or `moldau pipeline reset`"
        other.delete_topic(name)
        assert standing() == (2, f"refused: topic '{name}' is gone: {advice}")
        other.create_topic(name)
        other.produce(name, "c", "d", "e")
        assert standing() == (5, f"refused: topic '{name}' was made anew: {advice}")
