"""A pipeline's page: one YAML file that says what is read, what is done with it, and where it goes.

    name: orders-per-minute
    bootstrap_servers: 127.0.0.1:9092
    source:
      topic: orders
      format: json                                  # json | string | binary
      schema: user string, amount double            # json only: names and Spark types
      start: earliest                               # earliest | latest: where the first run starts
      event_time: ordered_at                        # a timestamp column of the schema; default: the record's timestamp
      watermark: 10 seconds                         # how late a record may come, by its event time
      dead_letters: orders-per-minute.dead-letters  # json only: the topic for records that do not parse
    sql: |
      select window.start as minute, user, sum(amount) as amount
      from source group by window(_timestamp, '1 minute'), user
    sink:
      topic: orders-per-minute                      # or `path`: a directory of Parquet files
      key: user                                     # the column that becomes the record's key
      mode: append                                  # append | update
    checkpoint: checkpoints/orders-per-minute       # default: checkpoints/<name>
    group: moldau.orders-per-minute                 # default: moldau.<name>; where progress and lag show
    first_contact_timeout: 10 seconds               # how long a cluster is tried that has never answered
    retry_timeout: 5 minutes                        # how long a broker is tried that was lost

The page is strict: a key that is not known, is missing, or says what cannot be meant is refused with its line. Paths
count from the page's own directory, so that a page means the same wherever it is run from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import msgspec
import yaml

from moldau.client.protocol.metadata import parse_bootstrap_servers
from moldau.client.protocol.retries import FIRST_CONTACT_TIMEOUT_MS, RETRY_TIMEOUT_MS
from moldau.errors import MoldauError

FORMATS = ("json", "string", "binary")
MODES = ("append", "update")
STARTS = ("earliest", "latest")

_UNITS_MS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_INTERVAL = re.compile(rf"(\d{{1,9}}) ({'|'.join(_UNITS_MS)})s?")


class PageError(MoldauError):
    """The page cannot be run as it stands; the message begins with the file and the line."""


class PipelineSource(msgspec.Struct, frozen=True):
    """`watermark`: an interval in Spark's words, on the event time; None: nothing is ever too late. `event_time`: a
    column of the schema; None: the record's timestamp. `dead_letters`: the topic for records that do not parse; None
    where every record does (formats string and binary)."""

    topic: str
    format: str
    schema: str | None = None
    watermark: str | None = None
    start: str = "earliest"
    event_time: str | None = None
    dead_letters: str | None = None


class PipelineSink(msgspec.Struct, frozen=True):
    """Exactly one of `topic` and `path` is set."""

    topic: str | None = None
    path: Path | None = None
    key: str | None = None
    mode: str = "append"


class PipelinePage(msgspec.Struct, frozen=True):
    name: str
    bootstrap_servers: str
    source: PipelineSource
    sql: str
    sink: PipelineSink
    checkpoint: Path
    group: str
    first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS
    retry_timeout_ms: int = RETRY_TIMEOUT_MS


def load_page(path: Path) -> PipelinePage:
    """Reads and checks the page. Raises PageError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"
        raise PageError(f"{path}: cannot be read: {reason}") from error
    return parse_page(text, file_name=str(path), directory=path.resolve().parent)


def parse_page(text: str, *, file_name: str, directory: Path) -> PipelinePage:
    """As load_page; relative paths of the page count from `directory`."""
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        raise PageError(f"{file_name}:{line}: no YAML: {getattr(error, 'problem', error)}") from error
    if node is None:
        raise PageError(f"{file_name}:1: the page is empty")
    page = _Section(file_name, "the page", node)
    page.allow(
        "name", "bootstrap_servers", "source", "sql", "sink", "checkpoint", "group",
        "first_contact_timeout", "retry_timeout",
    )  # fmt: skip
    name = page.text("name")
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,200}", name):
        page.refuse("name", "must be 1 to 200 letters, digits, dots, dashes or underscores")
    servers = page.text("bootstrap_servers")
    try:
        parse_bootstrap_servers(servers)
    except ValueError as error:
        page.refuse("bootstrap_servers", f"must be host:port, or several with commas: {error}")
    return PipelinePage(
        name=name,
        bootstrap_servers=servers,
        source=_parse_source(page.section("source"), f"{name}.dead-letters"),
        sql=page.text("sql").strip().rstrip(";"),
        sink=_parse_sink(page.section("sink"), directory),
        checkpoint=_local_path(page, "checkpoint", directory, default=f"checkpoints/{name}"),
        group=page.text("group", default=f"moldau.{name}"),
        first_contact_timeout_ms=page.interval_ms("first_contact_timeout", FIRST_CONTACT_TIMEOUT_MS),
        retry_timeout_ms=page.interval_ms("retry_timeout", RETRY_TIMEOUT_MS),
    )


