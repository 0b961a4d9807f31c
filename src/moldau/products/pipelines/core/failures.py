"""What ends a pipeline, and what Spark says of a failure, in a sentence."""

from __future__ import annotations

import re

from moldau.errors import MoldauError

MOST_LINES_OF_AN_ERROR = 12

_SPARK_CAUSE = re.compile(r"^(?:Caused by: )?(?:\w+\.)+\w+: (\[[A-Z][A-Z0-9_.]*\] .+)$", re.MULTILINE)


class FlowError(MoldauError):
    """The page's source, SQL and sink do not fit together; the message says where."""


class PipelineFailedError(MoldauError):
    """A query ended by an error; the message is its first lines, the rest stands in the driver's log."""


def what_failed(text: str) -> str:
    """The sentence of our own error inside Spark's report of it; else of the innermost error that Spark has a class
    for, such as [DIVIDE_BY_ZERO]; else the report's first lines."""
    ours = re.findall(r"^moldau(?:\.\w+)+: (.+)$", text, re.MULTILINE)
    if ours:
        return str(ours[-1])
    causes = _SPARK_CAUSE.findall(text)
    if causes:
        return str(causes[-1])
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("JVM stacktrace")]
    return "\n".join(lines[:MOST_LINES_OF_AN_ERROR])
