"""A pipeline's page: one YAML file that says what is read, what is done with it, and where it goes.

    name: orders-per-minute
    bootstrap_servers: 127.0.0.1:9092
    source:
      topic: orders
      format: json                                  # json | string | binary
      schema: user string, amount double            # json only: names and Spark types
      watermark: 10 seconds                         # how late a record may come, by its timestamp
    sql: |
      select window.start as minute, user, sum(amount) as amount
      from source group by window(_timestamp, '1 minute'), user
    sink:
      topic: orders-per-minute                      # or `path`: a directory of Parquet files
      key: user                                     # the column that becomes the record's key
      mode: append                                  # append | update
    checkpoint: checkpoints/orders-per-minute       # default: checkpoints/<name>
    group: moldau.orders-per-minute                 # default: moldau.<name>; where progress and lag show

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

from moldau.errors import MoldauError

FORMATS = ("json", "string", "binary")
MODES = ("append", "update")

_INTERVAL = re.compile(r"\d+ (millisecond|second|minute|hour|day)s?")


class PageError(MoldauError):
    """The page cannot be run as it stands; the message begins with the file and the line."""


class PipelineSource(msgspec.Struct, frozen=True):
    """`watermark`: an interval in Spark's words, on the record's timestamp; None: nothing is ever too late."""

    topic: str
    format: str
    schema: str | None = None
    watermark: str | None = None


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


def load_page(path: Path) -> PipelinePage:
    """Reads and checks the page. Raises PageError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PageError(f"{path}: cannot be read: {error}") from error
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
    page.allow("name", "bootstrap_servers", "source", "sql", "sink", "checkpoint", "group")
    name = page.text("name")
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,200}", name):
        page.refuse("name", "must be 1 to 200 letters, digits, dots, dashes or underscores")
    return PipelinePage(
        name=name,
        bootstrap_servers=page.text("bootstrap_servers"),
        source=_parse_source(page.section("source")),
        sql=page.text("sql").strip().rstrip(";"),
        sink=_parse_sink(page.section("sink"), directory),
        checkpoint=_local_path(page, "checkpoint", directory, default=f"checkpoints/{name}"),
        group=page.text("group", default=f"moldau.{name}"),
    )


def _parse_source(source: _Section) -> PipelineSource:
    source.allow("topic", "format", "schema", "watermark")
    record_format = source.choice("format", FORMATS)
    if record_format == "json" and not source.has("schema"):
        source.refuse("format", "json needs a `schema`, such as `user string, amount double`")
    if record_format != "json" and source.has("schema"):
        source.refuse("schema", f"has no meaning for the format {record_format}")
    watermark = source.text("watermark", default="")
    if watermark and not _INTERVAL.fullmatch(watermark):
        source.refuse("watermark", f"must be a time such as `10 seconds`, not `{watermark}`")
    return PipelineSource(
        source.topic("topic"), record_format, source.text("schema", default="") or None, watermark or None
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
    promise = "at least once: a batch cut short may come twice" if page.sink.topic else "exactly once"
    return {
        "pipeline": page.name,
        "cluster": page.bootstrap_servers,
        "from": f"topic {page.source.topic} ({page.source.format})",
        "to": f"{to} ({page.sink.mode})",
        "delivery": promise,
        "checkpoint": str(page.checkpoint),
        "group": page.group,
    }
