"""Answers of the Java program that tests compare with, without Java. Written by `make avro-pairs RECORD=--record`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded.jsonl"


def is_same(java: dict[str, Any], own: dict[str, Any]) -> bool:
    """A value that a column does not have ("!") is a dead letter of Moldau, as an error is: a time outside of the years
    1 to 9999, a decimal of more digits than its precision, and bytes that are no UTF-8."""
    is_row = "value" in java and '"! ' not in json.dumps(java)
    return java == own if is_row else "error" in own


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
