"""A checkpoint of Spark's own Kafka connector (recorded with Spark 4.2: batch 0 finished, batch 1 interrupted), and the
way back to that connector."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.products.pipelines.checkpoints.checkpoint import CheckpointError, move_to_spark_kafka
from moldau.products.pipelines.checkpoints.lease import Lease
from moldau.spark.source.offsets import StartError
from moldau.testing import Cluster
from tests.spark.streams import Stream

RECORDED = Path(__file__).parent / "recorded" / "spark-kafka-checkpoint"
TOPIC = "orders-1"
"""Of the recorded checkpoint: two partitions, 20 offsets in a batch."""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "checkpoint"))


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        cluster.create_topic(TOPIC, partitions=2)
        for partition in range(2):
            cluster.produce(TOPIC, *[b"%d" % number for number in range(50)], partition=partition)
        yield cluster


def last_lines(checkpoint: Path) -> dict[int, str]:
    files = [path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()]
    return {int(path.name): path.read_text("utf-8").splitlines()[-1] for path in files}


def test_a_stream_continues_sparks_checkpoint_and_leaves_one_that_spark_reads(
    spark, cluster: Cluster, checkpoint: Path
):
    batches: dict[int, list[tuple[int, int]]] = {}

    def keep(batch, batch_id: int) -> None:
        batches[batch_id] = [(row["partition"], row["offset"]) for row in batch.select("partition", "offset").collect()]

    frame = spark.readStream.format("moldau").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    frame = frame.option("subscribe", TOPIC).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "20")
    writer = frame.load().writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert min(batches) == 1
    assert sorted(batches[1]) == [(partition, offset) for partition in range(2) for offset in range(10, 20)]
    rows = sorted(row for batch in batches.values() for row in batch)
    assert rows == [(partition, offset) for partition in range(2) for offset in range(10, 50)]
    assert "@topic_ids" in last_lines(checkpoint)[max(batches)]

    command = [
        sys.executable,
        "-m",
        "moldau.cli.main",
        "pipeline",
        "checkpoint",
        "--to",
        "spark-kafka",
        str(checkpoint),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "files changed" in done.stdout
    ends = last_lines(checkpoint)
    assert ends[max(ends)] == '{"orders-1":{"0":50,"1":50}}'
    for number, line in ends.items():
        assert list(json.loads(line)) == [TOPIC]
        # Spark rejects a file next to another file's checksum
        assert number < 2 or not (checkpoint / "offsets" / f".{number}.crc").exists()
    cluster.produce(TOPIC, b"more", partition=1)
    batches.clear()
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [row for batch in batches.values() for row in batch] == [(1, 50)]


def test_the_offsets_of_sparks_connector_stay_as_they_are(checkpoint: Path):
    before = last_lines(checkpoint)
    assert move_to_spark_kafka(checkpoint) == 0
    assert last_lines(checkpoint) == before


def test_the_start_of_a_first_batch_that_was_cut_short_moves_too(cluster: Cluster, tmp_path: Path):
    stream = Stream(cluster, subscribe=TOPIC)
    stream.reader.initialOffset()
    cluster.produce(TOPIC, b"new", partition=0)
    end = stream.plan()
    (tmp_path / "offsets").mkdir()
    path = tmp_path / "offsets" / "0"
    path.write_text(f"v1\n{{}}\n{json.dumps(end)}\n-", "utf-8")
    assert move_to_spark_kafka(tmp_path) == 2
    assert path.read_text("utf-8") == 'v1\n{}\n{"orders-1":{"0":51,"1":50}}\n-'
    assert (tmp_path / "sources" / "0" / "0").read_bytes() == b'\0v1\n{"orders-1":{"0":50,"1":50}}'
    assert move_to_spark_kafka(tmp_path) == 0


def test_a_first_batch_of_sparks_connector_that_was_cut_short_needs_its_start(cluster: Cluster):
    """The connector keeps the start in `sources/0/0`, where a Python source cannot read."""
    end = {TOPIC: {"0": 50, "1": 50}}
    with pytest.raises(StartError, match="sources/0/0"):
        Stream(cluster, subscribe=TOPIC).read(end)
    told = Stream(cluster, subscribe=TOPIC, startingOffsets=json.dumps({TOPIC: {"0": 49, "1": 50}}))
    assert told.read(end) == [b"49"]
    assert len(Stream(cluster, subscribe=TOPIC, startingOffsets="earliest").read(end)) == 100


def test_a_checkpoint_in_use_is_not_moved(checkpoint: Path, capsys):
    from moldau.cli.main import main

    with Lease(checkpoint):
        assert main(["pipeline", "checkpoint", "--to", "spark-kafka", str(checkpoint)]) == 1
    assert "runs a pipeline on the checkpoint" in capsys.readouterr().err
    assert main(["pipeline", "checkpoint", "--to", "spark-kafka", str(checkpoint)]) == 0


@pytest.mark.parametrize("text", ["", "v2\n{}\n{}", "v1\n{}", "v1\n{}\n[]", "v1\n{}\n{", "v1\n{}\n\xff"])
def test_what_is_no_checkpoint_is_left_alone(tmp_path: Path, text: str):
    with pytest.raises(CheckpointError, match="no checkpoint"):
        move_to_spark_kafka(tmp_path)
    (tmp_path / "offsets").mkdir()
    path = tmp_path / "offsets" / "3"
    path.write_text(text, "latin-1")
    with pytest.raises(CheckpointError, match=str(path)):
        move_to_spark_kafka(tmp_path)
    assert path.read_text("latin-1") == text
