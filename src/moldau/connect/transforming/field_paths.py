"""The path of a field: a name (V1), or names with dots for nested fields (`field.syntax.version=V2`, KIP-821).

In V2 a name with a dot stands in backticks: `` `a.b`.c ``. A backslash keeps a backtick that would end the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.connect.converting.converter import DataError
from moldau.connect.data.schema import Field, Schema
from moldau.connect.transforming.parts import as_map, read


class PathError(ValueError):
    """A path with a backtick that has no second one."""


@dataclass(frozen=True, slots=True)
class FieldPath:
    text: str
    steps: tuple[str, ...]

    def field_in(self, schema: Schema) -> Field | None:
        """The field with its schema; None where a step is missing or has no fields."""
        field: Field | None = None
        for step in self.steps:
            if field is not None:
                schema = field.schema
            field = schema.get_field(step)
            if field is None:
                return None
        return field

    def value_in_map(self, value: Mapping[object, object]) -> object:
        """None where a step is missing. Raises DataError if a step before the last is no map."""
        if not self.steps:
            raise DataError("The path of a field is empty")
        found: object = value
        for step in self.steps:
            if found is None:
                return None
            found = as_map(found, "field path lookup").get(step)
        return found

    def value_in_struct(self, schema: Schema, struct: Mapping[str, object], fills_nulls: bool) -> object:
        found: object = struct
        for step in self.steps:
            field = schema.get_field(step)
            if found is None:
                return None
            if field is None or not isinstance(found, Mapping):
                raise DataError(f"{step} is not a valid field name")
            found, schema = read(found, field, fills_nulls), field.schema
        return found


def field_path(text: str, version: str) -> FieldPath:
    """`version`: V1 or V2. Raises PathError."""
    if version.upper() == "V1":
        return FieldPath(text, (text,))
    return FieldPath(text, tuple(_steps(text)) if text else ())


def _steps(text: str) -> list[str]:
    steps, rest = [], text
    while True:
        if rest.startswith("`"):
            step, rest, is_last = _quoted(text, rest[1:])
        else:
            step, dot, rest = rest.partition(".")
            is_last = not dot
        steps.append(step)
        if is_last:
            return steps


def _quoted(text: str, rest: str) -> tuple[str, str, bool]:
    """The name up to its closing backtick, what follows, and whether nothing follows."""
    start = 0
    while True:
        end = rest.find("`", start)
        if end < 0:
            raise PathError(f"Incomplete backtick pair in path: [{text}]")
        is_last = end == len(rest) - 1
        if (is_last or rest[end + 1] == ".") and not rest[:end].endswith("\\"):
            return rest[:end].replace("\\`", "`"), rest[end + 2 :], is_last
        start = end + 1
