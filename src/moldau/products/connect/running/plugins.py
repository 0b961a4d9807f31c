"""Asks `moldau.connect.plugins` about connectors: one process for each question, so that the worker never imports a
connector's code."""

from __future__ import annotations

import math
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from moldau.products.connect.core import refusals
from moldau.products.connect.core.configs import Config
from moldau.products.connect.running.references import has_reference, resolved

ANSWER_S = 60.0
"""For one question: a class may import a lot."""
MOST_AT_ONCE = 2
KNOWN_FOR_S = 30.0
"""How long the list of plugins is remembered."""
MOST_KNOWN = 1_000
CONNECTORS = ("source", "sink")
UNKNOWN = "unknown"

Answer = dict[str, Any]


class PluginError(refusals.Refusal):
    """The process did not answer."""


class Kind(msgspec.Struct, frozen=True):
    """What a class is. `types`: source, sink or both. `deliveries`: of a source and of a sink."""

    types: tuple[str, ...] = ()
    version: str | None = None
    deliveries: Mapping[str, str | None] = {}

    def of(self, config: Config) -> str:
        """source, sink or unknown: a class that is both is a sink where the connector reads topics."""
        if len(self.types) == 2:
            return "sink" if config.get("topics") or config.get("topics.regex") else "source"
        return self.types[0] if self.types else UNKNOWN


class Plugins:
    """Thread-safe."""

    def __init__(self, command: Sequence[str], defaults: Mapping[str, str]) -> None:
        """`defaults`: those of this worker for connectors."""
        self._command = tuple(command)
        self._defaults = dict(defaults)
        self._turns = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._kinds: dict[str, tuple[Kind, float]] = {}
        """By class, each with the time until which it counts."""
        self._listed: list[Answer] = []
        self._listed_s: float | None = None

    def listed(self) -> list[Answer]:
        """Each plugin with its class, type and version. Raises Refusal."""
        if self._listed_s is None or time.monotonic() - self._listed_s >= KNOWN_FOR_S:
            self._listed = self._ask({"do": "list"})["plugins"]
            self._listed_s = time.monotonic()
        return self._listed

    def kind_of(self, config: Config) -> str:
        """source, sink or unknown."""
        return self._kind(config.get("connector.class", "")).of(config)

    def delivery_of(self, config: Config) -> str | None:
        """exactly-once or at-least-once, as the class says; None for an unknown class."""
        kind = self._kind(config.get("connector.class", ""))
        return kind.deliveries.get(kind.of(config))

    def version_of(self, config: Config) -> str | None:
        return self._kind(config.get("connector.class", "")).version

    def settings_of(self, name: str) -> list[Answer]:
        """The definitions of a plugin's settings. Raises Refusal."""
        found = self._ask({"do": "describe", "class": name})
        if "errors" in found:
            raise refusals.Refusal(404, f"Unknown plugin {name}.")
        return [_definition(one) for one in found["settings"]]

    def validate(self, config: Mapping[str, str | None]) -> Answer:
        """Kafka Connect's answer of a validation; values of references are not in it. Raises Refusal, and KafkaError
        for a reference that cannot be read."""
        given = {name: text for name, text in config.items() if text is not None}
        values = resolved(given)
        found = self._ask({"do": "validate", "config": {**config, **values}, "defaults": self._defaults})
        if "errors" in found:
            raise refusals.bad_request(_sentences(found["errors"]))
        secrets = {name: (values[name], text) for name, text in given.items() if has_reference(text)}
        return {**found, "configs": [_shown(one, secrets) for one in found["configs"]]}

    def split(self, config: Config, tasks: int) -> list[dict[str, str]]:
        """The configuration of each task. Raises Refusal."""
        found = self._ask({"do": "split", "config": config, "tasks": tasks})
        if "errors" in found:
            raise refusals.bad_request(_sentences(found["errors"]))
        return list(found["configs"])

    def pipeline_offsets(self, config: Config, servers: str) -> list[Answer]:
        """Of a connector that is a pipeline. `servers`: the cluster of one that names none. Raises Refusal."""
        found = self._ask({"do": "offsets", "config": config, "servers": servers})
        if "errors" in found:
            raise refusals.bad_request(_sentences(found["errors"]))
        return list(found["offsets"])

    def _kind(self, name: str) -> Kind:
        known, until_s = self._kinds.get(name, (Kind(), 0.0))
        if time.monotonic() >= until_s:
            if len(self._kinds) >= MOST_KNOWN:
                self._kinds.clear()
            known = self._described(name)
            # the type of a class does not change; one that is missing may be installed
            self._kinds[name] = known, math.inf if known.types else time.monotonic() + KNOWN_FOR_S
        return known

    def _described(self, name: str) -> Kind:
        try:
            found = self._ask({"do": "describe", "class": name})
        except PluginError:
            return Kind()
        types = tuple(one for one in found.get("types", ()) if one in CONNECTORS)
        deliveries = {one: found.get(f"{one}_delivery") for one in CONNECTORS}
        return Kind(types, found.get("version"), deliveries)

    def _ask(self, question: Answer) -> Answer:
        """Raises PluginError."""
        with self._turns:
            try:
                done = subprocess.run(
                    self._command,
                    input=msgspec.json.encode(question) + b"\n",
                    capture_output=True,
                    timeout=ANSWER_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise PluginError(500, f"The plugins did not answer within {ANSWER_S:.0f} s") from None
            except OSError as error:
                raise PluginError(500, f"The process of the plugins does not start: {error.strerror}") from error
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise PluginError(500, f"The process of the plugins failed: {last}")
        found: Answer = msgspec.json.decode(done.stdout, type=dict[str, Any])
        return found


def _definition(given: Answer) -> Answer:
    """ConfigDef's fields with their names in the REST interface, in its order."""
    names = ("name", "type", "required", "default_value", "importance", "documentation", "group")
    return {
        **{name: given[name] for name in names},
        "order_in_group": given.get("order", -1),
        "width": given["width"],
        "display_name": given["display_name"],
        "dependents": given["dependents"],
    }


def _shown(found: Answer, secrets: Mapping[str, tuple[str, str]]) -> Answer:
    """`secrets`: by setting, the value and the reference that stands for it."""
    value = found["value"]
    if value["name"] in secrets:
        secret, reference = secrets[value["name"]]
        errors = [sentence.replace(secret, reference) if secret else sentence for sentence in value["errors"]]
        value = {**value, "value": reference, "errors": errors}
    return {"definition": _definition(found["definition"]), "value": value}


def _sentences(errors: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(sentence for found in errors.values() for sentence in found)
