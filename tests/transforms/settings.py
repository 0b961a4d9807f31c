"""The settings of transforms and predicates, as rows that can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.connect.configuration import Setting, as_text
from moldau.connect.transforming.named import PREDICATES, TRANSFORMS

Row = list[Any]


def kafka_names() -> list[str]:
    """Without the package."""
    return [*TRANSFORMS, *(f"predicates.{name}" for name in PREDICATES)]


def described(told: dict[str, Any]) -> list[Row]:
    """Rows of the Java program's answer, by name."""
    fields = ("name", "kind", "required", "default", "importance", "group", "order", "width")
    return sorted([one[field] for field in fields] for one in told["settings"])


def own(settings: Sequence[Setting]) -> list[Row]:
    return sorted(
        [
            one.name,
            one.kind.value,
            one.is_required,
            None if one.is_required else as_text(one.kind, one.default),
            one.importance.value,
            one.group,
            one.order,
            one.width,
        ]
        for one in settings
    )
