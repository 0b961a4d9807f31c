"""`moldau pipeline serve --shared-session`: runs a directory of pipeline files in one Spark session."""

from __future__ import annotations

import os
import queue
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.products.pipelines.checkpoints.lease import holder_of
from tests.spark.served import START_S, board_port, first_value
from tests.support.talking_process import TalkingProcess


def spec_of(name: str, servers: str, topic: str, sql: str, to: str) -> str:
    return f"""
name: {name}
bootstrap_servers: {servers}
sources: {{lines: {{topic: {topic}, format: string}}}}
flows:
  values: {sql}
targets:
  out: {{from: values, topic: {to}}}
"""


@pytest.fixture
def serve():
    """`serve(directory)`: the service as a process, which ends with the test."""
    started: list[TalkingProcess] = []

    def start(directory: Path) -> TalkingProcess:
        words = [sys.executable, "-m", "moldau.cli.main", "pipeline", "serve", str(directory), "--shared-session"]
        started.append(TalkingProcess([*words, "--boards"]))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def until(service: TalkingProcess, is_it: Callable[[str], bool]) -> None:
    """Other lines are passed over. Raises AssertionError with all output."""
    try:
        assert service.wait_for(is_it, time.monotonic() + START_S), service.output
    except queue.Empty:
        raise AssertionError(service.output) from None


@pytest.mark.slow
def test_pipelines_of_one_session_have_their_own_views_and_failures(
    new_topic, new_name, produce, bootstrap_servers, serve, tmp_path: Path
):
    """Both name their views alike. The first is changed, then fails at each record, and leaves; the second goes on."""
    topics = [new_topic() for _ in range(5)]
    first, second = (new_name(name).replace(".", "-") for name in ("first", "second"))
    for topic, value in zip(topics[:2], (b"one", b"two"), strict=True):
        produce(topic, [(None, value)])
    files = {name: tmp_path / f"{name}.yaml" for name in (first, second)}
    files[first].write_text(spec_of(first, bootstrap_servers, topics[0], "select value from lines", topics[2]))
    upper = "select upper(value) as value from lines"
    files[second].write_text(spec_of(second, bootstrap_servers, topics[1], upper, topics[3]))
    (tmp_path / "bad.yaml").write_text("name: bad\nbootstrap_server: a:1\n")
    service = serve(tmp_path)
    until(service, lambda line: line.startswith("bad.yaml: is not run: ") and "`bootstrap_server`" in line)
    until(service, lambda line: line.startswith(f"{second}.yaml: runs {second}: {second}.out; board http://"))
    assert first_value(bootstrap_servers, topics[2]) == b"one"
    assert first_value(bootstrap_servers, topics[3]) == b"TWO"
    assert board_port(bootstrap_servers, f"{second}.out") is not None
    holder = holder_of(tmp_path / "checkpoints" / first)
    assert holder is not None
    assert (holder.process, holder.is_shared) == (service.pid, True)
    failing = "select raise_error(value) as value from lines"
    files[first].write_text(spec_of(first, bootstrap_servers, topics[0], failing, topics[4]).replace("out:", "other:"))
    until(service, lambda line: line.startswith(f"{first}.yaml: runs {first}: {first}.other;"))
    until(service, lambda line: line.startswith(f"{first}.other: waiting") and "one" in line)
    produce(topics[1], [(None, b"three")])
    until(service, lambda line: line.startswith(f"{second}.out: running, batch 2"))
    files[first].unlink()
    until(service, lambda line: line == f"{first}.yaml: is gone, and has stopped")
    assert holder_of(tmp_path / "checkpoints" / first) is None
    os.kill(service.pid, signal.SIGTERM)
    assert service.live_on(START_S) == 0


@pytest.mark.slow
def test_after_a_kill_another_service_waits_for_the_jvm_and_goes_on(
    new_topic, new_name, produce, bootstrap_servers, serve, tmp_path: Path
):
    topic, to = new_topic(), new_topic()
    name = new_name("killed").replace(".", "-")
    produce(topic, [(None, b"one")])
    (tmp_path / "killed.yaml").write_text(spec_of(name, bootstrap_servers, topic, "select value from lines", to))
    first = serve(tmp_path)
    until(first, lambda line: line.startswith(f"{name}.out: running, batch 1"))
    os.kill(first.pid, signal.SIGKILL)
    second = serve(tmp_path)
    until(second, lambda line: line.startswith(f"killed.yaml: runs {name}"))
    produce(topic, [(None, b"two")])
    until(second, lambda line: line.startswith(f"{name}.out: running, batch 1"))
    os.kill(second.pid, signal.SIGTERM)
    assert second.live_on(START_S) == 0
