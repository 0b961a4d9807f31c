"""Whether two answers are the same."""

from __future__ import annotations

import struct
from typing import Any


def normal(answer: dict[str, Any]) -> dict[str, Any]:
    """Errors without their class, and values without what Python or Java does not tell: the width of a number (the
    schema has it), the order of a map without one, and more digits than needed (Float.toString before JDK 19)."""
    return {"error": True} if "error" in answer else {**answer, "value": _value(answer["value"])}


def _value(tagged: Any) -> Any:
    if tagged is None:
        return None
    ((kind, value),) = tagged.items()
    match kind:
        case "int8" | "int16" | "int32" | "int64":
            return "number", str(value)
        case "float" | "double":
            return "number", _number(value)
        case "array":
            return kind, [_value(each) for each in value]
        case "struct":
            return kind, [[name, _value(each)] for name, each in value]
        case "map":
            return kind, sorted(([_value(key), _value(each)] for key, each in value), key=repr)
    return kind, value


def _number(text: str) -> str:
    value = float(text)
    try:
        return repr(struct.unpack(">f", struct.pack(">f", value))[0]) if len(text) < 14 else text
    except OverflowError:
        return text
