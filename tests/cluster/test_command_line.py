"""The command line against a real broker: tables for people, JSON for programs, one sentence for errors."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from moldau.testing import Cluster


@pytest.fixture
def run(moldau_cluster: Cluster):
    def run(*arguments: str, text: str = "", code: int = 0) -> str:
        words = list(arguments)
        command = [sys.executable, "-m", "moldau.cli.main", *words, "-b", moldau_cluster.bootstrap_servers]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def test_a_topic_is_created_listed_described_and_deleted(run) -> None:
    assert run("topics", "create", "cli-one", "--partitions", "3") == "cli-one: created\n"
    listed = json.loads(run("topics", "list", "--json"))
    assert {"topic": "cli-one", "partitions": 3, "replication_factor": 1} in listed
    assert "cli-one" in run("topics", "list")
    described = json.loads(run("topics", "describe", "cli-one", "--json"))
    assert [row["partition"] for row in described] == [0, 1, 2]
    assert all(row["start_offset"] == row["end_offset"] == 0 for row in described)
    assert run("topics", "delete", "cli-one") == "cli-one: deleted\n"
    assert "cli-one" not in [row["topic"] for row in json.loads(run("topics", "list", "--json"))]


def test_what_cannot_be_done_is_said_in_one_sentence(run) -> None:
    run("topics", "create", "cli-two")
    assert "already exists" in run("topics", "create", "cli-two", code=1)
    run("topics", "create", "cli-two", "--if-not-exists")
    assert "cli-none" in run("topics", "describe", "cli-none", code=1)
    assert "cli-none" in run("topics", "delete", "cli-none", code=1)
    assert "cli-none" in run("groups", "describe", "cli-none", code=1)
    assert "NAME=VALUE" in run("topics", "create", "cli-three", "--config", "nonsense", code=1)
    assert "flush.messages" in run("topics", "create", "cli-three", "--config", "flush.messages=0", code=1)


def test_an_unknown_topic_or_group_is_told_with_the_nearest(run, moldau_cluster: Cluster) -> None:
    topic = moldau_cluster.topic("spellings")
    moldau_cluster.produce(topic, "x")
    run("consume", topic, "--from", "beginning", "--count", "1", "--group", "spelling-readers")
    misspelt = topic.replace("spelling", "speling")
    for words in (
        ("consume", misspelt, "--until-end"),
        ("topics", "describe", misspelt),
        ("configs", "describe", "topic", misspelt),
        ("partitions", "add", misspelt, "3"),
        ("offsets", "list", misspelt),
    ):
        assert f"; did you mean {topic}?" in run(*words, code=1), words
    for words in (
        ("groups", "describe", "speling-readers"),
        ("groups", "delete", "speling-readers"),
        ("offsets", "reset", "speling-readers", "--to-latest"),
        ("offsets", "delete", "speling-readers", "--topic", topic),
    ):
        assert "; did you mean spelling-readers?" in run(*words, code=1), words


def test_records_go_in_and_come_out(run) -> None:
    run("topics", "create", "cli-records")
    run("produce", "cli-records", "--key-separator", ":", text="a:first\nb:second\n")
    run("produce", "cli-records", "third", "--key", "c", "--header", "trace=1", "--compression", "lz4")
    read = ("consume", "cli-records", "--from", "beginning", "--until-end")
    assert run(*read) == "first\nsecond\nthird\n"
    assert run(*read, "--keys") == "a\tfirst\nb\tsecond\nc\tthird\n"
    records = [json.loads(line) for line in run(*read, "--json").splitlines()]
    assert [(r["offset"], r["key"], r["value"]) for r in records] == [
        (0, "a", "first"),
        (1, "b", "second"),
        (2, "c", "third"),
    ]
    assert records[2]["headers"] == [["trace", "1"]]
    assert run("consume", "cli-records", "--from", "1", "--count", "1") == "second\n"


def told_by(moldau_cluster: Cluster, *words: str, text: bytes) -> str:
    command = [sys.executable, "-m", "moldau.cli.main", *words, "-b", moldau_cluster.bootstrap_servers]
    return subprocess.run(command, input=text, capture_output=True, timeout=60, check=True).stderr.decode()


def test_produce_tells_the_offsets_of_what_it_wrote(moldau_cluster: Cluster) -> None:
    topic = moldau_cluster.topic(partitions=2)
    moldau_cluster.produce(topic, "zero", partition=1)
    told = told_by(moldau_cluster, "produce", topic, "--json", text=b'{"value": "a", "partition": 1}\n' * 3)
    assert told == f"3 records to {topic}: {topic}-1 at 1 to 3\n"
    text = b'{"value": "a", "partition": 0}\n{"value": "b", "partition": 1}\n'
    assert told_by(moldau_cluster, "produce", topic, "--json", text=text) == (
        f"2 records to {topic}: {topic}-0 at 0, {topic}-1 at 4\n"
    )
    assert told_by(moldau_cluster, "produce", topic, "a", "--acks", "0", text=b"") == f"1 record to {topic}\n"


def test_a_cr_that_is_left_out_is_told_and_kept_where_it_is_asked_for(moldau_cluster: Cluster) -> None:
    """A Windows file: its lines end with CR LF."""
    topic, text = moldau_cluster.topic(), b"one\r\ntwo\nthree\r\nfour\r"
    assert told_by(moldau_cluster, "produce", topic, text=text) == (
        f"4 records to {topic}: {topic}-0 at 0 to 3; 3 lines ended with CR LF: the CR was left out (--keep-cr)\n"
    )
    assert told_by(moldau_cluster, "produce", topic, "--keep-cr", text=text).endswith("at 4 to 7\n")
    assert [record.value for record in moldau_cluster.records(topic)] == [
        *(b"one", b"two", b"three", b"four"),
        *(b"one\r", b"two", b"three\r", b"four\r"),
    ]


def test_a_few_records_are_written_without_waiting_for_a_producer_id(run, moldau_cluster: Cluster) -> None:
    asked = moldau_cluster.faults.delay("InitProducerId", ms=1, times=None)
    run("produce", "cli-few", "argument")
    run("produce", "cli-few", text="line\nlast, without an end of line")
    assert asked.times_happened == 0
    run("produce", "cli-few", text="long\n" * 20_000)
    assert asked.times_happened == 1
    values = [record.value for record in moldau_cluster.records("cli-few")]
    assert values == [b"argument", b"line", b"last, without an end of line", *[b"long"] * 20_000]


def test_json_goes_out_and_comes_back_as_it_was(run, moldau_cluster: Cluster) -> None:
    run("topics", "create", "cli-json", "cli-json-copy", "--partitions", "2")
    run("produce", "cli-json", "--key", "k", "--header", "trace=1", "text", "--partition", "1")
    run("produce", "cli-json", "--key", "k", "--null", "~", "~", "--partition", "1")
    run("produce", "cli-json", "--json", '{"key": {"base64": "/wA="}, "value": "", "timestamp": 5, "partition": 0}')
    lines = run("consume", "cli-json", "--from", "beginning", "--until-end", "--json")
    run("produce", "cli-json-copy", "--json", "-", text=lines)

    def records(topic: str) -> set[tuple[object, ...]]:
        return {(r.partition, r.key, r.value, r.timestamp, tuple(r.headers)) for r in moldau_cluster.records(topic)}

    assert len(records("cli-json")) == 3
    assert records("cli-json-copy") == records("cli-json")
    told = run("produce", "cli-json-copy", "--json", text='{"value": "v"}\n{"valeu": "v"}\n', code=1)
    assert told.startswith("moldau: line 2: a record has no field 'valeu'")
    assert "(1 record written to cli-json-copy)" in told


@pytest.mark.slow
def test_a_part_of_a_topic_is_read(run) -> None:
    run("topics", "create", "cli-part", "--partitions", "2")
    lines = [f'{{"value": "v{n}", "timestamp": {n * 1000 + 1}, "partition": {n % 2}}}' for n in range(6)]
    run("produce", "cli-part", "--json", text="\n".join(lines))
    assert run("consume", "cli-part", "--last", "3") == "v3\nv4\nv5\n"
    assert run("consume", "cli-part", "--last", "9", "--partition", "0") == "v0\nv2\nv4\n"
    after = run("consume", "cli-part", "--from", "1970-01-01T00:00:03", "--until-end")
    assert sorted(after.split()) == ["v3", "v4", "v5"]
    before = run("consume", "cli-part", "--from", "beginning", "--until", "1970-01-01T00:00:02")
    assert sorted(before.split()) == ["v0", "v1"]
    read = ("consume", "cli-part", "--from", "1", "--partition", "1", "--count", "1")
    assert run(*read, "--template", "{time} {partition}:{offset} {key}={value}") == (
        "1970-01-01T00:00:03.001Z 1:1 null=v3\n"
    )


def test_a_group_shows_its_lag(run) -> None:
    run("topics", "create", "cli-lag")
    run("produce", "cli-lag", "1", "2", "3")
    assert run("consume", "cli-lag", "--from", "beginning", "--count", "2", "--group", "cli-group") == "1\n2\n"
    described = json.loads(run("groups", "describe", "cli-group", "--json"))
    assert described["state"] == "Empty"
    assert [(row["committed_offset"], row["end_offset"], row["lag"]) for row in described["partitions"]] == [(2, 3, 1)]
    assert "cli-group" in run("groups", "list")
    assert "cli-group" in run("groups", "list", "cli-.*")
    assert run("groups", "list", "cli") == ""
    assert "'(' is no regular expression" in run("groups", "list", "(", code=1)
    assert "lag 1" in run("groups", "describe", "cli-group")


@pytest.mark.slow
def test_offsets_are_reset_by_a_date_a_duration_and_standard_input(run) -> None:
    run("topics", "create", "cli-reset")
    now = int(time.time() * 1000)
    stamps = (1_000, now - 7_200_000, now - 1_800_000, now)
    run("produce", "cli-reset", "--json", text="\n".join(f'{{"value": "v", "timestamp": {ms}}}' for ms in stamps))

    def reset(*goal: str, text: str = "") -> int:
        words = ("offsets", "reset", "cli-reset-group", "--topic", "cli-reset", *goal, "--execute", "--json")
        return int(json.loads(run(*words, text=text))["partitions"][0]["new_offset"])

    assert reset("--to-datetime", "1970-01-02") == 1
    assert reset("--by-duration", "1h") == 2
    assert reset("--by-duration", "PT3H") == 1
    assert reset("--from-file", "-", text="cli-reset,0,3\n") == 3
    assert "4" in run("offsets", "list", "cli-reset")
    assert run("offsets", "list", "cli-reset", "--at", "1h").split()[-1] == "2"


def test_an_absent_broker_is_named() -> None:
    command = [sys.executable, "-m", "moldau.cli.main", "topics", "list", "-b", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "moldau: no broker answers at 127.0.0.1:1: connection refused, nothing listens there\n"
