"""`moldau pipeline serve`: runs a directory of pipeline files as processes."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from tests.spark.served import START_S, board_port, first_value
from tests.support.talking_process import line_of


@pytest.mark.slow
def test_pipelines_run_change_and_stop_while_a_bad_one_is_named(
    new_topic, new_name, produce, bootstrap_servers, tmp_path: Path
):
    topic, before, after, name = new_topic(), new_topic(), new_topic(), new_name("served").replace(".", "-")
    produce(topic, [(None, b"one")])
    spec = f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
source: {{topic: {topic}, format: string}}
sql: select value from source
sink: {{topic: {before}}}
"""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    bad.write_text("name: bad\nbootstrap_server: a:1\n", "utf-8")
    good.write_text(spec, "utf-8")
    serving = subprocess.Popen(
        [sys.executable, "-m", "moldau.cli.main", "pipeline", "serve", str(tmp_path), "--boards"],
        stdout=subprocess.PIPE,
        text=True,
    )
    said = partial(line_of, serving.stdout, START_S)
    try:
        assert said().startswith(f"bad.yaml: is not run: {bad}:2: `bootstrap_server` is not known")
        assert said() == f"good.yaml: runs {name}: {name}\n"
        assert first_value(bootstrap_servers, before) == b"one"
        with urllib.request.urlopen(f"http://127.0.0.1:{board_port(bootstrap_servers, name)}/status.json") as answer:
            assert json.load(answer)["pipeline"] == name
        good.write_text(spec.replace("select value", "select upper(value) as value"), "utf-8")
        assert said().startswith(f"good.yaml: continues unchanged, for {good}: `sql` changed since")
        good.write_text(spec.replace(before, after), "utf-8")
        assert said() == f"good.yaml: runs {name}: {name}\n"
        produce(topic, [(None, b"two")])
        assert first_value(bootstrap_servers, after) == b"two"
        serving.terminate()
        assert serving.wait(START_S) == 0
        assert said() == ""
    finally:
        serving.kill()
        serving.wait(START_S)
