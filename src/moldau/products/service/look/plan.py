"""Draws steps and edges as an SVG picture: each step in a column after the steps that it reads.

Every text is escaped here. Colours and type come from the style sheet of the page that shows the picture, or from the
picture's own (`style`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape
from itertools import pairwise

import msgspec

BOX_WIDTH, BOX_HEIGHT = 210, 46
COLUMN_GAP, ROW_GAP = 70, 18
MARGIN = 8
MOST_LETTERS, MOST_SMALL_LETTERS = 26, 32
"""The lengths of the two lines in a box; longer text is cut, and the box's tooltip has all of it."""


class Box(msgspec.Struct, frozen=True):
    """One step of the plan. `kind`: source, flow or target; `note`: its second line."""

    name: str
    kind: str
    note: str = ""
    is_in_trouble: bool = False


class Edge(msgspec.Struct, frozen=True):
    """Rows go from one box to another; both are indexes in the list of boxes. `note`: the text on the line."""

    start: int
    end: int
    note: str = ""


def draw_plan(boxes: list[Box], edges: list[Edge], *, style: str = "") -> str:
    """One `<svg>` element. `style`: for a standalone picture."""
    columns = _columns(boxes, edges)
    paths = _paths(columns, edges)
    spots = _spots(columns, paths)
    ends = Counter(edge.end for edge in edges)
    width = max((x for x, _ in spots.values()), default=0) + BOX_WIDTH + MARGIN
    height = max((y for _, y in spots.values()), default=0) + BOX_HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-label="{escape(_told(boxes, edges))}">',
        f"<style>{style}</style>" if style else "",
        *(
            _line([spots[stop] for stop in path], edge.note, at_start=ends[edge.end] > 1)
            for path, edge in zip(paths, edges, strict=True)
        ),
        *(_box(box, spots[place, columns[place]]) for place, box in enumerate(boxes)),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


Stop = tuple[int, int]
"""A box and its column; or a line that passes a column between boxes: a negative number, and the column."""


def _columns(boxes: list[Box], edges: list[Edge]) -> list[int]:
    """The number of steps before each box; targets share the last column."""
    before = [0] * len(boxes)
    for edge in sorted(edges, key=lambda edge: edge.start):  # a flow comes after its inputs
        before[edge.end] = max(before[edge.end], before[edge.start] + 1)
    last = max(before, default=0)
    return [last if box.kind == "target" else column for box, column in zip(boxes, before, strict=True)]


def _paths(columns: list[int], edges: list[Edge]) -> list[list[Stop]]:
    """Each line has a stop in every column that it passes: it runs between the boxes there."""
    return [
        [
            (edge.start, columns[edge.start]),
            *((-number - 1, column) for column in range(columns[edge.start] + 1, columns[edge.end])),
            (edge.end, columns[edge.end]),
        ]
        for number, edge in enumerate(edges)
    ]


def _spots(columns: list[int], paths: list[list[Stop]]) -> dict[Stop, tuple[int, int]]:
    """The upper left corner of every stop, at the height of its predecessors, so that few lines cross."""
    stops = dict.fromkeys(enumerate(columns))
    stops |= {stop: None for path in paths for stop in path}
    comes_from: dict[Stop, list[Stop]] = {stop: [] for stop in stops}
    for path in paths:
        for start, end in pairwise(path):
            comes_from[end].append(start)
    spots: dict[Stop, tuple[int, int]] = {}
    for column in range(max(columns, default=-1) + 1):
        heights = {stop: _mean(spots[before][1] for before in comes_from[stop]) for stop in stops if stop[1] == column}
        y = MARGIN
        for stop in sorted(heights, key=lambda stop: heights[stop]):
            spots[stop] = (MARGIN + column * (BOX_WIDTH + COLUMN_GAP), y)
            y += ROW_GAP + (BOX_HEIGHT if stop[0] >= 0 else 0)
    return spots


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def _line(spots: list[tuple[int, int]], note: str, *, at_start: bool) -> str:
    """`at_start`: puts the note at the start, because other lines end at the same point and their notes would overlap
    there."""
    (x, y), *between, (end_x, end_y) = spots
    x, y, end_y = x + BOX_WIDTH, y + BOX_HEIGHT // 2, end_y + BOX_HEIGHT // 2
    place = f'x="{end_x - 6}" y="{end_y - 6}" text-anchor="end"'
    if at_start:  # below a line that goes up
        place = f'x="{x + 6}" y="{y + (14 if end_y < y else -6)}"'
    path = f"M{x},{y}"
    for left, height in between:
        path += f" C{(x + left) // 2},{y} {(x + left) // 2},{height} {left},{height} L{left + BOX_WIDTH},{height}"
        x, y = left + BOX_WIDTH, height
    path += f" C{(x + end_x) // 2},{y} {(x + end_x) // 2},{end_y} {end_x},{end_y}"
    text = f'<text class="note" {place}>{escape(note)}</text>' if note else ""
    return f'<path class="edge" d="{path}"/>{text}'


def _box(box: Box, spot: tuple[int, int]) -> str:
    x, y = spot
    kind = f"box {box.kind}" + (" trouble" if box.is_in_trouble else "")
    name_y = y + (19 if box.note else 28)
    note = (
        f'<text class="note" x="{x + 10}" y="{y + 36}">{escape(_cut(box.note, MOST_SMALL_LETTERS))}</text>'
        if box.note
        else ""
    )
    return (
        f'<g class="{kind}"><title>{escape(f"{box.kind} {box.name}" + (f": {box.note}" if box.note else ""))}</title>'
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="7"/>'
        f'<text x="{x + 10}" y="{name_y}">{escape(_cut(box.name, MOST_LETTERS))}</text>{note}</g>'
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _told(boxes: list[Box], edges: list[Edge]) -> str:
    """The picture in words, for people who cannot see it."""
    return "; ".join(f"{boxes[edge.start].name} to {boxes[edge.end].name}" for edge in edges)
