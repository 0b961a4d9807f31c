"""Recorded answers of the Java program, for tests without Java. `make avro-pairs RECORD=--record` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.avro_pairs.generate import Pair

RECORDED = Path(__file__).parent / "recorded.jsonl"


def is_same(java: dict[str, Any], own: dict[str, Any]) -> bool:
    """An error or a value that a column cannot hold ("!") is a dead letter of Moldau: a time outside of the years 1 to
    9999, a decimal with more digits than its precision, and invalid UTF-8."""
    is_row = "value" in java and '"! ' not in json.dumps(java)
    return java == own if is_row else "error" in own


def record(pairs: Sequence[Pair], answers: Sequence[dict[str, Any]]) -> None:
    """`answers`: for the values of all pairs, in their order."""
    left = iter(answers)
    with RECORDED.open("w", encoding="utf-8") as lines:
        for pair in pairs:
            java = [next(left) for _ in pair.values]
            line = {**pair._asdict(), "values": [value.hex() for value in pair.values], "java": java}
            lines.write(json.dumps(line) + "\n")


def recorded() -> Iterator[tuple[Pair, list[dict[str, Any]]]]:
    """Pairs, and Java's answers for their values."""
    for text in RECORDED.read_text("utf-8").splitlines():
        line = json.loads(text)
        yield Pair(line["writer"], line["reader"], [bytes.fromhex(one) for one in line["values"]]), line["java"]