def _parse_source(source: _Section, dead_letters: str) -> PipelineSource:
    source.allow("topic", "format", "schema", "start", "event_time", "watermark", "dead_letters")
    record_format = source.choice("format", FORMATS)
    if record_format == "json" and not source.has("schema"):
        source.refuse("format", "json needs a `schema`, such as `user string, amount double`")
    for key in ("schema", "event_time", "dead_letters"):
        if record_format != "json" and source.has(key):
            source.refuse(key, f"has no meaning for the format {record_format}")
    watermark = source.text("watermark", default="")
    if watermark:
        source.interval_ms("watermark", 0)
    topic = source.topic("topic")
    if source.has("dead_letters"):
        dead_letters = source.topic("dead_letters")
    if record_format == "json" and dead_letters == topic:
        source.refuse("dead_letters", "must not be the topic that is read: what does not parse would be read again")
    return PipelineSource(
        topic=topic,
        format=record_format,
        schema=source.text("schema", default="") or None,
        watermark=watermark or None,
        start=source.choice("start", STARTS, default="earliest"),
        event_time=source.text("event_time", default="") or None,
        dead_letters=dead_letters if record_format == "json" else None,
    )


def _parse_sink(sink: _Section, directory: Path) -> PipelineSink:
    sink.allow("topic", "path", "key", "mode")
    if sink.has("topic") == sink.has("path"):
        sink.refuse(None, "needs either `topic` or `path`")
    mode = sink.choice("mode", MODES, default="append")
    if sink.has("path"):
        if mode == "update":
            sink.refuse("mode", "update cannot go to files, which only grow; use append, or a topic")
        if sink.has("key"):
            sink.refuse("key", "is for topics; files have no keys")
        return PipelineSink(path=_local_path(sink, "path", directory), mode=mode)
    return PipelineSink(topic=sink.topic("topic"), key=sink.text("key", default="") or None, mode=mode)


def _local_path(section: _Section, key: str, directory: Path, default: str | None = None) -> Path:
    text = section.text(key, default=default)
    if "://" in text or text.startswith("file:"):
        section.refuse(key, f"must be a path on this machine, not `{text}`")
    return directory / Path(text).expanduser()


class _Section:
    """One mapping of the page, with the lines of its keys."""

    def __init__(self, file_name: str, name: str, node: yaml.Node) -> None:
        self._file_name = file_name
        self._name = name
        self._line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            self.refuse(None, "must be `key: value` lines")
        self._lines: dict[str, int] = {}
        self._nodes: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in self._nodes:
                self._lines[key] = key_node.start_mark.line + 1
                self.refuse(key, "is there twice")
            self._lines[key] = key_node.start_mark.line + 1
            self._nodes[key] = value_node

    def allow(self, *keys: str) -> None:
        for key in self._nodes:
            if key not in keys:
                self.refuse(key, f"is not known here; known are {', '.join(keys)}")

    def has(self, key: str) -> bool:
        return key in self._nodes

    def text(self, key: str, default: str | None = None) -> str:
        """A scalar as the text that stands there. Without a default the key is required and not empty."""
        node = self._nodes.get(key)
        if node is None:
            if default is None:
                self.refuse(key, "is missing", line=self._line)
            return default
        if not isinstance(node, yaml.ScalarNode) or not str(node.value).strip():
            self.refuse(key, "must be a text")
        return str(node.value).strip()

    def topic(self, key: str) -> str:
        name = self.text(key)
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name):
            self.refuse(key, f"is no name of a topic: `{name}`")
        return name

    def interval_ms(self, key: str, default: int) -> int:
        if not self.has(key):
            return default
        text = self.text(key)
        found = _INTERVAL.fullmatch(text)
        if found is None:
            self.refuse(key, f"must be a time such as `10 seconds`, not `{text}`")
        return int(found[1]) * _UNITS_MS[found[2]]

    def choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        value = self.text(key, default=default)
        if value not in choices:
            self.refuse(key, f"must be one of {', '.join(choices)}, not `{value}`")
        return value

    def section(self, key: str) -> _Section:
        node = self._nodes.get(key)
        if node is None:
            self.refuse(key, "is missing", line=self._line)
        return _Section(self._file_name, f"`{key}`", node)

    def refuse(self, key: str | None, reason: str, *, line: int | None = None) -> NoReturn:
        at = line or (self._lines.get(key, self._line) if key is not None and hasattr(self, "_lines") else self._line)
        what = f"`{key}`" if key is not None else self._name
        raise PageError(f"{self._file_name}:{at}: {what} {reason}")


def describe(page: PipelinePage) -> Mapping[str, str]:
    """The page in a few words, for people."""
    to = f"topic {page.sink.topic}" if page.sink.topic else f"Parquet files in {page.sink.path}"
    promise = "exactly once: one file for each batch"
    if page.sink.topic:
        promise = "at least once: a batch that a crash cuts short is written again"
    facts = {
        "pipeline": page.name,
        "cluster": page.bootstrap_servers,
        "from": f"topic {page.source.topic} ({page.source.format}), first run from the {page.source.start} offsets",
        "to": f"{to} ({page.sink.mode})",
        "delivery": promise,
    }
    if page.source.dead_letters is not None:
        facts["dead letters"] = f"topic {page.source.dead_letters}"
    return {**facts, "checkpoint": str(page.checkpoint), "group": page.group}
