"""Turns Spark's errors into one sentence, with the record that caused them."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from moldau.errors import MoldauError
from moldau.products.pipelines.core.plan import FlowStep
from moldau.types import TopicPartition

MOST_LINES_OF_AN_ERROR = 12
MOST_TRIES = 40
"""Of one search for a record: a batch of a billion offsets is halved in 30."""

Offsets = Mapping[TopicPartition, tuple[int, int]]
"""Of each partition the first offset, and the one behind the last."""

_OURS = re.compile(r"(?:^|[ :])moldau(?:\.\w+)*\.[A-Z]\w*: (.+)$", re.MULTILINE)
"""In a trace of Python it begins a line; where Spark leaves the trace out, it stands behind Spark's own words."""
_BRANCH = re.compile(r"\s*(?:[:|]  |   )*[+:]- ")
"""A line of Spark's drawing of a query; the first of them stands behind that of its root."""
_PYTHON_CAUSE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\w[\w.]*(?:: .*)?)$", re.MULTILINE)

_OF_THE_OPTION = "set failOnDataLoss to false"
_OF_THE_SPEC = "write `lost_records: skip` in their source, or begin again with `moldau pipeline reset`"
"""What the source of Spark advises where records are gone, and the same in words of a pipeline, which has no
options."""

_IN_SQL = re.compile(r"^== SQL.*\(line (\d+), position \d+\) ==\n(.*)$", re.MULTILINE)
"""Where Spark says in which line of a statement it was, with that line, which it may shorten at both ends."""
_IN_PYTHON = re.compile(r'^ *File "(.+)", line (\d+), in |was called from\n(.+):(\d+)$', re.MULTILINE)
"""A line of a trace of Python, and where Spark says which call made an expression."""

_SPARK_CAUSE = re.compile(r"^(?:: |Caused by: )?(?:\w+\.)+\w+: (\[[A-Z][A-Z0-9_.]*\] .+)$", re.MULTILINE)

_OF_JAVA = re.compile(r"^(?:: |Caused by: )((?:[a-z]\w*\.)+\w+)(?:: ((?:.|\n(?!\s+at |Caused by: ))+))?", re.MULTILINE)
"""A class of Java's errors, and what it says; those that caused others stand behind them. The first one is that of the
call from Python."""
_UNREAD_FILE = re.compile(
    r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (.+?)\.  ?(.*?) ?SQLSTATE: "
)
_NO_FILE = "[FAILED_READ_FILE."
"""How Spark's error begins that wraps whatever ends the reading of a file."""
_JAVA_IN_WORDS = (
    (
        re.compile(r"Class [\w.]+\.(\w+)Codec was not found"),
        "it is compressed with {0}, for which Spark has no codec: write it with zstd, snappy or gzip",
    ),
    (
        re.compile(r"Relative path in absolute URI: (?:\.(?=.*\.crc$))?(.+?)(?:\.crc)?$"),
        "Spark takes no colon in the name `{0}` here: rename it, or name its directory in place of a pattern",
    ),
    (re.compile(r".* is not a Parquet file\b.*", re.DOTALL), "it is no Parquet file, or not a whole one"),
)
"""What Java says, and the same for people."""
_OF_THE_BRIDGE = "py4j."

_WITH_STATE = re.compile(r"\[([A-Z][A-Z0-9_.]*)\] (?:(?!\n\tat |\[[A-Z][A-Z0-9_.]*\] ).)*?SQLSTATE: (\w{5})", re.DOTALL)
"""An error that Spark has a class for, with its SQLSTATE; of errors inside of each other the innermost."""
_OF_VALUES = re.compile(r"22...|23505|39000|P0001")
"""The states of what values cause: data exceptions, a key that is given twice, functions, `raise_error`."""
_OF_A_BATCH = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR")
"""What Spark wraps around any error of a batch."""
_OF_A_WORKER = ("from the Python worker", "PythonException")


class FlowError(MoldauError):
    """The pipeline's source, SQL and sink do not fit together; the message says where."""


class PipelineFailedError(MoldauError):
    """A query ended by an error; the message is its first lines, the rest stands in the driver's log."""


