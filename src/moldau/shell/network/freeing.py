"""Frees the memory of a long message bit by bit: freeing 100,000 elements at once takes 20 ms."""

from __future__ import annotations

from typing import Any

import msgspec

from moldau.shell.network.pauses import Pauses
from moldau.wire.protocol.runtime import ELEMENTS_BETWEEN_PAUSES

SHORT_ARRAY_ELEMENTS = 500
"""Freed together with its message, in much less than a millisecond."""


def long_arrays(*held: Any) -> list[list[Any]]:
    """The long arrays in messages and in objects made from them, as lists that keep the elements after the messages are
    freed. Arrays within long ones are freed with their elements."""
    found: list[list[Any]] = []
    for value in held:
        _collect(value, found)
    return found


def _collect(value: Any, found: list[list[Any]]) -> None:
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            _collect(getattr(value, name), found)
    elif isinstance(value, tuple | list | dict):
        elements = value.values() if isinstance(value, dict) else value
        if len(elements) > SHORT_ARRAY_ELEMENTS:
            found.append(list(elements))
            return
        for element in elements:
            _collect(element, found)


async def free(arrays: list[list[Any]], pauses: Pauses) -> None:
    """Call it when nothing else refers to the elements."""
    while arrays:
        array = arrays.pop()
        while array:
            del array[-ELEMENTS_BETWEEN_PAUSES:]
            await pauses.pause()
