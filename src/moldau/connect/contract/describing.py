"""What a connector's class can do, from the methods and attributes that it has."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from typing import Any, Final

from pyspark.sql.datasource import DataSource

from moldau.connect.configuration import ConfigError, Setting
from moldau.connect.contract.bounds import MAX_TASKS
from moldau.connect.contract.runners import RUNNER, SPARK

UNKNOWN_VERSION: Final = "undefined"


class Delivery(StrEnum):
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class RowColumns(StrEnum):
    """The rows of a sink: see `contract.columns`."""

    RECORD = "record"
    VALUE = "value"


class Reading(StrEnum):
    """The reader of a source. A class that has several is read by the first of this order."""

    STREAM = "streamReader"
    SIMPLE = "simpleStreamReader"
    BATCH = "reader"


@dataclass(frozen=True, slots=True)
class Description:
    """`reference`: the class as `module:Class`. `reading` None: no source. `key_columns`: of a source."""

    name: str
    reference: str
    version: str
    reading: Reading | None
    is_sink: bool
    source_delivery: Delivery
    sink_delivery: Delivery
    settings: tuple[Setting, ...] | None
    key_columns: tuple[str, ...]
    row_columns: RowColumns
    has_split: bool

    @property
    def types(self) -> tuple[str, ...]:
        """In the words of Kafka Connect."""
        return ("source",) * (self.reading is not None) + ("sink",) * self.is_sink


def describe(found: type[DataSource]) -> Description:
    """Raises ConfigError for a class that is neither a source nor a sink of streams, or has an attribute of ours with a
    wrong value."""
    reading = next((one for one in Reading if overrides(found, one)), None)
    is_sink = overrides(found, "streamWriter")
    reference = f"{found.__module__}:{found.__qualname__}"
    if reading is None and not is_sink:
        only = " (writer is for one batch)" if overrides(found, "writer") else ""
        raise _rejected(f"{reference} has none of streamReader, simpleStreamReader, reader, streamWriter{only}")
    stated = getattr(found, "delivery", None)
    if stated not in (None, *Delivery):
        raise _rejected(f"{reference}.delivery is {stated!r}, expected one of {', '.join(Delivery)}")
    row_columns = getattr(found, "row_columns", RowColumns.RECORD)
    if row_columns not in tuple(RowColumns):
        raise _rejected(f"{reference}.row_columns is {row_columns!r}, expected one of {', '.join(RowColumns)}")
    settings = getattr(found, "settings", None)
    if settings is not None and not all(isinstance(one, Setting) for one in settings):
        raise _rejected(f"{reference}.settings has something else than a Setting of moldau.connect.configuration")
    return Description(
        name=found.name(),
        reference=reference,
        version=str(getattr(found, "version", None) or _distribution_version(found)),
        reading=reading,
        is_sink=is_sink,
        source_delivery=Delivery(stated or Delivery.EXACTLY_ONCE),
        sink_delivery=Delivery(stated or Delivery.AT_LEAST_ONCE),
        settings=None if settings is None else tuple(settings),
        key_columns=_texts(getattr(found, "key_columns", ())),
        row_columns=RowColumns(row_columns),
        has_split=callable(getattr(found, "split", None)),
    )


def is_sink_config(description: Description, config: Mapping[str, str]) -> bool:
    """Whether a configuration runs the class as a sink. A class that is both is a sink if the configuration names the
    topics to read."""
    if description.reading is None:
        return True
    return description.is_sink and ("topics" in config or "topics.regex" in config)


def chosen_reading(found: type[DataSource], chosen: str | None) -> Reading:
    """The reader of a source: `chosen`, or the first that the class has. Raises ConfigError."""
    readings = [one for one in Reading if overrides(found, one)]
    if not readings or (chosen is not None and chosen not in readings):
        has = ", ".join(readings) or "none"
        raise ConfigError({"row.reader": (f"{found.__qualname__} has no {chosen or 'reader'}, its readers: {has}",)})
    return readings[0] if chosen is None else Reading(chosen)


def split(found: type[DataSource], config: Mapping[str, str], tasks: int) -> list[dict[str, str]]:
    """The configurations of the tasks, at most `tasks`; one on Spark, which splits the work itself. Raises
    ConfigError."""
    if not 1 <= tasks <= MAX_TASKS:
        raise ConfigError({"tasks.max": (f"tasks.max is {tasks}, expected 1 to {MAX_TASKS}",)})
    if config.get(RUNNER) == SPARK:
        tasks = 1
    description = describe(found)
    if is_sink_config(description, config):
        return [dict(config) for _ in range(tasks)]
    function: Any = getattr(found, "split", None)
    if not callable(function):
        return [dict(config)]
    made = function(dict(config), tasks)
    if not isinstance(made, Sequence) or not 1 <= len(made) <= tasks:
        size = len(made) if isinstance(made, Sequence) else type(made).__name__
        raise _rejected(f"{description.reference}.split gives {size} configurations, expected a list of 1 to {tasks}")
    return [{str(name): str(value) for name, value in one.items()} for one in made]


def overrides(found: type[DataSource], method: str) -> bool:
    """Whether the class has this method of the API."""
    return getattr(found, method, None) is not getattr(DataSource, method, None)


def _texts(found: object) -> tuple[str, ...]:
    """Nothing for a property: only an object of the class has its value."""
    return tuple(str(one) for one in found) if isinstance(found, list | tuple) else ()


def _rejected(sentence: str) -> ConfigError:
    return ConfigError({"connector.class": (sentence,)})


def _distribution_version(found: type[DataSource]) -> str:
    package = found.__module__.partition(".")[0]
    text = getattr(sys.modules.get(package), "__version__", None)
    if text is not None:
        return str(text)
    try:
        return metadata.version(package)
    except (metadata.PackageNotFoundError, ValueError):
        return UNKNOWN_VERSION
