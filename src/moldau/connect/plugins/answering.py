"""Answers by the name of the question: see `moldau.connect.plugins`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau import __version__
from moldau.connect.configuration import ConfigError
from moldau.connect.contract import describing, finding, shared_settings
from moldau.connect.contract.shared_settings import CLASS
from moldau.connect.plugins import parts
from moldau.connect.plugins.validating import definition, validate

Answer = dict[str, object]


class RequestError(ValueError):
    """A question that this process does not know."""


def answer(request: object) -> Answer:
    """Raises RequestError."""
    if not isinstance(request, dict):
        raise RequestError(f"expected an object, got {type(request).__name__}")
    function = _ANSWERS.get(str(request.get("do")))
    if function is None:
        raise RequestError(f"do is {request.get('do')!r}, expected one of {', '.join(_ANSWERS)}")
    try:
        return function(request)
    except KeyError as error:
        raise RequestError(f"the request lacks {error}") from None
    except ConfigError as error:
        return {"errors": {name: list(sentences) for name, sentences in error.errors.items()}}


def list_plugins(_request: Mapping[str, Any]) -> Answer:
    plugins: list[Answer] = []
    broken: dict[str, str] = {}
    for name in finding.installed():
        try:
            found = describing.describe(finding.find(name))
        except ConfigError as error:
            broken[name] = str(error)
            continue
        plugins += [{"class": name, "type": one, "version": found.version} for one in found.types]
    plugins += [
        {"class": name, "type": one, "version": __version__} for name, types in parts.known().items() for one in types
    ]
    return {"plugins": plugins, "broken": broken}


def describe(request: Mapping[str, Any]) -> Answer:
    name = request["class"]
    part = parts.find(name)
    if part is not None:
        settings = [definition(one) for one in part.settings]
        return {"class": name, "types": list(part.types), "version": __version__, "settings": settings}
    found = describing.describe(finding.find(name))
    own = found.settings or ()
    shared = shared_settings.shared(found.reading is not None, found.is_sink, own)
    settings = [definition(one) for one in (*own, *shared)]
    return {
        "class": name,
        "reference": found.reference,
        "types": list(found.types),
        "version": found.version,
        "source_delivery": found.source_delivery,
        "sink_delivery": found.sink_delivery,
        "reading": found.reading,
        "key_columns": list(found.key_columns),
        "row_columns": found.row_columns,
        "has_split": found.has_split,
        "settings": settings,
    }


def split(request: Mapping[str, Any]) -> Answer:
    config = request["config"]
    found = finding.find(config.get(CLASS, ""))
    description = describing.describe(found)
    is_sink = describing.is_sink_config(description, config)
    try:
        configs = describing.split(found, config, int(request["tasks"]))
    except ConfigError:
        raise
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        raise ConfigError({CLASS: (f"{description.reference}.split failed: {error!r}",)}) from error
    return {
        "configs": configs,
        "type": "sink" if is_sink else "source",
        "delivery": description.sink_delivery if is_sink else description.source_delivery,
    }


_ANSWERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Answer]]] = {
    "list": list_plugins,
    "describe": describe,
    "validate": lambda request: validate(request["config"], request.get("defaults", {})),
    "split": split,
}
