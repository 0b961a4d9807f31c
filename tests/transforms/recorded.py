"""Kafka's answers as recorded, for tests without Java: a short digest of each record, and the settings.

`python -m tests.transforms --record` writes the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.transforms.comparing import CONFIG_ERROR, ERROR
from tests.transforms.corpus import Case

RECORDED = Path(__file__).parent / "recorded.json"
DIGITS = 10


def digest(answer: Any) -> Any:
    """Of one record. A boolean, a null and an error stay as they are."""
    if answer is None or isinstance(answer, bool) or answer == ERROR:
        return answer if answer != ERROR else "error"
    return hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()[:DIGITS]


def digests(answer: dict[str, Any]) -> Any:
    return "error" if answer == CONFIG_ERROR else [digest(one) for one in answer["answers"]]


def record(cases: Sequence[Case], answers: Sequence[dict[str, Any]], settings: dict[str, Any]) -> None:
    rows = [[case.type, case.config, digests(answer)] for case, answer in zip(cases, answers, strict=True)]
    parts = [f"{json.dumps(name)}: {json.dumps(settings[name])}" for name in settings]
    lines = ",\n".join(json.dumps(row) for row in rows)
    told = ",\n".join(parts)
    RECORDED.write_text(f'{{"settings": {{\n{told}\n}}, "cases": [\n{lines}\n]}}\n', "utf-8")


def recorded() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))
    return read
