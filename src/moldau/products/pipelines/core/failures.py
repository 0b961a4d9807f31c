"""Turns Spark's errors into one sentence, and finds the record that caused them."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from moldau.errors import MoldauError
from moldau.products.pipelines.core.plan import FlowStep
from moldau.types import TopicPartition

MOST_LINES_OF_AN_ERROR = 12
MOST_TRIES = 40
"""The most runs in one search for a record; a batch of a billion offsets takes 30 halvings."""

Offsets = Mapping[TopicPartition, tuple[int, int]]
"""Each partition's first offset, and the offset after its last."""

_OURS = re.compile(r"(?:^|[ :])moldau(?:\.\w+)*\.[A-Z]\w*: (.+)$", re.MULTILINE)
"""One of our errors. It begins a line in a Python traceback, or follows Spark's own words if Spark omits the
traceback."""
_BRANCH = re.compile(r"\s*(?:[:|]  |   )*[+:]- ")
"""A line of the query tree that Spark draws; the first such line comes after that of the root."""
_PYTHON_CAUSE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\w[\w.]*(?:: .*)?)$", re.MULTILINE)

_OF_THE_OPTION = "set failOnDataLoss to false"
_OF_THE_SPEC = "write `lost_records: skip` in their source, or begin again with `moldau pipeline reset`"
"""The advice of our Spark source for lost records, and the same advice for pipeline files, which have no options."""

_IN_SQL = re.compile(r"^== SQL.*\(line (\d+), position \d+\) ==\n(.*)$", re.MULTILINE)
"""Spark's position in a SQL statement, with that line of it, which Spark may shorten at both ends."""
_IN_PYTHON = re.compile(r'^ *File "(.+)", line (\d+), in |was called from\n(.+):(\d+)$', re.MULTILINE)
"""A line of a Python traceback, or the call that Spark names as the origin of an expression."""

_SPARK_CAUSE = re.compile(r"^(?:: |Caused by: )?(?:\w+\.)+\w+: (\[[A-Z][A-Z0-9_.]*\] .+)$", re.MULTILINE)

_OF_JAVA = re.compile(r"^(?:: |Caused by: )((?:[a-z]\w*\.)+\w+)(?:: ((?:.|\n(?!\s+at |Caused by: ))+))?", re.MULTILINE)
"""A Java exception's class and message. Causes come after the exception that they caused; the first one is that of the
call from Python."""
_UNREAD_FILE = re.compile(
    r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (.+?)\.  ?(.*?) ?SQLSTATE: "
)
_NO_FILE = "[FAILED_READ_FILE."
"""How Spark's error begins when it wraps any failure to read a file."""
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
"""Java's messages, and plain words for each."""
_OF_THE_BRIDGE = "py4j."

_WITH_STATE = re.compile(r"\[([A-Z][A-Z0-9_.]*)\] (?:(?!\n\tat |\[[A-Z][A-Z0-9_.]*\] ).)*?SQLSTATE: (\w{5})", re.DOTALL)
"""An error with one of Spark's error classes and a SQLSTATE; the innermost of nested errors."""
_OF_VALUES = re.compile(r"22...|23505|39000|P0001")
"""SQLSTATEs that values cause: data exceptions, duplicate keys, functions, `raise_error`."""
_OF_A_BATCH = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR")
"""Error classes that Spark wraps around any error of a batch."""
_OF_A_WORKER = ("from the Python worker", "PythonException")


class FlowError(MoldauError):
    """The pipeline's source, SQL and sink do not fit together; the message says where."""


class PipelineFailedError(MoldauError):
    """A query ended with an error; the message has its first lines, the driver's log has the rest."""


def what_failed(text: str) -> str:
    """One sentence from Spark's report, the first of these that it has: the sentence of our own error; the innermost
    error with a Spark error class, such as [DIVIDE_BY_ZERO] (for an unreadable file: its name, and Java's reason); the
    last Python error; the innermost Java error that Python's call raised; the report's first lines, without the query
    tree after them."""
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
    """The file and the reason, from a report that a file cannot be read. None for other reports."""
    found = _UNREAD_FILE.findall(" ".join(text.split("\n")))
    if not found:
        return None
    hint, file, more = found[-1]
    reason = _java_cause(text) if hint in ("NO_HINT", "CANNOT_READ_FILE_FOOTER") else more
    return f"the file {re.sub('^file:(//)?', '', file)} cannot be read: {reason or more}".rstrip(": .")


def _java_cause(text: str) -> str | None:
    """The message of the innermost Java error that has one; None if none has."""
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
    """The flow whose SQL failed, the number of the line, and its text. None if the report does not name a line, or the
    line fits several flows. `text`: Spark's report; `flows`: those in SQL."""
    for number, shown in reversed(_IN_SQL.findall(text)):
        line = shown.removeprefix("...").removesuffix("...")
        found = [flow for flow in flows if line in "".join(flow.text.splitlines()[int(number) - 1 : int(number)])]
        if line.strip() and len(found) == 1:
            return found[0], int(number), line.strip()
    return None


def line_that_failed(text: str, file_name: str) -> int | None:
    """The last line of a Python module that ran; None if Spark's report does not name one."""
    found = [(trace or call, line or place) for trace, line, call, place in _IN_PYTHON.findall(text)]
    return next((int(line) for name, line in reversed(found) if name == file_name), None)


def error_of_values(text: str) -> str | None:
    """The class of an error that a record's values can cause, as Spark or Python names it. None for all others, such as
    those of a broker, a target or a disk. `text`: Spark's report."""
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
    """Finds the first record, by partition and offset, that makes a batch fail, by halving the batch until one offset
    is left. None if the batch no longer fails, if no single record fails, or if MOST_TRIES are too few.

    `fails`: whether the records at these offsets fail; called at most MOST_TRIES times.
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
    """Counts all offsets of the ranges in order; gives those from number `low` up to, not including, `high`."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    begin = 0
    for partition, first, end in ranges:
        one, other = max(first, first + low - begin), min(end, first + high - begin)
        if other > one:
            found[partition] = (one, other)
        begin += end - first
    return found
