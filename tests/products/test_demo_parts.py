"""The demo's parts: what an anomaly is, the planted ones, the level words, and the sums that must agree."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.products.demo.feed import level_of
from moldau.products.demo.metrics import MachineMetrics
from moldau.products.demo.planted import PlantedSeries
from moldau.products.demo.rolling import MAX_SIGMAS, MIN_VALUES, WINDOW_VALUES, find_anomalies
from moldau.products.demo.verify import byte_differences, count_differences, planted_differences


def plain_anomalies(values: list[float]) -> list[tuple[int, float]]:
    """The definition, value by value."""
    found = []
    for at, value in enumerate(values):
        before = values[max(0, at - WINDOW_VALUES) : at]
        if len(before) >= MIN_VALUES:
            mean, deviation = float(np.mean(before)), float(np.std(before))
            if deviation > 1e-9 and abs(value - mean) > MAX_SIGMAS * deviation:
                found.append((at, value))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_rolling_anomalies_are_those_of_the_definition_however_they_are_cut(seed: int):
    source = random.Random(seed)
    values = [source.gauss(0, 1) + (30 if source.random() < 0.01 else 0) for _ in range(400)]
    found, before, begin = [], [], 0
    while begin < len(values):
        size = source.randint(1, 90)
        new, before = find_anomalies(before, values[begin : begin + size])
        found += [(begin + one.index, one.value) for one in new]
        begin += size
    assert found == plain_anomalies(values)
    assert found


def test_a_flat_series_has_no_anomalies():
    assert find_anomalies([5.0] * 50, [5.0, 6.0, 5.0])[0][:1] == []


@pytest.mark.parametrize("seconds", [10, 20, 60])
def test_the_planted_values_are_all_that_is_found_in_the_planted_keys(seconds: int):
    series = PlantedSeries(seconds * 10)
    values: dict[str, list[float]] = {}
    for tick in range(seconds * 10):
        for key, value in series.sample(tick).items():
            values.setdefault(key, []).append(value)
    found = [(key, at, value) for key, numbers in values.items() for at, value in plain_anomalies(numbers)]
    assert found == [(plant.key, plant.tick, plant.value) for plant in series.plants]
    assert len(found) == 3


def test_this_machine_has_metrics():
    metrics = MachineMetrics()
    metrics.sample(1.0)
    sample = metrics.sample(2.0)
    assert 0 <= sample["cpu0.percent"] <= 100
    assert sample["memory.available_mib"] > 0
    assert any(name.startswith("net.") for name in sample)
    assert metrics.processes()["processes.count"] >= 1


@pytest.mark.parametrize(
    ("line", "level"),
    [
        (b"17/06/09 20:10:40 INFO executor: x ERROR", "INFO"),
        (b"[Sun Dec 04 04:47:44 2005] [notice] workerEnv.init()", "NOTICE"),
        (b"2015-07-29 17:41:44,747 - WARN  [x]", "WARN"),
        (b"INFORMATION about TERRORS", "-"),
        (b"", "-"),
        (b"\xff\xfe error: no", "ERROR"),
    ],
)
def test_the_level_is_the_first_level_word(line: bytes, level: str):
    assert level_of(line) == level


def test_differences_are_named():
    rows = [{"key": "a", "records": 3, "bytes": 5}, {"key": "b", "records": 1, "bytes": 5}]
    assert count_differences("topic", rows, 4, {"a": 3, "b": 1}) == []
    assert count_differences("topic", rows, 5, {"a": 3, "b": 2}) == [
        "topic: the windows hold 4 records, sent were 5",
        "topic: b: 1, sent 2",
    ]
    assert byte_differences("topic", rows, 10) == []
    assert byte_differences("topic", rows, 11) == ["topic: 10 bytes of lines, sent were 11"]


def test_planted_anomalies_must_be_found_once_and_alone():
    plants = PlantedSeries(600).plants
    rows = [{"key": plant.key, "value": plant.value} for plant in plants]
    others = [{"key": "machine/cpu0", "value": 1.0}]
    assert planted_differences("topic", rows + others, plants) == []
    assert len(planted_differences("topic", rows[1:], plants)) == 1
    assert len(planted_differences("topic", [*rows, rows[0]], plants)) == 1


def test_the_demo_does_not_empty_a_directory_that_it_did_not_make(tmp_path: Path):
    from moldau.products.demo.job import DemoError, DemoSettings, run

    (tmp_path / "precious").write_text("x")
    with pytest.raises(DemoError, match="no demo made it"):
        run(DemoSettings(seconds=10, output=tmp_path))
    assert (tmp_path / "precious").exists()


def test_a_late_tick_measures_nothing_anew():
    metrics = MachineMetrics()
    first = metrics.sample(1.0)
    assert metrics.sample(1.001) == first


def test_the_demo_tells_a_cluster_that_is_not_there_in_one_sentence(tmp_path: Path):
    from moldau.products.demo.job import DemoError, DemoSettings, run

    with pytest.raises(DemoError, match=r"^cannot reach -nowhere-:9092: there is no host '-nowhere-'$"):
        run(DemoSettings(seconds=10, output=tmp_path / "out", access=ClusterAccess("-nowhere-:9092")))
