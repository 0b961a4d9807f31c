"""The terminal as a target: shows the first rows of each batch as a table."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.core.keys import Choice, Number
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.targets.target import Target, TargetQuery
from moldau.products.service.look.words import visible

if TYPE_CHECKING:
    from moldau.spark import DataFrame

TERMINAL = Choice("terminal", ("true",), "Shows the first rows of each batch as a table.")
ROWS = Number("rows", "How many rows of a batch are shown.", number=20, least=1, most=1_000)
_AS_TEXT = re.compile("timestamp|interval|variant")
"""Types that Spark converts to text: Python has no interval of months, and no time before the year 1 in its own
zone."""


class TerminalTarget(Target, frozen=True, kw_only=True):
    """`rows`: how many rows of a batch are shown."""

    NAMED_BY = TERMINAL
    KEYS = (*Target.KEYS, ROWS)
    NEEDS_DRIVER = True

    rows: int = ROWS.number

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> TerminalTarget:
        TERMINAL.of(sink)
        return cls(mode=cls.parse_mode(sink), rows=ROWS.of(sink))

    def describe(self) -> tuple[str, str]:
        return "the terminal", "for the eye: a batch that a crash cuts short is shown again"

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        # a pipeline file is checked without its extra
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        def write(batch: DataFrame, batch_id: int) -> None:
            rows = first_of(batch, self.rows + 1).selectExpr(*_columns(batch)).collect()
            if not rows:
                return
            title = f"{query.pipeline}, batch {batch_id}"
            shown = Table(title=title, caption="and more rows" if len(rows) > self.rows else None)
            for name in batch.columns:
                shown.add_column(Text(visible(name)))
            for row in rows[: self.rows]:
                shown.add_row(*(Text("" if value is None else visible(str(value))) for value in row))
            # to the current standard output: the live progress table moves below the printed text
            Console().print(shown)

        return write


def first_of(batch: DataFrame, most: int) -> DataFrame:
    """The first rows of a micro-batch, which is read to its end. A limit alone would leave rows and partitions unread:
    their records that do not parse would not be counted, and an aggregate there would not keep its state, which ends
    the query. A sort makes Spark read all of them."""
    from moldau.spark import expression  # a pipeline file is checked without Spark

    return batch.orderBy(expression("monotonically_increasing_id()")).limit(most)


def _columns(batch: DataFrame) -> list[str]:
    """SQL for the columns."""
    return [
        f"cast({quoted(name)} as string) as {quoted(name)}" if _AS_TEXT.search(kind) else quoted(name)
        for name, kind in batch.dtypes
    ]
