"""Anomalies: a value more than four rolling standard deviations from its rolling mean.

The window is the WINDOW_VALUES values of the same key before the value. It excludes the value itself, because a large
value would hide in its own deviation. A value with fewer than MIN_VALUES before it is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    import pandas as pd

WINDOW_VALUES = 50
MIN_VALUES = 20
MAX_SIGMAS = 4.0
FLAT = 1e-9
"""A key with a smaller deviation is flat: its changes cannot be measured in deviations."""

OUTPUT = "key string, timestamp timestamp, value double, mean double, deviation double, sigmas double"
STATE = "values binary"
OUTPUT_COLUMNS = ("key", "timestamp", "value", "mean", "deviation", "sigmas")


class Anomaly(msgspec.Struct, frozen=True):
    """`index`: of the value among the new ones; `sigmas`: the signed distance from the mean in deviations."""

    index: int
    value: float
    mean: float
    deviation: float
    sigmas: float


def find_anomalies(before: Sequence[float], values: Sequence[float]) -> tuple[list[Anomaly], list[float]]:
    """The anomalies among `values`, which follow `before` (at most WINDOW_VALUES) in order, and the next `before`."""
    series = np.concatenate([np.asarray(before, dtype=float), np.asarray(values, dtype=float)])
    found: list[Anomaly] = []
    padded = np.concatenate([np.full(WINDOW_VALUES, np.nan), series])
    windows = np.lib.stride_tricks.sliding_window_view(padded[:-1], WINDOW_VALUES)[len(before) :]
    counts = np.count_nonzero(~np.isnan(windows), axis=1)
    ready = np.nonzero(counts >= MIN_VALUES)[0]
    if ready.size:
        means, deviations = np.nanmean(windows[ready], axis=1), np.nanstd(windows[ready], axis=1)
        news = series[len(before) :][ready]
        far = (np.abs(news - means) > MAX_SIGMAS * deviations) & (deviations > FLAT)
        for at in np.nonzero(far)[0]:
            value, mean, deviation = float(news[at]), float(means[at]), float(deviations[at])
            found.append(Anomaly(int(ready[at]), value, mean, deviation, (value - mean) / deviation))
    return found, [float(value) for value in series[-WINDOW_VALUES:]]


def anomalies_of_partition(key: tuple[int], batches: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Spark's stateful function over one topic-partition: all records of a key are in one partition, in the order of
    offsets. Input columns: key, offset, timestamp, value. The state between micro-batches: the last values of every
    key."""
    import pandas as pd

    kept: dict[str, list[float]] = msgspec.msgpack.decode(state.get[0]) if state.exists else {}
    frames = [frame for frame in batches if len(frame)]
    if not frames:
        return
    records = pd.concat(frames, ignore_index=True).sort_values("offset", kind="stable")
    rows: list[tuple[Any, ...]] = []
    for name, group in records.groupby("key", sort=True):
        found, kept[name] = find_anomalies(kept.get(name, ()), group["value"].to_numpy())
        timestamps = group["timestamp"].tolist()
        rows.extend((name, timestamps[one.index], one.value, one.mean, one.deviation, one.sigmas) for one in found)
    state.update((msgspec.msgpack.encode(kept),))
    if rows:
        yield pd.DataFrame(rows, columns=list(OUTPUT_COLUMNS))
