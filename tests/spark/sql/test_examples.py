"""Each example of streaming SQL works as its README says, and its topics have what Python computes from its input."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.main import main
from moldau.columnar import read_topic
from moldau.testing import Cluster
from tests.support.example_readmes import EXAMPLES, copy_of, run_readme, runs_sql
from tests.support.talking_process import TalkingProcess

pytestmark = pytest.mark.slow

WEBHOOK = "http://127.0.0.1:8099/alerts"
PARTITIONS = "spark.sql.shuffle.partitions"
PATIENCE_S = 120.0
Rows = list[dict[str, Any]]


@pytest.fixture
def servers() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def run_example(
    spark, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Path]:
    """`run_example(name, url)` does what the README says, in this process's Spark session; `url`: of the webhook."""

    def run_on_spark(words: list[str]) -> None:
        partitions = spark.conf.get(PARTITIONS)
        try:
            code = main(words)
            assert code == 0, "".join(capsys.readouterr())
        finally:
            spark.conf.set(PARTITIONS, partitions)

    def run(name: str, url: str = WEBHOOK) -> Path:
        (example,) = (path for path in EXAMPLES if path.name == name)
        directory = copy_of(example, tmp_path, servers)
        for file in directory.glob("*.yaml"):
            file.write_text(file.read_text("utf-8").replace(WEBHOOK, url), "utf-8")
        monkeypatch.chdir(directory)
        monkeypatch.setenv("MOLDAU_BOOTSTRAP_SERVER", servers)
        run_readme(directory, servers, run_on_spark=run_on_spark)
        return directory

    return run


def printed_by(directory: Path, *words: str) -> list[str]:
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return done.stdout.splitlines()


def rows_of(servers: str, topic: str) -> Rows:
    batches = read_topic(servers, topic, isolation="read_committed")
    return [json.loads(value) for batch in batches for value in batch.column("value").to_pylist()]


def minute_of(text: str) -> str:
    return text[:16]


def percentile(values: list[float], share: float) -> float:
    """The least value that is not below this share of all."""
    return sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]


def test_the_examples_are_these() -> None:
    assert [path.name for path in EXAMPLES if runs_sql(path)] == ["anomalies", "monitoring", "preparing"]


def test_anomalies_finds_all_that_was_injected_and_nothing_else(servers: str, run_example) -> None:
    directory = run_example("anomalies")
    injected = [json.loads(line) for line in printed_by(directory, "readings.py", "injected")]
    for what, topic, device, at in (
        ("spike", "spikes", "device", "at"),
        ("silence", "silences", "silent", "last_seen"),
    ):
        found = sorted((row[device], row[at][:19]) for row in rows_of(servers, topic))
        assert found == sorted((one["device"], one["at"][:19]) for one in injected if one["what"] == what)


def amount_of(text: str) -> Decimal:
    try:
        return Decimal(text.replace(",", "."))
    except InvalidOperation:
        return Decimal(0)


def test_preparing_cleans_enriches_and_keeps_each_order_once(servers: str, run_example) -> None:
    directory = run_example("preparing")
    countries = {
        customer: json.loads(row)["country"]
        for customer, row in (line.split("\t") for line in printed_by(directory, "orders.py", "customers"))
    }
    orders, bad = [], 0
    for line in printed_by(directory, "orders.py"):
        try:
            orders.append(json.loads(line))
        except ValueError:
            bad += 1
    good = [order for order in orders if amount_of(order["amount"]) > 0]
    expected = Counter(
        (order["id"], customer, amount_of(order["amount"]), countries.get(customer, "?"))
        for order, customer in ((order, order["customer"].strip().lower()) for order in good)
    )
    keyed: Counter[tuple[Any, ...]] = Counter()
    homes: dict[str, set[int]] = {}
    for batch in read_topic(servers, "orders", isolation="read_committed"):
        for key, value, place in zip(
            *(batch.column(name).to_pylist() for name in ("key", "value", "partition")), strict=True
        ):
            row = json.loads(value, parse_float=Decimal)
            keyed[row["id"], key.decode(), Decimal(row["amount"]), row["country"]] += 1
            homes.setdefault(key.decode(), set()).add(place)
    assert keyed == expected
    assert all(len(partitions) == 1 for partitions in homes.values())
    assert len(rows_of(servers, "rejected-orders")) == len(orders) - len(good) > 0
    dead = sum(batch.num_rows for batch in read_topic(servers, "run-preparing.dead-letters"))
    assert dead == bad > 0
    once = Counter(row["order_id"] for row in rows_of(servers, "orders-once"))
    assert set(once.values()) == {1}
    last = max(datetime.fromisoformat(order["at"]) for order in good)
    still_open = {order["id"] for order in good if (last - datetime.fromisoformat(order["at"])).total_seconds() <= 660}
    assert set(once) == {order["id"] for order in good} - still_open


@contextmanager
def listening(script: Path) -> Iterator[tuple[TalkingProcess, str]]:
    """The webhook of an example on a free port, and its address."""
    process = TalkingProcess([sys.executable, str(script), "0"])
    try:
        assert process.wait_for(lambda line: line.startswith("waits at "), time.monotonic() + PATIENCE_S), (
            process.output
        )
        yield process, process.output[0].split()[-1]
    finally:
        process.kill()


def test_monitoring_measures_each_minute_and_posts_the_alerts(servers: str, run_example) -> None:
    (example,) = (path for path in EXAMPLES if path.name == "monitoring")
    with listening(example / "receiver.py") as (process, url):
        directory = run_example("monitoring", url)
    posted = [line.split()[:4] for line in process.output[1:]]
    alerts = rows_of(servers, "service-alerts")
    requests = [json.loads(line) for line in printed_by(directory, "requests.py")]
    groups: dict[tuple[str, str], Rows] = {}
    for request in requests[:-1]:
        groups.setdefault((request["service"], minute_of(request["at"])), []).append(request)
    found = {(row["name"], minute_of(row["minute"])): row for row in rows_of(servers, "minutes")}
    assert found.keys() == groups.keys()
    problems = {}
    for group, of_group in groups.items():
        bad = sum(request["status"] >= 500 for request in of_group)
        p95 = percentile([request["ms"] for request in of_group], 0.95)
        assert found[group]["per_second"] == pytest.approx(len(of_group) / 60, abs=0.006)
        assert found[group]["errors"] == pytest.approx(bad / len(of_group), abs=0.0006)
        assert found[group]["p95_ms"] == p95
        assert found[group]["p50_ms"] == percentile([request["ms"] for request in of_group], 0.5)
        if p95 > 500 or (len(of_group) >= 20 and bad > 0.08 * len(of_group)):
            problems[group] = "slow" if p95 > 500 else "failing"
    assert {(row["name"], minute_of(row["minute"])): row["problem"] for row in alerts} == problems
    assert len(alerts) == len(problems) >= 10
    assert sorted(posted) == sorted(
        [minute[11:], name, "is", f"{problem}:"] for (name, minute), problem in problems.items()
    )
