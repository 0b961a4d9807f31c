"""Prometheus' text format 0.0.4: families of samples in, bytes out. Foreign names in labels are escaped and cut.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_LABEL_LENGTH = 300

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Metric(msgspec.Struct, frozen=True):
    """One row of the metrics table. `kind`: counter, gauge or summary. `source`: where the value comes from."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str
    source: str


def labels_text(**labels: object) -> str:
    """`{topic="orders",partition="0"}`."""
    return "{" + ",".join(f'{name}="{_label_value(str(value))}"' for name, value in labels.items()) + "}"


def _label_value(text: str) -> str:
    if not text.isprintable():
        # a surrogate cannot be encoded, and other unprintable characters would mislead a reader
        text = "".join(c if c.isprintable() or c in "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text[:MAX_LABEL_LENGTH].translate(_ESCAPES)


class Samples:
    """The samples of one scrape by metric name. A name missing from the table raises KeyError: it is a bug of ours."""

    __slots__ = ("_lines", "_table")

    def __init__(self, table: Sequence[Metric]) -> None:
        self._table = table
        self._lines: dict[str, list[str]] = {metric.name: [] for metric in table}

    def add(self, name: str, value: float, labels: str = "") -> None:
        """Adds one sample of a metric of the table. `labels`: from `labels_text`."""
        self._lines[name].append(f"{name}{labels} {_number(value)}\n")

    def add_summary(self, name: str, quantiles: Iterable[tuple[str, float]], count: int, labels: str = "") -> None:
        """Adds a Kafka histogram as the JMX exporter shows it: quantiles as labels, and the number of values."""
        lines = self._lines[name]
        others = f"{labels[:-1]}," if labels else "{"
        for quantile, value in quantiles:
            lines.append(f'{name}{others}quantile="{quantile}"}} {_number(value)}\n')
        lines.append(f"{name}_count{labels} {count}\n")

    def names(self) -> list[str]:
        """The names that have a sample."""
        return [name for name, lines in self._lines.items() if lines]

    def render(self) -> bytes:
        """All samples in Prometheus' text format, in the order of the table."""
        parts: list[str] = []
        for metric in self._table:
            lines = self._lines[metric.name]
            if lines:
                parts.append(f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n")
                parts += lines
        return "".join(parts).encode()


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return str(value) if isinstance(value, int) else repr(round(value, 6))
