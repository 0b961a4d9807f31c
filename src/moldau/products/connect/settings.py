"""The settings of a worker, by Kafka Connect's names (`connect-distributed.properties`)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from moldau.client.protocol.access import API_TIMEOUT, BOOTSTRAP_SERVERS, CLIENT_ID, CONNECT_TIMEOUT, REQUEST_TIMEOUT
from moldau.client.protocol.security import SECURITY_SETTINGS
from moldau.connect.configuration import ConfigError, Importance, Kind, Setting, in_range, not_empty, parse
from moldau.connect.contract.runners import SPARK_PREFIX
from moldau.errors import MoldauError

CONVERTERS = ("key.converter", "value.converter", "header.converter")
CA_LOCATION = "rest.ssl.ca.location"
SHUTDOWN, SPARK_SHUTDOWN = "task.shutdown.graceful.timeout.ms", "moldau.spark.shutdown.timeout.ms"
JSON = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
MOST_SHARES = 1_000
DEFAULT_SHARES = 32

_HIGH, _LOW = Importance.HIGH, Importance.LOW


def _topic(what: str, default: str) -> Setting:
    return Setting(f"{what}.storage.topic", Kind.STRING, default, _HIGH, f"The topic of {what}s.", check=not_empty)


def _replicas(what: str) -> Setting:
    words = f"Replicas of the topic of {what}s; -1 is the broker's default."
    return Setting(f"{what}.storage.replication.factor", Kind.SHORT, 3, _LOW, words, check=in_range(-1, 1000))


SETTINGS = (
    Setting("group.id", Kind.STRING, "connect-cluster", _HIGH, "The group of the workers.", check=not_empty),
    _topic("config", "connect-configs"),
    _topic("offset", "connect-offsets"),
    _topic("status", "connect-status"),
    _replicas("config"),
    _replicas("offset"),
    _replicas("status"),
    Setting("offset.storage.partitions", Kind.INT, 25, _LOW, "Of a new topic of offsets.", check=in_range(1, 1000)),
    Setting("status.storage.partitions", Kind.INT, 5, _LOW, "Of a new topic of statuses.", check=in_range(1, 1000)),
    Setting("key.converter", Kind.CLASS, JSON, _HIGH, "Of connectors that name none."),
    Setting("value.converter", Kind.CLASS, JSON, _HIGH, "Of connectors that name none."),
    Setting("header.converter", Kind.CLASS, SIMPLE, _LOW, "Of connectors that name none."),
    Setting(SHUTDOWN, Kind.LONG, 5_000, _LOW, "Then the task is killed.", check=in_range(0)),
    Setting(
        SPARK_SHUTDOWN,
        Kind.LONG,
        30_000,
        _LOW,
        "The same for tasks with a Spark session, if it is longer.",
        check=in_range(0),
    ),
    Setting("rest.advertised.url", Kind.STRING, "", _LOW, "Where other workers reach this one. Default: its address."),
    Setting(CA_LOCATION, Kind.STRING, "", _LOW, "A PEM file: the authorities of other workers' certificates."),
    Setting(
        "moldau.shares",
        Kind.INT,
        DEFAULT_SHARES,
        _LOW,
        "Partitions of a new topic of shares: no more workers get tasks.",
        check=in_range(1, MOST_SHARES),
    ),
    Setting("moldau.task.nice", Kind.INT, 5, _LOW, "The niceness of task processes.", check=in_range(0, 19)),
    Setting(
        "moldau.task.starts",
        Kind.INT,
        10,
        _LOW,
        "Starts of a task after failures, before it stays FAILED. 0: as in Kafka Connect.",
        check=in_range(0, 1_000),
    ),
)
_NAMES = [setting.name for setting in SETTINGS]
OF_JAVA = (
    "plugin.path",
    "plugin.discovery",
    "offset.flush.interval.ms",
    "offset.flush.timeout.ms",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "rebalance.timeout.ms",
    "scheduled.rebalance.max.delay.ms",
    "connect.protocol",
    "exactly.once.source.support",
    "offset.storage.file.filename",
    "listeners",
)
"""Settings of Java's workers that a file may keep: they have no meaning here, or a flag in their place."""


class WorkerSettingsError(MoldauError):
    """A file of settings that a worker cannot use."""


class WorkerSettings:
    """Typed access to the settings. `converters`: the defaults of connectors, with their own settings.
    `spark`: of the Spark sessions of connectors."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Other names are passed over: they belong to the client. Raises WorkerSettingsError."""
        try:
            self._values = parse(SETTINGS, given)
        except ConfigError as error:
            raise WorkerSettingsError(str(error)) from error
        self.converters = {name: str(self._values[name]) for name in CONVERTERS}
        self.converters |= {
            name: value for name, value in given.items() if name.startswith(tuple(f"{one}." for one in CONVERTERS))
        }
        self.spark = {name: value for name, value in given.items() if name.startswith(SPARK_PREFIX)}

    def text(self, name: str) -> str:
        return str(self._values[name])

    def number(self, name: str) -> int:
        value = self._values[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is no number")
        return value

    def graceful_s(self, *, has_jvm: bool) -> float:
        """How long a task may take to end."""
        found = self.number(SHUTDOWN)
        return (max(found, self.number(SPARK_SHUTDOWN)) if has_jvm else found) / 1000

    def replicas(self, what: str) -> int | None:
        """Of a new topic of `what`: config, offset or status. None: as many as there are brokers, at most 3."""
        found = self.number(f"{what}.storage.replication.factor")
        return None if found == 3 else found


def of_client(given: Mapping[str, str]) -> dict[str, str]:
    """The part of a file of settings that belongs to the client. Raises WorkerSettingsError for a name that is neither
    a setting of a worker nor one of a client."""
    names = {*SECURITY_SETTINGS, BOOTSTRAP_SERVERS, CLIENT_ID, REQUEST_TIMEOUT, API_TIMEOUT, CONNECT_TIMEOUT}
    found = {}
    for name, value in given.items():
        if name in names:
            found[name] = value
        elif name not in _NAMES and name not in OF_JAVA and not name.startswith((*CONVERTERS, SPARK_PREFIX)):
            near = difflib.get_close_matches(name, [*_NAMES, *names], 1)
            raise WorkerSettingsError(f"{name} is no setting of a worker" + (f": {near[0]}?" if near else ""))
    return found
