"""What ends a pipeline, and what Spark says of a failure, in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable

from moldau.errors import MoldauError
from moldau.products.pipelines.core.plan import FlowStep

MOST_LINES_OF_AN_ERROR = 12

_BRANCH = re.compile(r"\s*(?:[:|]  |   )*[+:]- ")
"""A line of Spark's drawing of a query; the first of them stands behind that of its root."""
_PYTHON_CAUSE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\w[\w.]*(?:: .*)?)$", re.MULTILINE)

_OF_THE_OPTION = "set failOnDataLoss to false"
_OF_THE_PAGE = "write `lost_records: skip` in their source, or begin anew with `moldau pipeline reset`"
"""What the source of Spark advises where records are gone, and the same in words of a page, which has no options."""

_IN_SQL = re.compile(r"^== SQL.*\(line (\d+), position \d+\) ==\n(.*)$", re.MULTILINE)
"""Where Spark says in which line of a statement it was, with that line, which it may shorten at both ends."""
_IN_PYTHON = re.compile(r'^ *File "(.+)", line (\d+), in |was called from\n(.+):(\d+)$', re.MULTILINE)
"""A line of a trace of Python, and where Spark says which call made an expression."""

_SPARK_CAUSE = re.compile(r"^(?:Caused by: )?(?:\w+\.)+\w+: (\[[A-Z][A-Z0-9_.]*\] .+)$", re.MULTILINE)


class FlowError(MoldauError):
    """The page's source, SQL and sink do not fit together; the message says where."""


class PipelineFailedError(MoldauError):
    """A query ended by an error; the message is its first lines, the rest stands in the driver's log."""


def what_failed(text: str) -> str:
    """The sentence of our own error inside Spark's report of it; else of the innermost error that Spark has a class
    for, such as [DIVIDE_BY_ZERO]; else the last error of Python; else the report's first lines, without the query that
    Spark draws behind them."""
    ours = re.findall(r"^moldau(?:\.\w+)+: (.+)$", text, re.MULTILINE)
    if ours:
        return str(ours[-1]).replace(_OF_THE_OPTION, _OF_THE_PAGE)
    causes = _SPARK_CAUSE.findall(text)
    if causes:
        return str(causes[-1])
    of_python = _PYTHON_CAUSE.findall(text)
    if of_python:
        return str(of_python[-1])
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("JVM stacktrace")]
    drawn = next((place for place, line in enumerate(lines) if _BRANCH.match(line)), None)
    if drawn is not None and drawn > 1:
        lines = lines[: drawn - 1]
    return "\n".join(lines[:MOST_LINES_OF_AN_ERROR]).rstrip(";")


def flow_that_failed(text: str, flows: Iterable[FlowStep]) -> tuple[FlowStep, int, str] | None:
    """The flow whose SQL was at work, the number of the line in it, and what stands there; None where the report does
    not say that, or it fits several flows. `text`: Spark's report; `flows`: those that are SQL."""
    for number, shown in reversed(_IN_SQL.findall(text)):
        line = shown.removeprefix("...").removesuffix("...")
        found = [flow for flow in flows if line in "".join(flow.text.splitlines()[int(number) - 1 : int(number)])]
        if line.strip() and len(found) == 1:
            return found[0], int(number), line.strip()
    return None


def line_that_failed(text: str, file_name: str) -> int | None:
    """The last line of a module of Python that was at work; None where Spark's report does not say that."""
    found = [(trace or call, line or place) for trace, line, call, place in _IN_PYTHON.findall(text)]
    return next((int(line) for name, line in reversed(found) if name == file_name), None)
