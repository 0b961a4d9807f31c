"""Answers of the Java program that tests compare with, without Java. Written by `make avro-pairs RECORD=--record`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.avro_pairs.generate import Pair

RECORDED = Path(__file__).parent / "recorded.jsonl"


def is_same(java: dict[str, Any], own: dict[str, Any]) -> bool:
    """A value that a column does not have ("!") is a dead letter of Moldau, as an error is: a time outside of the years
    1 to 9999, a decimal of more digits than its precision, and bytes that are no UTF-8."""
    is_row = "value" in java and '"! ' not in json.dumps(java)
    return java == own if is_row else "error" in own


def record(pairs: Sequence[Pair], answers: Sequence[dict[str, Any]]) -> None:
    """`answers`: of the values of all pairs, in their order."""
    left = iter(answers)
    with RECORDED.open("w", encoding="utf-8") as lines:
        for pair in pairs:
            java = [next(left) for _ in pair.values]
            line = {**pair._asdict(), "values": [value.hex() for value in pair.values], "java": java}
            lines.write(json.dumps(line) + "\n")


def recorded() -> Iterator[tuple[Pair, list[dict[str, Any]]]]:
    """Pairs, and what Java answered of their values."""
    for text in RECORDED.read_text("utf-8").splitlines():
        line = json.loads(text)
        yield Pair(line["writer"], line["reader"], [bytes.fromhex(one) for one in line["values"]]), line["java"]
