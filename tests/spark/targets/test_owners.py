"""No pipeline writes where the rows of another pipeline are: neither in a run, nor after a reset."""

from __future__ import annotations

from pathlib import Path

import polars
import pytest

from moldau.errors import MoldauError
from moldau.products.pipelines.running.checkpoint_versions import reset
from moldau.products.pipelines.running.preflight import PreflightError, check_owner
from moldau.products.pipelines.spec.spec import PipelineSpec, parse_spec
from tests.support.postgresql import PostgresqlServer

SPEC = """
sources: {{rows: {{topic: {topic}, format: string}}}}
targets:
  files: {{from: rows, path: out/files}}
  delta: {{from: rows, delta: out/delta}}
  iceberg: {{from: rows, iceberg: a.t, warehouse: out/lake}}
  sqlite: {{from: rows, sqlite: out/a.db, table: t}}
  postgresql: {{from: rows, postgresql: "{server}", table: owned}}
"""


@pytest.mark.slow
def test_each_kind_of_place_is_that_of_its_first_pipeline(
    run_spec, new_topic, produce, bootstrap_servers, postgresql: PostgresqlServer, tmp_path: Path
):
    topic = new_topic()
    text = SPEC.format(topic=topic, server=postgresql.url)
    produce(topic, [(None, b"a")])

    def spec(name: str) -> PipelineSpec:
        head = f"name: {name}\nbootstrap_servers: {bootstrap_servers}\ncheckpoint: state\n"
        return parse_spec(head + text, file_name="spec.yaml", directory=tmp_path)

    run_spec(text, "shop")
    reset(spec("shop"), "earliest")
    assert {state.state for state in run_spec(text, "shop")} == {"finished"}
    # readers that read all files of a directory do not see the owner file
    assert polars.read_parquet(tmp_path / "out" / "files").height == 2
    for query in spec("shops").queries:
        with pytest.raises(PreflightError, match=r"belongs to the pipeline 'shop(\.iceberg)?': name another place"):
            check_owner(spec("shops"), query)
    with pytest.raises(PreflightError, match=r"^spec\.yaml:7: `targets\.files`: Parquet files in .* 'shop'"):
        run_spec(text, "shops")


def test_a_pipeline_that_is_refused_leaves_its_name_nowhere(run_spec, new_topic, bootstrap_servers, tmp_path: Path):
    text = f"""
sources: {{rows: {{topic: {new_topic()}, format: string}}}}
flows: {{sorted: select value from rows order by value}}
targets:
  files: {{from: rows, path: out/files}}
  delta: {{from: sorted, delta: out/delta}}
  sqlite: {{from: rows, sqlite: out/a.db, table: t}}
"""
    with pytest.raises(MoldauError, match=r"^spec\.yaml:9: `targets\.delta`"):
        run_spec(text, "refused")
    head = f"name: refused\nbootstrap_servers: {bootstrap_servers}\n"
    spec = parse_spec(head + text, file_name="spec.yaml", directory=tmp_path)
    assert [query.target.owner() for query in spec.queries] == [None] * 3
    assert not (tmp_path / "out").exists()
