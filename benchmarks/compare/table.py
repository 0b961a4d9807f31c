"""Writes the tables of docs/compare/measured.md from the figures of a run: `python -m benchmarks.compare.table`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.compare.__main__ import RESULT
from benchmarks.compare.systems import CACHED, FLUSHED, MOLDAU
from benchmarks.output import number

PAGE = Path(__file__).parents[2] / "docs" / "compare" / "measured.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
PURE_PYTHON = ("kafka-python", "pika", "rstream", "redis-py", "nats-py")
"""Libraries whose own time is a large part of each figure."""
WHERE = {CACHED: "in the page cache", FLUSHED: "on the disk"}
HELD = 0.95
Row = dict[str, Any]

SPEEDS = {
    "write_100_rate": "write, 100 B",
    "write_1024_rate": "write, 1 KiB",
    "alone_rate": "write one by one, 100 B",
    "read_100_rate": "read, 100 B",
    "read_1024_rate": "read, 1 KiB",
    "replay_100_rate": "replay, 100 B",
}
COSTS = {
    "latency_p50_ms": "latency p50",
    "latency_p99_ms": "latency p99",
    "write_cpu": "CPU of a write",
    "read_cpu": "CPU of a read",
}
AT_REST = {"pss_mib": "memory at rest", "start_s": "start of the server"}


def figure(row: Row, name: str) -> float | None:
    """A figure of a row; CPU is the sum of both sides. None if the row has none."""
    figures = row["figures"]
    if name in ("write_cpu", "read_cpu"):
        sides = [f"{name.partition('_')[0]}_100_{side}_cpu_s_per_million" for side in ("server", "client")]
        return sum(figures[side] for side in sides) if all(side in figures for side in sides) else None
    if name == "replay_100_rate" and not replays(row):
        return None
    value = figures.get(name)
    return None if value is None else float(value)


def replays(row: Row) -> bool:
    """Whether a second reader got the first record after a first one had read it."""
    return bool(row["figures"].get("replay_100_first_number") == 0)


def reference(rows: list[Row], row: Row) -> Row | None:
    """Moldau's row with the same durability and the same kind of client library."""
    library = "kafka-python" if row["library"] in PURE_PYTHON else "confluent-kafka"
    for each in rows:
        if (each["server"], each["library"], each["durability"]) == (MOLDAU, library, row["durability"]):
            return each
    return None


def with_ratio(rows: list[Row], row: Row, name: str) -> str:
    value, own = figure(row, name), reference(rows, row)
    if value is None:
        return "-"
    ours = figure(own, name) if own else None
    if not ours or row["server"] == MOLDAU:
        return number(value)
    return f"{number(value)} ({value / ours:.2f})"


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def head(*cells: str) -> list[str]:
    return [line(*cells), line(*["---"] * len(cells))]


def rates(rows: list[Row], durability: str) -> list[str]:
    lines = head("system", "client", *SPEEDS.values())
    for row in rows:
        if row["durability"] != durability:
            continue
        cells = [with_ratio(rows, row, name) for name in SPEEDS]
        if not replays(row) and not row["missing"]:
            cells[-1] = "no replay"
        lines.append(line(row["name"], row["library"], *(["not measured"] * len(cells) if row["missing"] else cells)))
    return lines


def costs(rows: list[Row], rate: int) -> list[str]:
    """A writer that could not hold `rate` has its own rate next to the latency."""
    sides = ("server, write", "client, write", "server, read", "client, read")
    lines = head("system", "client", "where", "p50 ms", "p99 ms", *sides)
    names = ["latency_p50_ms", "latency_p99_ms"]
    names += [f"{act}_100_{side}_cpu_s_per_million" for act in ("write", "read") for side in ("server", "client")]
    for row in rows:
        if not row["missing"]:
            cells = ["-" if (value := figure(row, name)) is None else number(value) for name in names]
            if (held := figure(row, "latency_rate")) and held < HELD * rate:
                cells[0] += f" at {number(held)}/s"
            lines.append(line(row["name"], row["library"], row["durability"], *cells))
    return lines