def what_failed(text: str) -> str:
    """The sentence of our own error inside Spark's report of it; else of the innermost error that Spark has a class
    for, such as [DIVIDE_BY_ZERO]; else the last error of Python, or the innermost one of Java that Python called; else
    the report's first lines, without the query that Spark draws behind them. Of a file that cannot be read, its name
    and what Java says of it."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).replace(_OF_THE_OPTION, _OF_THE_SPEC)
    causes = _SPARK_CAUSE.findall(text)
    if causes:
        innermost = str(causes[-1])
        return (_with_file(text) if innermost.startswith(_NO_FILE) else None) or innermost
    of_python = _PYTHON_CAUSE.findall(text)
    if of_python and not of_python[-1].startswith(_OF_THE_BRIDGE):
        return str(of_python[-1])
    if of_java := _java_cause(text):
        return of_java
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("JVM stacktrace")]
    drawn = next((place for place, line in enumerate(lines) if _BRANCH.match(line)), None)
    if drawn is not None and drawn > 1:
        lines = lines[: drawn - 1]
    return "\n".join(lines[:MOST_LINES_OF_AN_ERROR]).rstrip(";")


def _with_file(text: str) -> str | None:
    """Of a report that a file cannot be read: which, and why. None for other reports."""
    found = _UNREAD_FILE.findall(" ".join(text.split("\n")))
    if not found:
        return None
    hint, file, more = found[-1]
    reason = _java_cause(text) if hint in ("NO_HINT", "CANNOT_READ_FILE_FOOTER") else more
    return f"the file {re.sub('^file:(//)?', '', file)} cannot be read: {reason or more}".rstrip(": .")


def _java_cause(text: str) -> str | None:
    """What the innermost error of Java says that says something; None where none does."""
    said = [(kind, message.strip()) for kind, message in _OF_JAVA.findall(text) if message and message[0] != "["]
    if not said:
        return None
    for _, message in said:
        for pattern, words in _JAVA_IN_WORDS:
            if match := pattern.search(message):
                return words.format(*match.groups())
    kind, message = said[-1]
    return f"{message.splitlines()[0]} ({kind})"


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


def error_of_values(text: str) -> str | None:
    """The class of an error that the values of a record can cause, as Spark or Python names it; None for all others,
    such as those of a broker, a target or a disk. `text`: Spark's report."""
    if _OURS.search(text):
        return None
    found = [name for name, state in _WITH_STATE.findall(text) if _OF_VALUES.fullmatch(state)]
    of_spark = [name for name in found if name not in _OF_A_BATCH]
    if of_spark:
        return str(of_spark[-1])
    of_python = _PYTHON_CAUSE.findall(text)
    if not of_python or not any(sign in text for sign in _OF_A_WORKER):
        return None
    name = str(of_python[-1]).partition(":")[0]
    kind = getattr(builtins, name, None)
    is_of_machine = isinstance(kind, type) and issubclass(kind, (OSError, MemoryError, ImportError))
    return None if is_of_machine else name


def first_failing(batch: Offsets, fails: Callable[[Offsets], bool]) -> tuple[TopicPartition, int] | None:
    """The first record, by partition and offset, of those by which a batch fails: the batch is halved until one offset
    is left. None where the batch fails no more, where no single record of it fails, and where MOST_TRIES are too few.

    `fails`: whether the records of these offsets fail; it is asked at most MOST_TRIES times.
    """
    ranges = [(one, first, end) for one, (first, end) in sorted(batch.items()) if end > first]
    low, high = 0, sum(end - first for _, first, end in ranges)
    if not high or not fails(_part(ranges, low, high)):
        return None
    is_sure = True
    for _ in range(MOST_TRIES - 2):
        if high - low == 1:
            break
        middle = (low + high) // 2
        is_sure = fails(_part(ranges, low, middle))
        low, high = (low, middle) if is_sure else (middle, high)
    if high - low > 1 or not (is_sure or fails(_part(ranges, low, high))):
        return None
    ((partition, (offset, _)),) = _part(ranges, low, high).items()
    return partition, offset


def _part(ranges: Sequence[tuple[TopicPartition, int, int]], low: int, high: int) -> Offsets:
    """Of all offsets of the ranges, one behind the other, the `low`th to before the `high`th."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    begin = 0
    for partition, first, end in ranges:
        one, other = max(first, first + low - begin), min(end, first + high - begin)
        if other > one:
            found[partition] = (one, other)
        begin += end - first
    return found
