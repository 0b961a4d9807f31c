"""Draws a history as a picture over time."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import msgspec

from moldau.testing.history.events import Event, Failed, Fault, Poll, Sent, Unknown
from moldau.testing.history.findings import Verdict

COLUMNS = 200
"""The number of time ranges. A row has one bar for each."""
LEFT, WIDTH, ROW, LINE = 190, 1000, 70, 18
FAULT, FINDING = "#d97706", "#dc2626"


class Row(msgspec.Struct):
    """`counts`: the number of events by millisecond."""

    name: str
    colour: str
    counts: dict[int, int] = {}

    def count(self, at_ms: int, many: int) -> None:
        """Adds `many` events at this millisecond since the epoch."""
        self.counts[at_ms] = self.counts.get(at_ms, 0) + many


def timeline(history: Iterable[Event], verdict: Verdict | None = None) -> str:
    """An SVG of acknowledged and read records, failed and timed-out operations, the faults in order, and, with a
    verdict, the findings."""
    sent, read, bad = Row("acknowledged", "#2563eb"), Row("read", "#059669"), Row("failed or unknown", "#6b7280")
    faults: list[tuple[int, str]] = []
    times: list[int] = []
    for event in history:
        times = [min(times[0], event.at_ms), max(times[-1], event.at_ms)] if times else [event.at_ms]
        if isinstance(event, Sent):
            sent.count(event.at_ms, 1)
        elif isinstance(event, Poll):
            read.count(event.at_ms, sum(map(len, event.records.values())))
        elif isinstance(event, Failed | Unknown):
            bad.count(event.at_ms, 1)
        elif isinstance(event, Fault):
            faults.append((event.at_ms, event.text))
    start, span = (times[0], max(1, times[-1] - times[0])) if times else (0, 1)
    rows = (sent, read, bad)
    height = ROW * len(rows)
    parts = [line for number, row in enumerate(rows) for line in _bars(row, ROW * (number + 1), start, span)]
    told = [(at_ms, text, FAULT) for at_ms, text in faults]
    told += [
        (finding.proof[-1].event.at_ms, f"{finding.kind}: {finding.sentence}", FINDING)
        for finding in (verdict.findings if verdict is not None else ())
    ]
    for number, (at_ms, text, colour) in enumerate(sorted(told), 1):
        x = LEFT + WIDTH * (at_ms - start) / span
        y = height + LINE * (number + 1)
        words = escape(f"{number}.  {(at_ms - start) / 1000:.1f} s  {text}")
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}" stroke="{colour}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height + 12}" fill="{colour}" text-anchor="middle">{number}</text>')
        parts.append(f'<text x="8" y="{y + 6}" fill="{colour}">{words}</text>')
    total = height + LINE * (len(told) + 2)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 10} {total}" '
    head += 'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, *parts, "</svg>\n"])


def _bars(row: Row, bottom: int, start: int, span: int) -> list[str]:
    """One bar for each time range, scaled to the highest one."""
    columns = [0] * COLUMNS
    for at_ms, count in row.counts.items():
        columns[min(COLUMNS - 1, COLUMNS * (at_ms - start) // span)] += count
    highest, width = max(columns), WIDTH / COLUMNS
    rate = highest * 1000 * COLUMNS / span
    parts = [
        f'<text x="8" y="{bottom - ROW // 2}" fill="{row.colour}">{row.name}: {sum(columns):,}</text>',
        f'<text x="8" y="{bottom - ROW // 2 + 16}" fill="{row.colour}">up to {rate:,.0f}/s</text>',
    ]
    for number, count in enumerate(columns):
        if count:
            high = (ROW - 10) * count / highest
            x, y = LEFT + width * number, bottom - high
            size = f'width="{width:.1f}" height="{high:.1f}"'
            parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{row.colour}"/>')
    return parts
