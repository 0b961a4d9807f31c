"""Decides which patterns of JSON Schemas may run: only those that Python's `re` matches in bounded time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from jsonschema.protocols import Validator
from jsonschema.validators import extend

LONGEST = 1_000
"""The maximum length of a searched text, in characters."""
_SEARCHING = ("pattern", "patternProperties", "additionalProperties", "unevaluatedProperties")
"""Keywords whose validators run patterns of their schema."""
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")
_REPETITION = re.compile(r"[*+?{]")


class SlowPatternError(ValueError):
    """A search for the pattern might take long."""


def check_pattern(pattern: str, text: str) -> None:
    """With at most one repetition, and none of a group, the time of a search grows with the square of the text. Raises
    SlowPatternError for any other pattern, and for a long text."""
    if len(text) > LONGEST:
        raise SlowPatternError(f"a text of {len(text)} characters is not searched for the pattern {pattern!r}")
    plain = _CLASS.sub("x", _ESCAPED.sub("x", pattern))
    repeated = [found.start() for found in _REPETITION.finditer(plain)]
    if len(repeated) > 1 or any(plain[at - 1 : at] == ")" for at in repeated):
        raise SlowPatternError(f"the pattern {pattern!r} may take long: it repeats a group, or more than one thing")


@lru_cache(16)
def with_checked_patterns(validator: type[Validator]) -> type[Validator]:
    """The same validator, but it raises SlowPatternError before it runs such a pattern."""
    searching = {name: _checked(validator.VALIDATORS[name]) for name in _SEARCHING if name in validator.VALIDATORS}
    checked: type[Validator] = extend(validator, searching)
    return checked


def _checked(keyword: Any) -> Any:
    def check(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Any]:
        patterns = [schema["pattern"]] if "pattern" in schema else []
        for pattern in (*patterns, *schema.get("patternProperties", {})):
            for text in _texts(instance):
                check_pattern(pattern, text)
        yield from keyword(validator, value, instance, schema) or ()

    return check


def _texts(instance: Any) -> Iterable[str]:
    """The texts that patterns search."""
    if isinstance(instance, str):
        return (instance,)
    return instance if isinstance(instance, dict) else ()
