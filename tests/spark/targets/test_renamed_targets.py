"""A renamed target is another query: it does not append the same rows after those of the old one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars
import pytest

from moldau.products.pipelines.running.preflight import PreflightError

SPEC = """
sources:
  rows: {{topic: {topic}, format: json, schema: n int}}
targets:
  lake: {{from: rows, path: out}}
  copy: {{from: rows, topic: {copy}}}
"""


@pytest.mark.slow
def test_a_renamed_target_does_not_write_its_rows_again(run_spec, new_topic, produce, read_back, tmp_path: Path):
    topic, copy = new_topic(), new_topic()
    text = SPEC.format(topic=topic, copy=copy)
    produce(topic, [(None, b'{"n": 1}')])
    run_spec(text)
    with pytest.raises(PreflightError, match=r"spec.yaml:8: `targets.sea` would begin .* its old name 'lake' again, "):
        run_spec(text.replace("lake:", "sea:"))
    with pytest.raises(PreflightError, match=r"spec.yaml:9: `targets.twin` would begin .* its old name 'copy' again, "):
        run_spec(text.replace("copy:", "twin:"))
    short = f"source: {{topic: {topic}, format: string}}\nsql: select value from source\nsink: {{path: out}}\n"
    with pytest.raises(PreflightError, match=r"spec.yaml:6: `sink` would begin again, .* its old name 'lake' again, "):
        run_spec(short)
    produce(topic, [(None, b'{"n": 2}')])
    run_spec(text + "  more: {from: rows, path: elsewhere}\n")
    assert sorted(polars.read_parquet(tmp_path / "out")["n"]) == [1, 2]
    assert len(read_back(copy)) == 2
    shutil.rmtree(tmp_path / "state" / "lake")
    run_spec(text.replace("lake:", "sea:"))
    assert sorted(polars.read_parquet(tmp_path / "out")["n"]) == [1, 1, 2, 2]


@pytest.mark.slow
def test_a_target_takes_the_topic_of_one_that_is_gone_and_read_something_else(run_spec, new_topic, produce, read_back):
    warm, high, alerts = new_topic(), new_topic(), new_topic()
    spec = (
        "sources:\n  rows: {{topic: {source}, format: string}}\ntargets:\n  {name}: {{from: rows, topic: {alerts}}}\n"
    )
    for source, name in ((warm, "warm"), (high, "high")):
        produce(source, [(None, name.encode())])
        run_spec(spec.format(source=source, name=name, alerts=alerts))
    assert [json.loads(value)["value"] for _, value in read_back(alerts)] == ["warm", "high"]
    with pytest.raises(PreflightError, match=r"`targets\.again` would begin again, and write again"):
        run_spec(spec.format(source=warm, name="again", alerts=alerts))


def test_the_long_form_does_not_write_again_what_the_short_form_wrote(run_spec, new_topic, produce):
    topic = new_topic()
    produce(topic, [(None, b"a")])
    run_spec(f"source: {{topic: {topic}, format: string}}\nsql: select value from source\nsink: {{path: out}}\n")
    match = r"`targets.pipe` would begin .* write the pipeline file in its short form again, "
    with pytest.raises(PreflightError, match=match):
        run_spec(f"sources:\n  rows: {{topic: {topic}, format: string}}\ntargets:\n  pipe: {{from: rows, path: out}}\n")
