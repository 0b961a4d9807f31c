"""What ends a pipeline, and what Spark says of a failure, in a sentence."""

from __future__ import annotations

import re

from moldau.errors import MoldauError

MOST_LINES_OF_AN_ERROR = 12

_BRANCH = re.compile(r"\s*(?:[:|]  |   )*[+:]- ")
"""A line of Spark's drawing of a query; the first of them stands behind that of its root."""
_PYTHON_CAUSE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\w[\w.]*(?:: .*)?)$", re.MULTILINE)

_OF_THE_OPTION = "set failOnDataLoss to false"
_OF_THE_PAGE = "write `lost_records: skip` in their source, or begin anew with `moldau pipeline reset`"
"""What the source of Spark advises where records are gone, and the same in words of a page, which has no options."""

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
