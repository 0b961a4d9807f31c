"""`moldau produce` that is stopped writes every line that it has read, and prints the number of records."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from moldau.testing import Cluster


def start(cluster: Cluster, *words: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "moldau.cli.main", *words, "--bootstrap-server", cluster.bootstrap_servers]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    ("number", "code", "name"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")], ids=["int", "term"]
)
def test_a_signal_loses_no_line_that_was_read(
    number: signal.Signals, code: int, name: str, moldau_cluster: Cluster, moldau_topic: str
) -> None:
    with start(moldau_cluster, "produce", moldau_topic) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\nhal")
        process.stdin.flush()
        # both lines arrive while the input stays open: the command now waits for more
        moldau_cluster.wait_for(topic=moldau_topic, records=2, timeout=60)
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == code
    assert told.decode() == (
        f"2 records to {moldau_topic}: {moldau_topic}-0 at 0 to 1; stopped by {name}; "
        "a line without its end (3 bytes) was not written\n"
    )
    assert [record.value for record in moldau_cluster.records(moldau_topic)] == [b"one", b"two"]


def test_ctrl_c_in_a_flood_writes_what_it_counts(moldau_cluster: Cluster, moldau_topic: str) -> None:
    with start(moldau_cluster, "produce", moldau_topic) as process:
        assert process.stdin is not None
        block = b"".join(b"%d\n" % number for number in range(1000))
        process.stdin.write(block)
        process.stdin.flush()
        moldau_cluster.wait_for(topic=moldau_topic, records=1, timeout=60)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    values = [record.value for record in moldau_cluster.records(moldau_topic)]
    assert told.decode().startswith(f"{len(values)} records to {moldau_topic}: ")
    assert "; stopped by Ctrl-C" in told.decode()
    assert values == block.split(b"\n")[: len(values)]


def test_a_closed_pipe_behind_kafkas_producer_loses_no_line(moldau_cluster: Cluster, moldau_topic: str) -> None:
    with start(moldau_cluster, "kafka-console-producer", "--topic", moldau_topic) as process:
        process.communicate(b"one\ntwo", timeout=60)
    assert [record.value for record in moldau_cluster.records(moldau_topic)] == [b"one", b"two"]


def test_an_unknown_topic_ends_a_producer_that_waits_for_input(moldau_own_cluster: Cluster) -> None:
    with start(moldau_own_cluster, "produce", "no/topic") as process:
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.wait(timeout=60) == 1  # although its input stays open
        assert process.stderr is not None
        told = process.stderr.read().decode()
    assert told.startswith("moldau: ")
    assert "(0 records written to no/topic, 1 not)" in told
