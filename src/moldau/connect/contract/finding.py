"""Finds a connector's class: by the name of an entry point of the group `moldau.connectors`, or as `module:Class`.

Kafka's name of a class is its package, a name, and the word Connector. The last part alone, with or without that word,
finds an entry point too: `org.apache.kafka.connect.file.FileStreamSourceConnector` is the entry point FileStreamSource.
"""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from pyspark.sql.datasource import DataSource

from moldau.connect.configuration import ConfigError
from moldau.extras import MissingExtraError

GROUP: Final = "moldau.connectors"
_SUFFIX: Final = "Connector"


def installed() -> dict[str, EntryPoint]:
    """The entry points of connectors by name, in the order of names. Imports no connector."""
    found = {one.name: one for one in entry_points(group=GROUP)}
    return {name: found[name] for name in sorted(found)}


def find(name: str) -> type[DataSource]:
    """Imports the class. Raises ConfigError, with the nearest name, or with the command that installs what the module
    needs."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        return _load(name, EntryPoint(name, f"{module}:{attribute}", GROUP))
    known = installed()
    for one in names_of(name):
        if one in known:
            return _load(name, known[one])
    near = difflib.get_close_matches(name, known, 1)
    hint = f", did you mean {near[0]}" if near else f": installed are {', '.join(known) or 'none'}"
    raise _rejected(f"No connector has the name {name}{hint}. A class of your own is written as module:Class")


def names_of(name: str) -> list[str]:
    """The names of entry points that a name of Kafka's may mean, the nearest first."""
    last = name.rpartition(".")[2]
    return list(dict.fromkeys([name, last, last.removesuffix(_SUFFIX)]))


def _load(name: str, found: EntryPoint) -> type[DataSource]:
    try:
        loaded = importlib.import_module(found.module)
    except MissingExtraError as error:
        raise _rejected(f"Connector {name}: {error}") from error
    except ModuleNotFoundError as error:
        raise _rejected(_missing(name, found, error)) from error
    except Exception as error:
        raise _rejected(f"Connector {name}: {found.module} cannot be imported: {error!r}") from error
    made = getattr(loaded, found.attr, None)
    if made is None:
        names = [key for key, one in vars(loaded).items() if _is_connector(one)]
        near = difflib.get_close_matches(found.attr, names, 1)
        hint = f", did you mean {near[0]}?" if near else f": it has {', '.join(names) or 'no connector'}"
        raise _rejected(f"Connector {name}: {found.module} has no {found.attr}{hint}")
    if not _is_connector(made):
        raise _rejected(f"Connector {name}: {found.attr} is not a subclass of pyspark.sql.datasource.DataSource")
    return made  # type: ignore[no-any-return]


def _is_connector(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, DataSource) and value is not DataSource


def _missing(name: str, found: EntryPoint, error: ModuleNotFoundError) -> str:
    absent = error.name or ""
    if found.module == absent or found.module.startswith(f"{absent}."):
        return f"Connector {name}: no module {absent} is on the worker's PYTHONPATH"
    if found.dist is not None and found.extras:
        extra = ",".join(found.extras)
        if found.dist.name == "moldau":
            return f"Connector {name} needs {absent}: pip install '.[{extra}]' from a clone of Moldau"
        return f"Connector {name} needs {absent}: pip install '{found.dist.name}[{extra}]'"
    return f"Connector {name} needs the module {absent}, which is not installed"


def _rejected(sentence: str) -> ConfigError:
    return ConfigError({"connector.class": (sentence,)})
