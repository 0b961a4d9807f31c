"""Two targets of one pipeline on two clusters. The driver is killed with -9 when both have committed a batch that Spark
has not; each topic still has every record once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.testing import Cluster
from tests.exactly_once.pipeline_driver import POINTS

RECORDS, BATCH_RECORDS = 1_000, 300
LIFE_S = 200
"""The time limit of a driver that hangs, far above what one needs."""


@pytest.mark.slow
def test_two_targets_on_two_clusters_have_each_record_once(spark, tmp_path: Path, capsys):
    spec, wanted = tmp_path / "spec.yaml", [f"{number:04}" for number in range(RECORDS)]
    with Cluster() as here, Cluster() as there:
        source, near, far = here.topic(partitions=2), here.topic(), there.topic(partitions=2)
        for partition in range(2):
            here.produce(source, *wanted[partition::2], partition=partition)
        spec.write_text(
            f"""
name: both
bootstrap_servers: {here.bootstrap_servers}
sources:
  orders: {{topic: {source}, format: string}}
targets:
  near: {{from: orders, topic: {near}}}
  far: {{from: orders, topic: {far}, bootstrap_servers: "{there.bootstrap_servers}"}}
checkpoint: state
""",
            encoding="utf-8",
        )

        def written() -> list[list[str]]:
            both = ((here, near), (there, far))
            values = (
                [json.loads(one.value or b"")["value"] for one in cluster.records(topic)] for cluster, topic in both
            )
            return [sorted(of_topic) for of_topic in values]

        def lags() -> list[int]:
            capsys.readouterr()
            main(["pipeline", "status", str(spec), "--json"])
            return [query["lag"] for query in json.loads(capsys.readouterr().out)["queries"]]

        command = [sys.executable, "-m", "tests.exactly_once.pipeline_driver", str(spec), "--point", POINTS[2]]
        command += ["--batch", "1", "--records-per-batch", str(BATCH_RECORDS)]
        life = subprocess.run(command, capture_output=True, text=True, timeout=LIFE_S, check=False)
        assert life.returncode == -signal.SIGKILL, life.stderr[-4_000:]
        # Spark has finished only batch 0, and the last batch that both have written must run again
        assert [len(values) for values in written()] == [2 * BATCH_RECORDS] * 2
        assert lags() == [RECORDS - BATCH_RECORDS] * 2
        assert main(["pipeline", "run", "--once", str(spec)]) == 0
        assert (written(), lags()) == ([wanted, wanted], [0, 0])
        # progress for both is in the source's cluster; in its own cluster `far` has only the batch's commit metadata
        assert [here.lag(f"moldau.both.{name}") for name in ("near", "far")] == [0, 0]
        assert {topic for topic, _ in there.lag("moldau.both.far", by_partition=True)} == {far}
        assert main(["pipeline", "reset", str(spec), "--to", "earliest", "--execute"]) == 0
        assert [here.lag(f"moldau.both.{name}") for name in ("near", "far")] == [RECORDS] * 2
        assert lags() == [RECORDS] * 2
        # a new checkpoint version counts its batches from 0 again: the groups' knowledge of the old version does not
        # stop it
        assert main(["pipeline", "run", "--once", str(spec)]) == 0
        assert written() == [sorted(wanted * 2)] * 2
