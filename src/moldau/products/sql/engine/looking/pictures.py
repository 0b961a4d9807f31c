"""The plan of EXPLAIN as boxes of text: topics, what happens to the rows, and the topic that is written."""

from __future__ import annotations

import textwrap

from moldau.products.sql.engine.answers import Explained

MAX_WIDTH = 76
"""Of the text in a box; longer sentences take several lines."""


def picture_of(explained: Explained) -> list[str]:
    """The lines of the picture. Empty for an answer without steps."""
    boxes = list(explained.steps)
    if not boxes and explained.reads:
        boxes.append(f"reads {', '.join(explained.reads)}")
    if explained.writes is not None:
        boxes.append(f"writes {explained.writes}")
    if not boxes:
        return []
    texts = [textwrap.wrap(box, MAX_WIDTH) or [""] for box in boxes]
    width = max(len(line) for text in texts for line in text)
    middle = (width + 2) // 2
    lines: list[str] = []
    for place, text in enumerate(texts):
        above = "─" * middle + ("┴" if place else "─") + "─" * (width + 1 - middle)
        below = "─" * middle + ("┬" if place < len(texts) - 1 else "─") + "─" * (width + 1 - middle)
        lines.append(f"┌{above}┐")
        lines += [f"│ {line:<{width}} │" for line in text]
        lines.append(f"└{below}┘")
        if place < len(texts) - 1:
            lines.append(" " * (middle + 1) + "│")
    return lines
