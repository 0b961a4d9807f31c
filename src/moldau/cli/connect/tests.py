"""`moldau connect test`: one task of a connector, with a cluster in this process."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from moldau.cli.arguments import Subparsers, at_least_one, not_empty, seconds
from moldau.cli.connect.files import read_config
from moldau.cli.connect.rows import read_rows, with_schemas
from moldau.cli.connect.serve import require_connectors
from moldau.cli.output import CommandError, print_json, print_rows

if TYPE_CHECKING:
    from confluent_kafka import Message

    from moldau.testing import Cluster
    from moldau.testing.connect import ConnectorTask

KEY_CONVERTER, VALUE_CONVERTER = "key.converter", "value.converter"
TOPIC, REJECTED = "test", "test-rejected"
ERROR_PREFIX = "__connect.errors."
QUIET_S = 2.0
"""A source that has nothing to do, and has given nothing for so long, has given all."""
POLL_S = 0.1

Config = dict[str, str]


def add_verb(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    test = verbs.add_parser(
        "test",
        help="run a connector with a broker in this process",
        description="Runs one task of a connector, with a broker in the memory of this process. A source: prints its "
        "records as JSON lines, kills the task after its first records, starts it again, and tells whether a record "
        "came twice. A sink (--rows): writes the rows, and tells which ones were rejected. A source has the converter "
        "json without schemas; rows get a schema that all of them have, and their keys are strings; unless the "
        "configuration names converters. The exit code is 0 if all is well, 1 for a task that fails, a record that "
        "came twice or a rejected row, and 2 for a configuration with errors.",
        examples=(
            "moldau connect test datagen rows.per.second=100 --records 20",
            "moldau connect test tides:Tides --config tides.json",
            "moldau connect test tides:Tides directory=/tmp/tides --rows rows.jsonl",
        ),
    )
    test.add_argument(
        "connector", type=not_empty, metavar="CLASS", help="an installed connector, or module:Class in this folder"
    )
    test.add_argument("settings", nargs="*", default=[], metavar="NAME=VALUE", help="settings, over those of --config")
    test.add_argument("--config", type=not_empty, metavar="FILE", help="a configuration: JSON (.json) or properties")
    test.add_argument(
        "--rows",
        type=not_empty,
        metavar="FILE",
        help="run a sink: each line is the JSON value of a record, or a record as this command and `moldau consume "
        "--json` print it. - is standard input",
    )
    test.add_argument("--records", type=at_least_one, default=100, metavar="N", help="at most (default: 100)")
    test.add_argument("--timeout", type=seconds, default=30.0, metavar="S", help="ends after S seconds (default: 30)")
    test.set_defaults(run=run_test)


def run_test(arguments: argparse.Namespace) -> int:
    """The exit code, as the command describes it."""
    require_connectors("`moldau connect test`")
    from moldau.connect.configuration import ConfigError
    from moldau.errors import MoldauError
    from moldau.products.connect.running.references import resolved
    from moldau.testing.connect import ConnectorError

    sys.path.insert(0, os.getcwd())
    is_sink = arguments.rows is not None
    try:
        _check_kind(arguments.connector, is_sink)
        given = _given(arguments)
        config = {**(_of_sink(given) if is_sink else _of_source(given, arguments.records)), **given}
        errors = _errors(config)
        if errors:
            print_rows(errors, ("setting", "error"), as_json=False)
            return 2
        config = resolved(config)
        if is_sink:
            return _test_sink(arguments, config, has_schemas=VALUE_CONVERTER not in given)
        return _test_source(arguments, config)
    except ConfigError as error:
        print(f"moldau connect: {error}", file=sys.stderr)
        return 2
    except ConnectorError as error:
        print(f"moldau connect: {error}", file=sys.stderr)
        return 1
    except MoldauError as error:
        raise CommandError(str(error)) from error


def _check_kind(connector: str, is_sink: bool) -> None:
    """Raises ConfigError, CommandError."""
    from moldau.connect.contract.describing import describe
    from moldau.connect.contract.finding import find

    types = describe(find(connector)).types
    if is_sink and "sink" not in types:
        raise CommandError(f"{connector} is a source: leave out --rows")
    if not is_sink and "source" not in types:
        raise CommandError(f"{connector} is a sink: --rows FILE gives it records")


def _given(arguments: argparse.Namespace) -> Config:
    """What the file and the words say. Raises CommandError."""
    config: Config = {"name": "test", **({} if arguments.config is None else read_config(arguments.config))}
    for one in arguments.settings:
        name, separator, value = one.partition("=")
        if not separator:
            raise CommandError(f"a setting is NAME=VALUE, not {one!r}")
        config[name] = value
    return {**config, "connector.class": arguments.connector}


def _of_source(given: Config, records: int) -> Config:
    """What a test chooses if `given` does not."""
    chosen = {"topic": TOPIC, "batch.max.rows": str(max(1, records // 4))}
    for name in (KEY_CONVERTER, VALUE_CONVERTER):
        if name not in given:
            chosen |= {name: "json", f"{name}.schemas.enable": "false"}
    return chosen


def _of_sink(given: Config) -> Config:
    chosen = {**_OF_SINK, KEY_CONVERTER: "string"}
    if VALUE_CONVERTER not in given:
        chosen |= {VALUE_CONVERTER: "json", f"{VALUE_CONVERTER}.schemas.enable": "true"}
    return chosen


_OF_SINK = {
    "topics": TOPIC,
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": REJECTED,
    "errors.deadletterqueue.context.headers.enable": "true",
    "errors.deadletterqueue.topic.replication.factor": "1",
}


def _errors(config: Config) -> list[dict[str, object]]:
    from moldau.connect.plugins.validating import validate

    found: Any = validate(config)
    values = [one["value"] for one in found["configs"]]
    return [{"setting": one["name"], "error": error} for one in values for error in one["errors"]]


# --- a source ---


def _test_source(arguments: argparse.Namespace, config: Config) -> int:
    from moldau.testing import Cluster
    from moldau.testing.connect import ConnectorTask

    end_s = time.monotonic() + arguments.timeout
    with Cluster() as cluster, _Followed(cluster, arguments.records) as followed:
        with _logged(ConnectorTask(cluster, config)) as task:
            followed.follow(task, end_s, lambda: followed.count > 0)
            task.kill()
        if not followed.count:
            print(f"no record came in {arguments.timeout:g} s", file=sys.stderr)
            return 1
        earlier = followed.begin_again()
        with _logged(ConnectorTask(cluster, config)) as task:
            followed.follow(task, end_s, lambda: followed.is_full and followed.later > 0)
    print(f"{followed.count} records", file=sys.stderr)
    if followed.later == 0:
        print("the restart repeated none, and no later record came", file=sys.stderr)
    elif not followed.are_different:
        print(f"the first {earlier} records have equal ones: a repeated one is not told from them", file=sys.stderr)
    else:
        print(f"the restart after {earlier} records repeated {followed.repeated or 'none'}", file=sys.stderr)
    return 1 if followed.are_different and followed.repeated else 0


class _Followed:
    """Prints the records of a source, at most `limit`, and compares those after a restart with those before it."""

    def __init__(self, cluster: Cluster, limit: int) -> None:
        from confluent_kafka import Consumer

        settings = {"group.id": "moldau-connect-test", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._cluster = cluster
        self._consumer = Consumer({**cluster.client_settings(), **settings})
        self._known: set[tuple[str, int]] = set()
        self._limit = limit
        self._earlier: set[object] = set()
        self._ends: dict[tuple[str, int], int] = {}
        self._last_s = time.monotonic()
        self.count = self.later = self.repeated = 0
        self.are_different = True

    def __enter__(self) -> _Followed:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def is_full(self) -> bool:
        return self.count >= self._limit

    def follow(self, task: ConnectorTask, end_s: float, is_done: Callable[[], bool]) -> None:
        """Until `is_done`, or the source has given all, or `end_s`. Raises ConnectorError."""
        while time.monotonic() < end_s and not is_done():
            if task.state == "FAILED":
                task.wait_for(lambda: False)  # raises
            is_idle = task.is_finished or bool(task.progress.get("idle"))
            self._take()
            if is_idle and self.count and time.monotonic() - self._last_s > QUIET_S:
                return

    def begin_again(self) -> int:
        """The task is killed: all records so far came before its restart. Returns their number."""
        found = 0
        for topic in self._topics():
            for record in self._cluster.records(topic):
                found += 1
                self._earlier.add((topic, record.key, record.value))
                self._ends[topic, record.partition] = record.offset + 1
        self.are_different = len(self._earlier) == found
        return found

    def _topics(self) -> dict[str, list[int]]:
        """The partitions of each topic that a source has written."""
        from moldau.testing.connect import OFFSETS_TOPIC

        found = self._consumer.list_topics(timeout=10).topics
        names = sorted(name for name in found if name != OFFSETS_TOPIC and not name.startswith("__"))
        return {name: list(found[name].partitions) for name in names}

    def _take(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        found = {(name, index) for name, partitions in self._topics().items() for index in partitions}
        new = [TopicPartition(*one, OFFSET_BEGINNING) for one in sorted(found - self._known)]
        if new:
            self._consumer.incremental_assign(new)
            self._known |= found
        for message in self._consumer.consume(1000, POLL_S):
            if message.error() is None:
                self._see(message)

    def _see(self, message: Message) -> None:
        from moldau.products.record_json import record_as_json

        self._last_s = time.monotonic()
        if message.offset() >= self._ends.get((message.topic(), message.partition()), 0) and self._ends:
            self.later += 1
            self.repeated += (message.topic(), message.key(), message.value()) in self._earlier
        if self.count < self._limit:
            self.count += 1
            print_json(record_as_json(message))


# --- a sink ---


def _test_sink(arguments: argparse.Namespace, config: Config, *, has_schemas: bool) -> int:
    from moldau.testing import Cluster
    from moldau.testing.connect import ConnectorTask

    rows = list(islice(read_rows(arguments.rows), arguments.records))
    if not rows:
        raise CommandError(f"{arguments.rows} has no rows")
    if has_schemas:
        rows = with_schemas(rows)
    topic = config["topics"].split(",")[0].strip()
    with Cluster() as cluster:
        cluster.create_topic(topic)
        for row in rows:
            cluster.produce(topic, row.value, key=row.key, headers=row.headers, timestamp=row.timestamp_ms)
        with _logged(ConnectorTask(cluster, config)) as task:
            task.wait_until_idle(arguments.timeout)
        rejected = _rejected(cluster, config["errors.deadletterqueue.topic.name"])
    for place, reason in rejected:
        print(f"row {place + 1} is rejected: {reason}", file=sys.stderr)
    print(f"rows: {len(rows) - len(rejected)} written, {len(rejected)} rejected", file=sys.stderr)
    return 1 if rejected else 0


def _rejected(cluster: Cluster, topic: str) -> Sequence[tuple[int, str]]:
    """The place of each rejected row, and the reason."""
    from moldau.errors import UnknownTopicOrPartitionError

    try:
        letters = list(cluster.records(topic))
    except UnknownTopicOrPartitionError:
        return ()
    found = []
    for one in letters:
        texts = {name: (value or b"").decode() for name, value in one.headers}
        found.append((int(texts[f"{ERROR_PREFIX}offset"]), texts[f"{ERROR_PREFIX}exception.message"]))
    return sorted(found)


# --- both ---


@contextmanager
def _logged(task: ConnectorTask) -> Iterator[ConnectorTask]:
    """Runs the task. What it wrote on standard error follows at its end."""
    try:
        with task:
            yield task
    finally:
        for line in task.log:
            print(line, file=sys.stderr)
