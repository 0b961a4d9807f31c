"""The service with real connectors, by its commands."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.testing import Cluster
from tests.support.connect_cluster import connect_cluster
from tests.support.connect_workers import Rest
from tests.support.odd_server import odd_server
from tests.support.talking_process import line_of, running

COMMAND = [sys.executable, "-m", "moldau", "connect"]
CLASS = "moldau.connectors.datagen:DataGenerator"
MADE = {"connector.class": CLASS, "topic": "made", "rows.per.second": "0", "limit": "300", "tasks.max": "2"}
END_S = 60


@contextmanager
def served(*arguments: str) -> Iterator[Rest]:
    with running([*COMMAND, "serve", "--port", "0", *arguments], stdout=subprocess.PIPE) as process:
        line = line_of(process.stdout)
        assert line.startswith("connect http://"), line
        rest = Rest(line.split()[1].rstrip("/"))
        rest.until("/health", lambda _: True)
        yield rest
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0


def run(rest: Rest, *words: str) -> tuple[int, str]:
    """The exit code, and the output or the error. In this process: a new one takes a second."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["connect", *words, "--url", rest.url])
    return code, out.getvalue() or err.getvalue()


def records_of(cluster: Cluster, topic: str) -> int:
    return sum(1 for _ in cluster.records(topic))


@pytest.mark.slow
def test_a_connector_is_created_stopped_reset_and_deleted_by_commands(tmp_path: Path) -> None:
    file = tmp_path / "made.json"
    file.write_text(json.dumps({"name": "made", "config": MADE}))
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(f"name=wrong\nconnector.class={CLASS}\ntopic=made\nrows.per.secnd=1\n")
    with connect_cluster() as cluster, served("-b", cluster.bootstrap_servers) as rest:
        assert run(rest, "list") == (0, "no connectors\n")
        code, told = run(rest, "validate", str(wrong))
        assert (code, "did you mean 'rows.per.second'?" in told) == (1, True)
        code, told = run(rest, "create", str(wrong))
        assert (code, "did you mean 'rows.per.second'?" in told) == (1, True)
        assert run(rest, "create", str(file)) == (0, "made: created\n")
        rest.until_states("made", "RUNNING", "RUNNING")
        cluster.wait_for(lambda: records_of(cluster, "made") == 300)
        code, told = run(rest, "list")
        assert told.splitlines()[2].split() == ["made", "source", "RUNNING", "2", "of", "2", "running", CLASS]
        rest.until("/connectors/made/progress", lambda told: all(one["progress"]["records"] for one in told["tasks"]))
        head, _, *parts = run(rest, "status", "made")[1].splitlines()
        assert head.split() == ["part", "state", "worker", "records", "records/s", "lag", "error"]
        assert sum(int(part.split()[4]) for part in parts[1:]) == 300
        with running([*COMMAND, "status", "made", "--watch", "--url", rest.url], stdout=subprocess.PIPE) as watching:
            heads = [line_of(watching.stdout).split()[0] for _ in range(6)]
            assert [one for one in heads if one[0] not in "─-"] == ["part", "connector", "task", "task", "part"]
        status, told = rest.settled("PUT", "/connectors/made/config", MADE | {"tasks.max": "3"})
        assert (status, "'DELETE' request to '/connectors/made/offsets'" in told["message"]) == (400, True)
        assert rest.settled("PUT", "/connectors/made/config", MADE | {"task.memory.max.mb": "500"})[0] == 200
        assert run(rest, "offsets", "made", "--reset")[0] == 1
        assert run(rest, "stop", "made")[0] == 0
        rest.until("/connectors/made/status", lambda found: found["tasks"] == [])
        code, told = run(rest, "offsets", "made", "--json")
        places = json.loads(told)["offsets"]
        assert sorted(one["partition"]["slot"] for one in places) == [0, 1]
        assert sum(one["offset"]["rows"] for one in places) == 300
        assert run(rest, "offsets", "made", "--reset")[0] == 0
        assert run(rest, "offsets", "made") == (0, "no offsets\n")
        assert rest.settled("PUT", "/connectors/made/config", MADE | {"tasks.max": "3"})[0] == 200
        assert run(rest, "resume", "made")[0] == 0
        rest.until_states("made", "RUNNING", "RUNNING", "RUNNING")
        cluster.wait_for(lambda: records_of(cluster, "made") == 600)
        assert run(rest, "restart", "made", "--task", "1")[0] == 0
        assert run(rest, "delete", "made")[0] == 0
        rest.until("/connectors", lambda found: found == [])
        assert run(rest, "pause", "made") == (1, "moldau: Unknown connector made\n")
        assert run(rest, "restart", "nothing") == (1, "moldau: Unknown connector: nothing\n")


@pytest.mark.slow
def test_a_worker_alone_takes_its_connectors_from_files(tmp_path: Path) -> None:
    file = tmp_path / "made.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in {"name": "made", **MADE}.items()))
    settings = tmp_path / "worker.properties"
    with connect_cluster() as cluster:
        settings.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\noffset.storage.topic=places\n")
        with served("--config", str(settings), "--standalone", str(file)) as rest:
            rest.until_states("made", "RUNNING", "RUNNING")
            cluster.wait_for(lambda: records_of(cluster, "made") == 300)
        # its place is kept: nothing is written twice
        with served("--config", str(settings), "--standalone", str(file)) as rest:
            rest.until_states("made", "RUNNING", "RUNNING")
            rest.until("/connectors/made/offsets", lambda found: len(found["offsets"]) == 2)
        assert records_of(cluster, "made") == 300
        file.write_text(file.read_text().replace("tasks.max=2", "tasks.max=1"))
        words = [*COMMAND, "serve", "--port", "0", "--config", str(settings), "--standalone", str(file)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=END_S, check=False)
        assert (done.returncode, "gives connector made 1 task, and its offsets are those of 2" in done.stderr) == (
            1,
            True,
        )


def test_a_wrong_file_of_settings_is_rejected(tmp_path: Path) -> None:
    settings = tmp_path / "worker.properties"
    settings.write_text("ofset.storage.topic=places\n")
    done = subprocess.run(
        [*COMMAND, "serve", "--config", str(settings)], capture_output=True, text=True, timeout=END_S, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"moldau: {settings}: ofset.storage.topic is no setting of a worker: offset.storage.topic?\n"


def test_a_command_without_a_worker_says_so() -> None:
    done = subprocess.run(
        [*COMMAND, "list", "--url", "http://127.0.0.1:1"], capture_output=True, text=True, timeout=END_S, check=False
    )
    assert (done.returncode, done.stderr.startswith("moldau: no worker answers at http://127.0.0.1:1: ")) == (1, True)


def test_a_command_waits_while_the_workers_rebalance(capsys: pytest.CaptureFixture[str]) -> None:
    conflict = b'{"error_code": 409, "message": "Cannot complete request because of a rebalance"}'
    answers = [
        b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)
        for status, body in ((b"409 Conflict", conflict), (b"204 No Content", b""))
    ]
    with odd_server(answers) as address:
        assert main(["connect", "pause", "orders", "--url", f"http://{address}"]) == 0
    again = b'{"error_code": 409, "message": "Connector orders already exists"}'
    with odd_server([b"HTTP/1.1 409 Conflict\r\ncontent-length: %d\r\n\r\n%s" % (len(again), again)]) as address:
        assert main(["connect", "pause", "orders", "--url", f"http://{address}"]) == 1
    assert capsys.readouterr().err == "moldau: Connector orders already exists\n"
