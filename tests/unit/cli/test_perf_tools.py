"""The figures of the performance tools, without a cluster: each expected line is that of Kafka's tools."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from moldau.cli.kafka import consumer_perf_test, producer_perf_test
from moldau.cli.kafka.client_metrics import metric_lines
from moldau.cli.kafka.consumer_perf_test import Progress
from moldau.cli.kafka.java_dates import format_time
from moldau.cli.kafka.java_numbers import fixed, ratio
from moldau.cli.kafka.latencies import MAX_SAMPLES, Latencies
from moldau.cli.kafka.options import ArgumentError, Arguments, Option, UsageError, parse
from moldau.cli.kafka.tools import run_tool

WRITE = ("--topic", "t", "--num-records", "5", "--throughput", "-1", "--bootstrap-server", "127.0.0.1:1")
READ = ("--topic", "t", "--num-records", "5", "--bootstrap-server", "127.0.0.1:1")


def writing(*words: str) -> Arguments:
    return parse(producer_perf_test.OPTIONS, [*WRITE, *words])


def reading(*words: str) -> Arguments:
    return parse(consumer_perf_test.OPTIONS, [*READ, *words])


def test_a_half_is_rounded_up_and_what_is_no_number_has_a_name() -> None:
    assert (fixed(0.03125, 4), fixed(2.5, 0), fixed(1e-7, 4)) == ("0.0313", "3", "0.0000")
    assert (fixed(ratio(0, 0), 2), fixed(ratio(1, 0), 2), fixed(-math.inf, 1)) == ("NaN", "Infinity", "-Infinity")


def test_latencies_are_told_for_windows_and_at_the_end() -> None:
    latencies = Latencies(4, 1000, 500)
    assert latencies.record(10, 100, 1100) == []
    assert latencies.record(30, 100, 1500) == [
        "2 records sent, 4.0 records/sec (0.00 MB/sec), 20.0 ms avg latency, 30.0 ms max latency."
    ]
    assert latencies.record(2, 100, 1600) == latencies.record(4, 100, 1700) == []
    assert latencies.total(2000) == (
        "4 records sent, 4.000000 records/sec (0.00 MB/sec), 11.50 ms avg latency, 30.00 ms max latency, "
        "10 ms 50th, 30 ms 95th, 30 ms 99th, 30 ms 99.9th."
    )


def test_records_after_the_warm_up_have_a_line_of_their_own() -> None:
    steady = Latencies(2, 0, 10, is_steady=True)
    assert steady.record(1, 1 << 20, 10) == [
        "In steady state.",
        "1 records sent, 100.0 records/sec (100.00 MB/sec), 1.0 ms avg latency, 1.0 ms max latency.",
    ]
    steady.end_windows()
    assert steady.record(1, 1, 20) == []
    assert steady.total(1000).startswith("2 steady state records sent, 2.000000 records/sec (1.00 MB/sec), 1.00 ms avg")


def test_no_record_at_all_has_no_average() -> None:
    assert Latencies(5, 0, 10).total(0) == (
        "0 records sent, NaN records/sec (NaN MB/sec), NaN ms avg latency, 0.00 ms max latency, "
        "0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th."
    )


def test_the_latencies_that_are_kept_are_bounded() -> None:
    latencies = Latencies(MAX_SAMPLES * 1000, 0, 1 << 40)
    for number in range(3_000):
        latencies.record(number // 1000, 1, 0)
    assert len(latencies._samples) == 3
    assert ", 1 ms 50th, 2 ms 95th" in latencies.total(1)


def test_rebalances_are_no_time_of_fetching() -> None:
    progress = Progress(consumer_perf_test.make_plan(reading("--date-format", "S")), 1000)
    progress.rebalances.assigned({("t", 0)}, 1400)
    progress.rebalances.assigned({("t", 1)}, 1500)
    assert progress.record(1 << 20, 2000) is None
    progress.rebalances.revoked({("t", 0)}, 2000)
    progress.rebalances.revoked({("t", 1)}, 2100)
    progress.rebalances.assigned({("t", 0)}, 2200)
    assert progress.last_line(3000) == "0, 0, 1.0000, 0.5000, 1, 0.5000, 500, 1500, 0.6667, 0.6667"


def test_each_interval_has_a_line_if_lines_are_asked_for() -> None:
    words = ("--date-format", "S", "--reporting-interval", "100", "--show-detailed-stats")
    progress = Progress(consumer_perf_test.make_plan(reading(*words)), 0)
    progress.rebalances.assigned({("t", 0)}, 50)
    assert progress.record(1 << 19, 99) is None
    assert progress.record(1 << 19, 100) == "100, 0, 1.0000, 10.0000, 2, 20.0000, 50, 50, 20.0000, 40.0000"
    assert progress.record(0, 150) is None
    assert progress.record(0, 200) == "200, 0, 1.0000, 0.0000, 4, 20.0000, 0, 100, 0.0000, 20.0000"


def test_times_are_written_as_java_writes_them() -> None:
    written = format_time("yyyy-MM-dd HH:mm:ss:SSS", 1_700_000_000_123)
    assert re.fullmatch(r"2023-11-1\d \d\d:\d\d:20:123", written)
    assert format_time("yy 'o''c' ''MMMM MMM", 1_700_000_000_123) == "23 o'c 'November Nov"
    for pattern in ("q", "b", "'open"):
        with pytest.raises(ArgumentError):
            format_time(pattern, 0)


def test_figures_of_the_client_are_a_table() -> None:
    broker = {"nodeid": 1, "tx": 2, "rtt": {"avg": 2, "max": 3, "p99": 4}}
    found = {"type": "producer", "client_id": "c", "txmsgs": 5, "name": "n", "brokers": {"b": broker}}
    assert metric_lines(found) == [
        "",
        "Metric Name                                                   Value",
        "producer-metrics:txmsgs:{client-id=c}                       : 5.000",
        "producer-node-metrics:rtt-avg:{client-id=c, node-id=node-1} : 2.000",
        "producer-node-metrics:rtt-max:{client-id=c, node-id=node-1} : 3.000",
        "producer-node-metrics:rtt-p99:{client-id=c, node-id=node-1} : 4.000",
        "producer-node-metrics:tx:{client-id=c, node-id=node-1}      : 2.000",
    ]


def test_a_flag_with_a_list_takes_the_words_up_to_the_next_flag() -> None:
    options = (Option("set", "", "a=b", is_list=True), Option("list", ""))
    arguments = parse(options, ["--set", "a=1", "b=2", "--list", "word", "--set=c=3"])
    assert (arguments.texts("set"), arguments.words) == (["a=1", "b=2", "c=3"], ["word"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "one of the arguments --record-size --payload-file --payload-monotonic is required"),
        (("--record-size", "3", "--payload-monotonic"), "not allowed with argument --record-size"),
        (("--record-size", "0"), "--record-size should be greater than zero."),
        (("--record-size", "9999999999"), "could not convert '9999999999' to Integer"),
        (("--record-size", "3", "--warmup-records", "5"), "must be strictly fewer"),
        (("--record-size", "3", "--record-key-range", "5"), "--key-distribution must be 'range' or 'random'"),
        (("--record-size", "3", "--key-distribution", "range"), "--record-key-range is required"),
        (
            ("--record-size", "3", "--key-distribution", "odd"),
            "invalid choice: 'odd' (choose from {none,range",
        ),
        (("--record-size", "3", "word"), "unrecognized arguments: 'word'"),
    ],
)
def test_flags_of_the_producer_that_contradict_are_refused(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        producer_perf_test.check(writing(*words))


def test_settings_of_the_producer_are_those_of_javas_where_none_are_given() -> None:
    plan, settings = producer_perf_test.check(writing("--record-size", "3", "--command-property", "acks=1", "x=y"))
    assert (settings["acks"], settings["batch.size"], settings["linger.ms"], settings["x"]) == ("1", "16384", "5", "y")
    assert "enable.idempotence" not in settings
    assert plan.duration_ms is None
    plan, settings = producer_perf_test.check(writing("--record-size", "3", "--transactional-id", "mine"))
    assert (plan.duration_ms, settings["transactional.id"], settings["enable.idempotence"]) == (3_000, "mine", "true")
    plan, settings = producer_perf_test.check(writing("--record-size", "3", "--transaction-duration-ms", "7"))
    assert plan.duration_ms == 7
    assert settings["transactional.id"].startswith("performance-producer-")


@pytest.mark.parametrize(
    ("text", "delimiter", "parts"),
    [
        ("one\ntwo\n", "\\n", (b"one", b"two")),
        ("one\n\ntwo", "\\n", (b"one", b"", b"two")),
        ("\none", "\\n", (b"one",)),
        ("a,b;c", "[,;]", (b"a", b"b", b"c")),
        ("whole", ",", (b"whole",)),
    ],
)
def test_payloads_stand_between_delimiters(tmp_path: Path, text: str, delimiter: str, parts: tuple[bytes, ...]) -> None:
    file = tmp_path / "payloads"
    file.write_text(text)
    arguments = writing("--payload-file", str(file), "--payload-delimiter", delimiter)
    assert producer_perf_test.read_payloads(arguments) == parts


def test_a_login_without_a_mechanism_is_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    secure = tmp_path / "secure.properties"
    secure.write_text("security.protocol=SASL_SSL\n")
    words = ["--command-config", str(secure)]
    assert run_tool("kafka-producer-perf-test", [*WRITE, "--record-size", "3", *words]) == 1
    assert run_tool("kafka-consumer-perf-test", [*READ, *words]) == 1
    assert capsys.readouterr().err.count("sasl.mechanism must be set") == 2
