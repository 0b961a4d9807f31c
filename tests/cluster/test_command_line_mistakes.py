"""The command line's messages for user errors: wrong addresses, missing things, wrong numbers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import Cluster
from tests.support.talking_process import TalkingProcess, line_of, running


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that refuses connections: its port is taken, but no process listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def run(*arguments: str, text: str = "", code: int = 0, timeout: float = 60) -> str:
    command = [sys.executable, "-m", "moldau.cli.main", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("produce", "orders", "coffee"),
        ("consume", "orders", "--until-end"),
        ("groups", "describe", "kitchen"),
        ("offsets", "reset", "kitchen", "--to-latest"),
        ("offsets", "delete", "kitchen", "--topic", "orders"),
        ("registry", "--port", "0"),
    ],
)
def test_an_absent_broker_is_told_at_once(words: tuple[str, ...], nobody: str) -> None:
    # Kafka's clients retry for 10 s and more, so the time of the whole process is the bound
    assert run(*words, "-b", nobody, code=1, timeout=9) == (
        f"moldau: no broker answers at {nobody}: connection refused, nothing listens there\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("address", ["", "127.0.0.1:99999", "http://127.0.0.1:9092", "127.0.0.1:x", ","])
def test_an_address_that_is_none_is_one_sentence(address: str) -> None:
    for words in (("topics", "list"), ("produce", "orders", "coffee")):
        told = run(*words, "-b", address, code=1)
        assert told.startswith("moldau: bootstrap servers: ")
        assert told.count("\n") == 1


def test_the_console_tools_of_kafka_say_that_they_wait_for_a_broker(nobody: str) -> None:
    command = [sys.executable, "-m", "moldau.cli.main", "kafka-console-consumer", "--topic", "orders"]
    with running([*command, "--bootstrap-server", nobody], stderr=subprocess.PIPE) as process:
        line = line_of(process.stderr)
    assert line == f"WARN Connection to {nobody} could not be established. Trying again.\n"


def test_kafka_s_console_producer_names_a_record_that_is_too_large_and_goes_on(
    moldau_cluster: Cluster, moldau_topic: str
) -> None:
    words = ("--bootstrap-server", moldau_cluster.bootstrap_servers, "--topic", moldau_topic)
    run("kafka-console-producer", *words, text="a\n" + "x" * 1_048_577 + "\nb\n")
    assert [record.value for record in moldau_cluster.records(moldau_topic)] == [b"a", b"b"]


def test_a_topic_that_is_there_is_not_said_to_be_created(moldau_cluster: Cluster, moldau_topic: str) -> None:
    at = ("-b", moldau_cluster.bootstrap_servers)
    assert run("topics", "create", moldau_topic, "--if-not-exists", *at) == f"{moldau_topic}: exists already\n"


def test_states_and_counts_that_are_none_are_refused(moldau_cluster: Cluster, moldau_topic: str) -> None:
    at = ("-b", moldau_cluster.bootstrap_servers)
    assert "--state is one of Stable, Empty" in run("groups", "list", "--state", "bogus", *at, code=2)
    assert run("groups", "list", "--state", "stable", *at) == ""
    assert "--count takes a number from 1 on" in run("consume", moldau_topic, "--count", "0", *at, code=1)


def test_the_lag_of_partitions_without_an_offset_is_not_0(moldau_own_cluster: Cluster) -> None:
    cluster = moldau_own_cluster
    cluster.create_topic("orders", partitions=2)
    cluster.produce("orders", "coffee", "tea")
    at = ("-b", cluster.bootstrap_servers)
    run("offsets", "reset", "kitchen", "--topic", "orders:0", "--to-earliest", "--execute", *at)
    assert run("groups", "describe", "kitchen", *at).splitlines()[0] == "group kitchen: Empty, 0 members, lag 1"
    from confluent_kafka import Consumer

    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "kitchen", "enable.auto.commit": False}
    )
    try:
        consumer.subscribe(["orders"])
        consumer.poll(0)
        cluster.wait_for(group="kitchen", members=1)
        cluster.wait_for(lambda: consumer.poll(0.05) or consumer.assignment())
        told = run("groups", "describe", "kitchen", *at).splitlines()[0]
    finally:
        consumer.close()
    assert told == "group kitchen: Stable, 1 member, lag 1 (1 partition without a committed offset)"


HUGE = "99999999999999999999"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("produce", "t", "x", "--partition", HUGE), 2, "--partition: must be a whole number"),
        (("consume", "t", "--from", HUGE), 2, "--from: takes beginning, end, an offset, or a time"),
        (("consume", "t", "--from", "\u00b2"), 2, "--from: takes beginning, end, an offset, or a time"),
        (("topics", "create", "t", "--partitions", HUGE), 2, "--partitions: must be a whole number"),
        (("topics", "create", "t", "--replication-factor", "40000"), 2, "at most 32767"),
        (("partitions", "add", "t", HUGE), 2, "COUNT: must be a whole number"),
        (("partitions", "trim", "t", "--before", HUGE), 2, "--before: must be a whole number"),
        (("offsets", "reset", "g", "--topic", "t", "--to-offset", HUGE), 2, "must be a whole number"),
        (("offsets", "reset", "g", "--topic", "t", "--by-duration", f"P{HUGE}D"), 2, "is no duration: write 90s"),
        (("doctor", "--timeout", "-1"), 2, "--timeout: must be a number of seconds"),
        (("doctor", "--timeout", "nan"), 2, "--timeout: must be a number of seconds"),
        (("offsets", "list", "t", "--at", "yesterday"), 2, "'yesterday' is no time: write 2026-01-31"),
        (
            ("consume", "t", "--last", "1", "--count", "1"),
            1,
            "--last says which records and when to stop: drop --count",
        ),
        (("consume", "t", "--last", "0"), 1, "--last takes a number from 1 on"),
        (("produce", "\udcff", "x"), 1, "is not UTF-8"),
        (("groups", "describe", "\udcff"), 1, r"moldau: '\udcff' is not UTF-8"),
        (("topics", "create", "\udcff"), 1, r"moldau: '\udcff' is not UTF-8"),
        (("log", "dump", f"{'x' * 300}.log"), 1, f"moldau: {'x' * 300}.log: File name too long\n"),
        (("pipeline", "reset", "p.yaml", "--to", "earlist"), 2, "--to: takes earliest, latest, a time ("),
        (("brokers", "describe", "one"), 2, "BROKER: must be a whole number"),
        (("up", "--brokers", "three"), 2, "--brokers: must be a whole number"),
        (("console", "-b", "nonsense:xx"), 1, "'nonsense:xx' is not host:port"),
        (("configs", "describe", "topic", "none"), 1, "moldau: unknown topic: none\n"),
        (("partitions", "add", "none", "3"), 1, "moldau: unknown topic: none\n"),
    ],
)
def test_what_cannot_be_is_a_sentence(words: tuple[str, ...], code: int, told: str, moldau_cluster: Cluster) -> None:
    at = () if {"-b", "doctor", "log", "pipeline"} & set(words) else ("-b", moldau_cluster.bootstrap_servers)
    assert told in run(*words, *at, code=code)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_an_output_that_takes_no_more_is_a_sentence(moldau_cluster: Cluster, moldau_topic: str) -> None:
    moldau_cluster.produce(moldau_topic, "coffee")
    for words in (("topics", "list"), ("consume", moldau_topic, "--from", "beginning", "--until-end")):
        command = [sys.executable, "-m", "moldau.cli.main", *words, "-b", moldau_cluster.bootstrap_servers]
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (1, "moldau: No space left on device\n")


def test_a_closed_standard_output_is_a_sentence(moldau_cluster: Cluster, moldau_topic: str) -> None:
    moldau_cluster.produce(moldau_topic, "coffee")
    command = f'exec "{sys.executable}" -m moldau.cli.main consume {moldau_topic} -b {moldau_cluster.bootstrap_servers}'
    done = subprocess.run(["sh", "-c", command + " >&-"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "moldau: standard output is closed\n")


def test_a_terminal_that_has_only_ascii_gets_the_whole_answer(moldau_cluster: Cluster, moldau_topic: str) -> None:
    moldau_cluster.produce(moldau_topic, "Gl\u00fcck")
    at = ("-b", moldau_cluster.bootstrap_servers)
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for words, printed in (
        (("topics", "describe", moldau_topic), "-----"),
        (("consume", moldau_topic, "--last", "1", "--json"), '"Gl\\u00fcck"'),
    ):
        command = [sys.executable, "-m", "moldau.cli.main", *words, *at]
        done = subprocess.run(command, capture_output=True, text=True, env=ascii_only, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert printed in done.stdout


def test_records_without_a_standard_input_are_asked_for(moldau_cluster: Cluster, moldau_topic: str) -> None:
    command = f'exec "{sys.executable}" -m moldau.cli.main produce {moldau_topic} -b {moldau_cluster.bootstrap_servers}'
    done = subprocess.run(["sh", "-c", command + " <&-"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "moldau: standard input is closed: name the records after the topic\n",
    )


@pytest.mark.parametrize(
    ("words", "closed", "code", "told"),
    [
        (("doctor", "ADDRESS"), ">&-", 0, ""),
        (("consume", "TOPIC", "--until-end", "-b", "ADDRESS"), "2>&-", 0, ""),
        (
            ("kafka-console-consumer", "--topic", "TOPIC", "--bootstrap-server", "ADDRESS"),
            ">&-",
            1,
            "standard output is closed\n",
        ),
        (
            ("kafka-console-producer", "--topic", "TOPIC", "--bootstrap-server", "ADDRESS"),
            "<&-",
            1,
            "standard input is closed\n",
        ),
    ],
    ids=("doctor", "consume", "console consumer", "console producer"),
)
def test_a_closed_stream_is_no_traceback(
    words: tuple[str, ...], closed: str, code: int, told: str, moldau_cluster: Cluster, moldau_topic: str
) -> None:
    names = {"TOPIC": moldau_topic, "ADDRESS": moldau_cluster.bootstrap_servers}
    given = [names.get(word, word) for word in words]
    command = ["sh", "-c", f'exec "$0" -m moldau.cli.main "$@" {closed}', sys.executable, *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, told)


@pytest.mark.parametrize("closed", ["<&-", "2>&-"])
def test_a_broker_one_of_whose_streams_is_closed_stops_cleanly(closed: str, tmp_path: Path) -> None:
    words = ("up", "--no-console", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    command = ["sh", "-c", f'exec "$0" -m moldau.cli.main "$@" {closed}', sys.executable, *words]
    process = TalkingProcess(command)
    try:
        assert process.wait_for(lambda line: line.startswith("ready "), time.monotonic() + 60), process.output
        os.kill(process.pid, signal.SIGTERM)
        # uvloop's library aborts a process that closes a socket with the number of a standard stream
        assert process.live_on(60) == 0
    finally:
        process.kill()


def test_a_reader_whose_broker_dies_says_so_and_goes_on(moldau_own_cluster: Cluster) -> None:
    cluster = moldau_own_cluster
    cluster.create_topic("orders")
    address = cluster.bootstrap_servers
    command = [sys.executable, "-m", "moldau.cli.main", "consume", "orders", "--from", "beginning"]
    command += ["--group", "kitchen", "--count", "1"]
    with running([*command, "-b", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        cluster.wait_for(group="kitchen", members=1)
        cluster.kill()
        assert line_of(process.stderr) == f"moldau: {address} does not answer any more; trying again\n"
        cluster.restart()
        cluster.wait_for(group="kitchen", members=1, timeout=30)
        cluster.produce("orders", "coffee")
        assert process.communicate(timeout=60) == ("coffee\n", "")
        assert process.returncode == 0


@pytest.mark.parametrize("expression", [r"orders-\d", "(?:orders)-1", "(?i)ORDERS-1", "other,orders-1"])
def test_the_console_consumer_of_kafka_reads_expressions_as_its_other_tools_do(expression: str) -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders-1")
        cluster.produce("orders-1", b"coffee")
        words = ("--include", expression, "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000")
        assert run("kafka-console-consumer", "--bootstrap-server", cluster.bootstrap_servers, *words) == "coffee\n"


@pytest.mark.slow
def test_an_expression_of_the_console_consumer_matches_no_internal_topic_unless_told() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        cluster.produce("orders", b"coffee")
        words = ["consume", "orders", "-b", cluster.bootstrap_servers, "--from", "beginning"]
        assert run(*words, "--group", "kitchen", "--count", "1") == "coffee\n"
        words = ["kafka-console-consumer", "--bootstrap-server", cluster.bootstrap_servers, "--include", ".*"]
        words += ["--from-beginning", "--formatter-property", "print.key=true"]
        words += ["--formatter-property", "print.value=false", "--timeout-ms"]
        assert run(*words, "8000") == "null\n"
        words += ["30000", "--command-property", "exclude.internal.topics=false", "--max-messages", "2"]
        assert "kitchen" in run(*words)


def test_an_expression_of_topics_that_is_none_is_one_sentence(nobody: str) -> None:
    told = run("kafka-console-consumer", "--bootstrap-server", nobody, "--include", "(", code=1)
    assert "( is an invalid regex." in told
