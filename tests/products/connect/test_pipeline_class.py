"""The class `pipeline`: what the process of questions says of it, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.products.connect.pipelines.configuration import cluster_of
from moldau.products.connect.pipelines.questions import answer
from moldau.products.connect.running.plugins import Plugins
from moldau.products.connect.running.programs import PIPELINE, PROGRAMS
from tests.support.connect_cluster import connect_cluster

SPEC = """\
name: shop
source: {topic: orders, format: json, schema: "user string, amount double"}
sql: select user from source where amount > ${LEAST}
sink: {topic: big, key: user}
"""


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "shop.yaml"
    file.write_text(SPEC)
    return {"name": "shop", "connector.class": PIPELINE, "pipeline.file": str(file), "pipeline.parameter.LEAST": "5"}


def errors_of(config: dict[str, str]) -> dict[str, list[str]]:
    found: Any = answer({"do": "validate", "config": config})
    values = [one["value"] for one in found["configs"]]
    return {one["name"]: one["errors"] for one in values if one["errors"]}


def test_a_pipeline_is_a_class_among_the_connectors(config: dict[str, str]) -> None:
    listed: Any = answer({"do": "list"})["plugins"]
    assert {(PIPELINE, "sink"), ("datagen", "source")} <= {(one["class"], one["type"]) for one in listed}
    described: Any = answer({"do": "describe", "class": PIPELINE})
    assert (described["types"], "pipeline.file" in {one["name"] for one in described["settings"]}) == (["sink"], True)
    assert answer({"do": "split", "config": config, "tasks": 8})["configs"] == [config]
    assert Plugins(PROGRAMS.plugins, {}).validate(config)["error_count"] == 0


def test_what_is_wrong_with_the_file_is_said_with_its_line(config: dict[str, str]) -> None:
    file = config["pipeline.file"]
    [told] = errors_of({name: text for name, text in config.items() if "LEAST" not in name})["pipeline.file"]
    assert told.startswith(f"{file}:3: `${{LEAST}}` in `sql` has no value: give one with `pipeline.parameter.LEAST`")
    Path(file).write_text(SPEC.replace("sink:", "snk:"))
    [told] = errors_of(config)["pipeline.file"]
    assert told.startswith(f"{file}:4: ")
    [told] = errors_of({**config, "pipeline.file": f"{file}.old"})["pipeline.file"]
    assert told.endswith("No such file on this worker")
    assert errors_of({"name": "shop", "connector.class": PIPELINE}).keys() == {"pipeline.file"}


def test_settings_of_other_connectors_are_unknown(config: dict[str, str]) -> None:
    assert errors_of({**config, "topics": "orders", "spark.sql.shuffle.partitions": "1"}).keys() == {"topics"}


def test_the_offsets_are_those_at_which_a_run_would_go_on(config: dict[str, str]) -> None:
    with connect_cluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        found = Plugins(PROGRAMS.plugins, {}).pipeline_offsets(config, cluster.bootstrap_servers)
    assert [one["partition"]["kafka_partition"] for one in found] == [0, 1]
    assert found[0]["partition"] | found[0]["offset"] == {
        "kafka_topic": "orders",
        "kafka_partition": 0,
        "query": "shop",
        "kafka_offset": 0,
    }


def test_a_worker_with_a_login_is_no_default_cluster() -> None:
    assert cluster_of("a:9092", {"security.protocol": "SASL_SSL"}) is None
    assert cluster_of("a:9092", {"security.protocol": "plaintext"}) is not None
