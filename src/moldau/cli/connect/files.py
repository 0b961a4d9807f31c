"""Configurations of connectors in files: JSON as the REST interface takes it, or properties."""

from __future__ import annotations

import json
from typing import Any

from moldau.cli.arguments import input_path, settings_in
from moldau.cli.output import CommandError

SUFFIX = ".json"


def read_connector(path: str) -> dict[str, Any]:
    """`{"name", "config"}`, with `initial_state` if the file has it.

    A file whose name ends in .json, and standard input, is JSON: such an object, or a configuration with a name.
    Another file has properties. Raises CommandError."""
    found = _read(path)
    name = found.get("name") or found["config"].get("name")
    if not isinstance(name, str) or not name:
        raise CommandError(f"{path}: the connector has no name")
    return {**found, "name": name}


def read_config(path: str) -> dict[str, str]:
    """The configuration of such a file, which needs no name. Raises CommandError."""
    found = _read(path)
    name = {"name": found["name"]} if "name" in found else {}
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in (found["config"] | name).items()
    }


def _read(path: str) -> dict[str, Any]:
    found = _json(path) if path.endswith(SUFFIX) or path == "-" else {"config": settings_in(path)}
    return found if isinstance(found.get("config"), dict) else {"config": found}


def _json(path: str) -> dict[str, Any]:
    try:
        found = json.loads(input_path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise CommandError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CommandError(f"{path} is no JSON object")
    return found


def read_offsets(path: str) -> dict[str, Any]:
    """`{"offsets": [...]}`. Raises CommandError."""
    found = _json(path)
    if not isinstance(found.get("offsets"), list):
        raise CommandError(f'{path} has no list "offsets"')
    return found
