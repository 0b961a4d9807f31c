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
      delivery: exactly_once                        # topics only: exactly_once | at_least_once
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

import msgspec
import yaml

from moldau.client.protocol.metadata import parse_bootstrap_servers
from moldau.client.protocol.retries import FIRST_CONTACT_TIMEOUT_MS, RETRY_TIMEOUT_MS
from moldau.products.pipelines.section import PageError, Section
from moldau.products.pipelines.target import Target
from moldau.products.pipelines.targets import all_targets

FORMATS = ("json", "string", "binary")
STARTS = ("earliest", "latest")


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


class PipelinePage(msgspec.Struct, frozen=True):
    name: str
    bootstrap_servers: str
    source: PipelineSource
    sql: str
    sink: Target
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
    page = Section(file_name, "the page", node)
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
        checkpoint=page.local_path("checkpoint", directory, default=f"checkpoints/{name}"),
        group=page.text("group", default=f"moldau.{name}"),
        first_contact_timeout_ms=page.interval_ms("first_contact_timeout", FIRST_CONTACT_TIMEOUT_MS),
        retry_timeout_ms=page.interval_ms("retry_timeout", RETRY_TIMEOUT_MS),
    )


def _parse_source(source: Section, dead_letters: str) -> PipelineSource:
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


def _parse_sink(sink: Section, directory: Path) -> Target:
    targets = all_targets()
    sink.allow(*targets, *dict.fromkeys(key for target in targets.values() for key in target.KEYS))
    named = [target for key, target in targets.items() if sink.has(key)]
    if len(named) != 1:
        sink.refuse(None, f"needs either `{'` or `'.join(targets)}`")
    return named[0].parse(sink, directory)


def describe(page: PipelinePage) -> Mapping[str, str]:
    """The page in a few words, for people."""
    to, promise = page.sink.describe()
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
