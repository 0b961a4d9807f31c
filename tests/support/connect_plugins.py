"""A program that answers a worker's question about plugins, as `moldau.connect.plugins` does; it needs no pyspark."""

from __future__ import annotations

import json
import sys
from typing import Any

SOURCE, SINK = "FileStreamSource", "FileStreamSink"
KINDS = {SOURCE: "source", SINK: "sink"}
SETTINGS: dict[str, list[tuple[str, str, bool, str | None]]] = {
    SOURCE: [("file", "STRING", False, None), ("topic", "STRING", True, None), ("batch.size", "INT", False, "2000")],
    SINK: [("file", "STRING", False, None), ("topics", "LIST", False, ""), ("topics.regex", "STRING", False, "")],
}
COMMON: list[tuple[str, str, bool, str | None]] = [
    ("name", "STRING", True, None),
    ("connector.class", "STRING", True, None),
    ("tasks.max", "INT", False, "1"),
]


def definition(name: str, kind: str, required: bool, default: str | None) -> dict[str, Any]:
    words = {"importance": "HIGH", "documentation": "", "group": None, "width": "NONE", "display_name": name}
    return {"name": name, "type": kind, "required": required, "default_value": default, **words, "dependents": []}


def errors_of(name: str, kind: str, required: bool, config: dict[str, str | None]) -> list[str]:
    value = config.get(name)
    if required and value is None:
        return [f'Missing required configuration "{name}" which has no default value.']
    if kind == "INT" and value is not None and not value.isdigit():
        unset = f"Invalid value null for configuration {name}: Value must be non-null"
        return [f"Invalid value {value} for configuration {name}: Not a number of type INT", unset]
    if name == "tasks.max" and value == "0":
        return ["Invalid value 0 for configuration tasks.max: Value must be at least 1"]
    if name == "name" and value == "":
        return ["Invalid value  for configuration name: String may not be empty"]
    if name in ("topics", "topics.regex"):
        both = [bool(config.get(one)) for one in ("topics", "topics.regex")]
        if not any(both):
            return ["Must configure one of topics or topics.regex"]
        if all(both):
            return ["topics and topics.regex are mutually exclusive options, but both are set."]
    return []


def validated(config: dict[str, str | None]) -> dict[str, Any]:
    name = config.get("connector.class") or ""
    found = []
    for setting in [*COMMON, *SETTINGS.get(name, [])]:
        errors = errors_of(*setting[:3], config)
        if setting[0] == "connector.class" and name not in KINDS:
            errors = [f"Failed to find any class that implements Connector and which name matches {name}"]
        value = {"name": setting[0], "value": config.get(setting[0], setting[3]), "recommended_values": []}
        found.append({"definition": definition(*setting), "value": {**value, "errors": errors, "visible": True}})
    count = sum(len(one["value"]["errors"]) for one in found)
    return {"name": name, "error_count": count, "groups": [], "configs": found}


def answered(question: dict[str, Any]) -> dict[str, Any]:
    match question["do"]:
        case "list":
            return {"plugins": [{"class": name, "type": kind, "version": "1"} for name, kind in KINDS.items()]}
        case "describe":
            name = question["class"]
            if name not in KINDS:
                return {"errors": {"connector.class": [f"{name} is not installed"]}}
            settings = [definition(*one) for one in SETTINGS[name]]
            return {"class": name, "types": [KINDS[name]], "version": "1", "settings": settings}
        case "validate":
            return validated(question["config"])
        case _:
            config = question["config"]
            if config.get("split"):
                return {"errors": {"split": [config["split"]]}}
            tasks = 1 if config["connector.class"] == SOURCE and "slots" not in config else question["tasks"]
            return {"configs": [config] * tasks, "type": KINDS[config["connector.class"]]}


if __name__ == "__main__":
    print(json.dumps(answered(json.loads(sys.stdin.readline()))))
