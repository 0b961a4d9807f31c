"""All error codes in a response, for metrics and for retries of clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

import msgspec

_Step = tuple[str, bool, "_Finder"]


class _Finder:
    """The places of error codes in one message class. `steps`: (field, whether it is an array, class inside)."""

    __slots__ = ("has_code", "steps")

    def __init__(self, message: type[msgspec.Struct]) -> None:
        self.has_code = False
        self.steps: list[_Step] = []
        for field in msgspec.structs.fields(message):
            inner = _struct_inside(field.type)
            if field.name == "error_code":
                self.has_code = True
            elif inner is not None:
                finder = _finder(inner)
                if finder.has_code or finder.steps:
                    self.steps.append((field.name, _is_array(field.type), finder))

    def collect(self, message: Any, codes: list[int]) -> None:
        if self.has_code:
            codes.append(message.error_code)
        for name, is_array, finder in self.steps:
            value = getattr(message, name)
            if value is None:
                continue
            for item in value if is_array else (value,):
                finder.collect(item, codes)

    def each(self, message: Any) -> Iterator[int]:
        if self.has_code:
            yield message.error_code
        for name, is_array, finder in self.steps:
            value = getattr(message, name)
            for item in () if value is None else value if is_array else (value,):
                if finder.steps:
                    yield from finder.each(item)
                else:
                    yield item.error_code


_finders: dict[type[msgspec.Struct], _Finder] = {}


def error_codes(response: msgspec.Struct) -> list[int]:
    """All error codes in `response`, as Kafka counts them. A response without such a field counts as one NONE."""
    codes: list[int] = []
    _finder(type(response)).collect(response, codes)
    return codes or [0]


def each_error_code(response: msgspec.Struct) -> Iterator[int]:
    """As `error_codes`, as an iterator for long responses."""
    is_any = False
    for code in _finder(type(response)).each(response):
        is_any = True
        yield code
    if not is_any:
        yield 0


def _finder(message: type[msgspec.Struct]) -> _Finder:
    finder = _finders.get(message)
    if finder is None:
        finder = _finders[message] = _Finder(message)
    return finder


def _struct_inside(annotation: Any) -> type[msgspec.Struct] | None:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    for argument in get_args(annotation):
        inner = _struct_inside(argument)
        if inner is not None:
            return inner
    return None


def _is_array(annotation: Any) -> bool:
    if get_origin(annotation) is tuple:
        return True
    return any(_is_array(argument) for argument in get_args(annotation))
