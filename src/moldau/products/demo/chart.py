"""The picture of a demo run: throughput and anomalies, from the Parquet files that Spark wrote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from moldau.products.demo.planted import SOURCE

INK = "#1f2933"
FAINT = "#8895a7"
GRID = "#e4e8ee"
BLUE = "#2f6fde"
RED = "#d64545"
PALETTE = ("#2f6fde", "#e8833a", "#3aa76d", "#9b5de5", "#d64545", "#17a2b8", "#b8860b", "#7a869a")
LEVEL_COLOURS = {
    "FATAL": "#7b1e3a", "CRITICAL": "#7b1e3a", "SEVERE": "#b02a37", "ERROR": "#d64545", "WARN": "#e8a33a",
    "WARNING": "#e8a33a", "NOTICE": "#3aa7a0", "INFO": "#2f6fde", "DEBUG": "#8fa8c8", "TRACE": "#c3cfdd",
    "-": "#9aa5b4",
}  # fmt: skip
MOST_CORES = 8

_STYLE: Any = {
    "font.family": "DejaVu Sans", "font.size": 9.5, "text.color": INK, "axes.labelcolor": FAINT,
    "axes.edgecolor": GRID, "xtick.color": FAINT, "ytick.color": FAINT, "axes.titlesize": 11,
    "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.titlepad": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.8,
    "axes.axisbelow": True, "legend.frameon": False, "figure.facecolor": "white",
}  # fmt: skip

Row = Mapping[str, Any]


def draw_metrics_chart(
    path: Path,
    windows: Sequence[Row],
    anomalies: Sequence[Row],
    planted: Sequence[tuple[float, str, float]],
    *,
    began_at: datetime,
) -> None:
    """`planted`: (seconds since the start, key, value) for each planted value that was sent; `began_at`: the start."""
    with mpl.rc_context(_STYLE):
        figure = plt.figure(figsize=(12, 9.2), dpi=130)
        grid = figure.add_gridspec(3, 6, hspace=0.5, wspace=1.05, left=0.07, right=0.97, top=0.87, bottom=0.06)
        sent = sum(row["records"] for row in windows)
        facts = f"{sent:,} records, counted in {len(windows):,} windows of one second"
        windows, start = _since(windows, began_at)
        found = sum(1 for row in anomalies if str(row["key"]).startswith(f"{SOURCE}/"))
        _head(
            figure,
            "Metrics of this machine, through a topic and Spark",
            f"{facts} · {found} planted anomalies found · "
            f"{len(anomalies) - found:,} in the machine's own metrics and their replay",
        )
        _draw_rate(figure.add_subplot(grid[0, :4]), windows, start)
        _draw_groups(figure.add_subplot(grid[0, 4:]), windows)
        _draw_cores(figure.add_subplot(grid[1, :]), windows, start)
        keys = list(dict.fromkeys(key for _, key, _ in planted))
        for column, key in enumerate(keys[:3]):
            axes = figure.add_subplot(grid[2, column * 2 : column * 2 + 2])
            _draw_planted(axes, key, planted, [row for row in anomalies if row["key"] == key])
        _save(figure, path)


def draw_file_chart(path: Path, windows: Sequence[Row], *, title: str, began_at: datetime) -> None:
    """`began_at`: the start of the time axis."""
    with mpl.rc_context(_STYLE):
        figure = plt.figure(figsize=(12, 7.6), dpi=130)
        grid = figure.add_gridspec(2, 5, hspace=0.5, wspace=0.9, left=0.07, right=0.97, top=0.85, bottom=0.07)
        lines, size = sum(row["records"] for row in windows), sum(row["bytes"] for row in windows)
        _head(
            figure, f"{title}, through a topic and Spark", f"{lines:,} lines, {size:,} bytes, in windows of one second"
        )
        levels = _sums(windows, lambda row: str(row["key"]), "records")
        order = sorted(levels, key=lambda level: -levels[level])
        axes = figure.add_subplot(grid[0, :])
        windows, start = _since(windows, began_at)
        seconds = _all_seconds(windows, start)
        below = [0.0] * len(seconds)
        for level in order:
            by_second = _sums(
                [row for row in windows if row["key"] == level], lambda row: _second(row, start), "records"
            )
            heights = [by_second.get(second, 0.0) for second in seconds]
            axes.bar(seconds, heights, 0.92, below, color=_level_colour(level), label=_level_name(level), align="edge")
            below = [base + height for base, height in zip(below, heights, strict=True)]
        _finish(axes, "Lines per second, by level word", "lines", seconds)
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.14), ncols=8, handlelength=1.0, columnspacing=1.6)
        axes = figure.add_subplot(grid[1, :3])
        by_second = _sums(windows, lambda row: _second(row, start), "bytes")
        _draw_steps(axes, seconds, by_second)
        _finish(axes, "Bytes per second", "bytes", seconds)
        axes.set_ylim(bottom=0)
        _draw_bars(
            figure.add_subplot(grid[1, 3:]),
            [(_level_name(level), levels[level], _level_colour(level)) for level in order],
            "Lines per level word",
        )
        _save(figure, path)


def _draw_rate(axes: Axes, windows: Sequence[Row], start: datetime) -> None:
    by_second = _sums(windows, lambda row: _second(row, start), "records")
    seconds = _all_seconds(windows, start)
    _draw_steps(axes, seconds, by_second)
    _finish(axes, "Records per second, as counted by the windows", "records", seconds)
    axes.set_ylim(bottom=0)


def _draw_steps(axes: Axes, seconds: Sequence[int], by_second: Mapping[int, float]) -> None:
    edges = [*seconds, len(seconds)]
    heights = [by_second.get(second, 0.0) for second in seconds]
    heights.append(heights[-1] if heights else 0.0)
    axes.fill_between(edges, heights, step="post", color=BLUE, alpha=0.14, linewidth=0)
    axes.step(edges, heights, where="post", color=BLUE, linewidth=1.8)


def _draw_groups(axes: Axes, windows: Sequence[Row]) -> None:
    groups = _sums(windows, lambda row: str(row["key"]).split("/")[0].split("-")[0], "records")
    names = {"machine": "this machine", "replay": "its replay", "planted": "planted keys"}
    rows = [
        (names.get(group, group), groups[group], colour)
        for group, colour in zip(sorted(groups, key=lambda one: -groups[one]), PALETTE, strict=False)
    ]
    _draw_bars(axes, rows, "Where they come from")


def _draw_cores(axes: Axes, windows: Sequence[Row], start: datetime) -> None:
    cores = sorted(
        {str(row["key"]) for row in windows if str(row["key"]).startswith("machine/cpu")},
        key=lambda key: int("".join(filter(str.isdigit, key))),
    )
    seconds: list[int] = []
    for core, colour in zip(cores[:MOST_CORES], PALETTE, strict=False):
        rows = sorted((row for row in windows if row["key"] == core), key=lambda row: row["window_start"])
        seconds = [_second(row, start) for row in rows]
        lows, highs = [row["minimum"] for row in rows], [row["maximum"] for row in rows]
        axes.fill_between(seconds, lows, highs, color=colour, alpha=0.13, linewidth=0, step="mid")
        label = core.removeprefix("machine/").removesuffix(".percent")
        axes.plot(seconds, [row["mean"] for row in rows], color=colour, linewidth=1.8, label=label)
    _finish(axes, "Use of the cores: mean of each window, and its range from least to most", "%", seconds)
    axes.set_ylim(0, 103)
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 1.16), ncols=MOST_CORES, handlelength=1.2)


def _draw_planted(axes: Axes, key: str, planted: Sequence[tuple[float, str, float]], found: Sequence[Row]) -> None:
    points = [(second, value) for second, name, value in planted if name == key]
    axes.plot([second for second, _ in points], [value for _, value in points], color=FAINT, linewidth=0.9)
    for row in found:
        second = next((second for second, value in points if abs(value - row["value"]) < 1e-6), None)
        if second is None:
            continue
        axes.scatter([second], [row["value"]], s=90, facecolor="none", edgecolor=RED, linewidth=1.8, zorder=3)
        right = second > max(point for point, _ in points) * 0.6
        axes.annotate(
            f"found: {row['sigmas']:+.0f} deviations",
            (second, row["value"]),
            xytext=(-10 if right else 10, -3),
            textcoords="offset points",
            ha="right" if right else "left",
            color=RED,
            fontsize=8.5,
        )
    low, high = min(value for _, value in points), max(value for _, value in points)
    axes.set_ylim(low - (high - low) * 0.12, high + (high - low) * 0.15)
    _finish(axes, key.removeprefix(f"{SOURCE}/"), "", [int(second) for second, _ in points])


def _draw_bars(axes: Axes, rows: Sequence[tuple[str, float, str]], title: str) -> None:
    names = [name for name, _, _ in rows]
    axes.barh(names, [count for _, count, _ in rows], color=[colour for _, _, colour in rows], height=0.62)
    axes.invert_yaxis()
    most = max((count for _, count, _ in rows), default=1.0)
    for at, (_, count, _) in enumerate(rows):
        axes.text(count + most * 0.02, at, f"{count:,.0f}", va="center", color=INK, fontsize=9)
    axes.set_xlim(0, most * 1.28)
    axes.set_title(title)
    axes.grid(visible=False)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(length=0, labelcolor=INK)


def _finish(axes: Axes, title: str, unit: str, seconds: Sequence[int]) -> None:
    axes.set_title(title)
    axes.set_xlim(0, max(seconds, default=0) + 1)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} s"))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.grid(visible=False, axis="x")
    axes.tick_params(length=0)
    if unit:
        axes.set_ylabel(unit)


def _head(figure: Figure, title: str, facts: str) -> None:
    figure.text(0.07, 0.955, title, fontsize=17, fontweight="bold", color=INK, va="center")
    figure.text(0.07, 0.922, facts, fontsize=10.5, color=FAINT, va="center")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path)
    plt.close(figure)


def _sums(rows: Iterable[Row], key: Any, column: str) -> dict[Any, float]:
    sums: dict[Any, float] = defaultdict(float)
    for row in rows:
        sums[key(row)] += row[column]
    return dict(sums)


def _since(windows: Sequence[Row], began_at: datetime) -> tuple[list[Row], datetime]:
    """The windows of the run without those of the warm-up, and the beginning of the first."""
    kept = [row for row in windows if row["window_end"] > began_at]
    return kept, min((row["window_start"] for row in kept), default=began_at)


def _second(row: Row, start: datetime) -> int:
    return int((row["window_start"] - start).total_seconds() + 0.5)


def _all_seconds(windows: Sequence[Row], start: datetime) -> list[int]:
    return list(range(max((_second(row, start) for row in windows), default=-1) + 1))


def _level_colour(level: str) -> str:
    return LEVEL_COLOURS.get(level, PALETTE[-1])


def _level_name(level: str) -> str:
    return "no level word" if level == "-" else level