def at_rest(rows: list[Row]) -> list[str]:
    lines = head("system", "where", "memory at rest, MiB", "start, s", "kills", "acknowledged", "lost")
    for row in rows:
        if row["missing"] or "kills" not in row["figures"]:
            continue
        names = ("pss_mib", "start_s", "kills", "kills_acknowledged", "kills_lost")
        cells = ["-" if (value := figure(row, name)) is None else number(value) for name in names]
        cells[-1] = f"**{cells[-1]}**" if row["figures"]["kills_lost"] else cells[-1]
        lines.append(line(row["name"], row["durability"], *cells))
    return lines


def losses(rows: list[Row]) -> list[str]:
    """A line for each figure in which another system is better than Moldau with the same kind of client."""
    lines: list[str] = []
    for durability in (CACHED, FLUSHED):
        group = [row for row in rows if row["durability"] == durability]
        for name, title in {**SPEEDS, **COSTS}.items():
            lines += loss(f"{title}, {WHERE[durability]}", {label(row): times_better(rows, row, name) for row in group})
    servers = {row["server"]: row for row in rows if row["server"]}
    for name, title in AT_REST.items():
        lines += loss(title, {row["name"]: times_better(rows, row, name) for row in servers.values()})
    return lines or ["None."]


def label(row: Row) -> str:
    """Apache Kafka has a row for each of two libraries."""
    return f"{row['name']} ({row['library']})" if row["server"] == "kafka" else str(row["name"])


def times_better(rows: list[Row], row: Row, name: str) -> float:
    """How many times better this row is than Moldau's; 0 if that cannot be said."""
    ours = reference(rows, row)
    value, own = figure(row, name), figure(ours, name) if ours else None
    if not value or not own or row["server"] == MOLDAU:
        return 0
    return value / own if name in SPEEDS else own / value


def loss(title: str, ratios: dict[str, float]) -> list[str]:
    better = sorted(((ratio, name) for name, ratio in ratios.items() if ratio > 1), reverse=True)
    return [f"- {title}: {', '.join(f'{name} {ratio:.2f}' for ratio, name in better)}"] if better else []


def factors(rows: list[Row]) -> list[str]:
    """How many times as many records as RabbitMQ Apache Kafka writes: like with like, and as unlike as it gets."""
    kafka = {(row["library"], row["durability"]): row for row in rows if row["server"] == "kafka"}
    lines = head(
        "RabbitMQ's", "same durability, kafka-python", "same durability, confluent-kafka", "page cache, confluent-kafka"
    )
    for row in rows:
        own = figure(row, "write_100_rate")
        if row["server"] == "rabbitmq" and own:
            same = row["durability"]
            keys = [("kafka-python", same), ("confluent-kafka", same), ("confluent-kafka", CACHED)]
            rates_of = [figure(kafka[key], "write_100_rate") if key in kafka else None for key in keys]
            lines.append(line(row["name"], *("-" if rate is None else number(rate / own) for rate in rates_of)))
    return lines


def tables(result: dict[str, Any]) -> str:
    """The text between the markers of the page."""
    rows, amounts, machine = result["rows"], result["amounts"], result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(result["versions"].items()))
    missing = [f"- Not measured: {row['name']} ({row['library']}): {row['missing']}" for row in rows if row["missing"]]
    said = (
        f"Measured on {result['date']}: {machine['cores']} cores, Python {machine['python']}, {machine['system']}; "
        f"{result['rounds']} rounds of {amounts['records']:,} records, at most {amounts['seconds']:g} s for each write "
        f"or read, {amounts['window']:,} records unacknowledged. {versions}."
    )
    parts = [[said], missing]
    parts += [["### Records a second, acknowledged in the page cache"], rates(rows, CACHED)]
    parts += [["### Records a second, acknowledged on the disk"], rates(rows, FLUSHED)]
    title = f"### Latency at {amounts['latency_rate']} records a second, and CPU seconds for a million records of 100 B"
    parts += [[title], costs(rows, amounts["latency_rate"])]
    parts += [["### Memory, start, and kill -9"], at_rest(rows)]
    parts += [["### Writes of 100 B, Apache Kafka divided by RabbitMQ"], factors(rows)]
    parts += [["### Where Moldau loses", "", "How many times better each is:", "", *losses(rows)]]
    return "\n\n".join("\n".join(part) for part in parts if part)


def page_with(page: str, text: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare.table", description=__doc__)
    parser.add_argument("result", type=Path, nargs="?", default=RESULT, help="figures of a run")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    arguments.page.write_text(page_with(arguments.page.read_text(), tables(json.loads(arguments.result.read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
