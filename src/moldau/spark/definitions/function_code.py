"""Collects the code of a flow's function: its text, the functions and classes of the pipeline's modules that it
uses, and the constants.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import msgspec


class Part(msgspec.Struct, frozen=True):
    """`line`: where the text begins in the file."""

    text: str
    file: Path
    line: int


def code_of(function: FunctionType, directory: Path) -> tuple[tuple[Part, ...], dict[str, object]]:
    """The parts of a function's code, the function first, and its constants by their names.
    `directory`: the folder of the pipeline's modules."""
    parts = [function, *_used_by(function, directory, {function})]
    outer = [_outer_names(part, directory) for part in parts if inspect.isfunction(part)]
    constants: dict[str, object] = {
        name: value
        for names in outer
        for name, value in names.items()
        if isinstance(value, str | int | float) and not name.startswith("__")
    }
    return tuple(_part(part) for part in parts), constants


def _part(code: Any) -> Part:
    lines, first = inspect.getsourcelines(code)
    return Part("".join(lines), Path(inspect.getfile(code)), first)


def _used_by(function: FunctionType, directory: Path, seen: set[object]) -> Iterator[Any]:
    """The functions and classes of the pipeline's own modules that it uses by name, directly or indirectly."""
    for value in _outer_names(function, directory).values():
        used = inspect.unwrap(value) if callable(value) else value
        is_code = inspect.isfunction(used) or inspect.isclass(used)
        if is_code and used not in seen and is_below(inspect.getmodule(used), directory):
            seen.add(used)
            yield used
            if inspect.isfunction(used):
                yield from _used_by(used, directory, seen)


def _outer_names(function: FunctionType, directory: Path) -> dict[str, Any]:
    """The values of its names: from its module, from enclosing functions, and from the pipeline's other modules."""
    names = _names(function.__code__)
    found = {name: value for name, value in _visible_from(function).items() if name in names}
    for module in [one for one in found.values() if isinstance(one, ModuleType) and is_below(one, directory)]:
        found |= {name: value for name, value in vars(module).items() if name in names}
    return found


def _visible_from(function: FunctionType) -> dict[str, Any]:
    return {**function.__globals__, **inspect.getclosurevars(function).nonlocals}


def _names(code: CodeType) -> set[str]:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return {*code.co_names, *code.co_freevars, *(name for one in inner for name in _names(one))}


def is_below(module: ModuleType | None, directory: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and directory in Path(file).resolve().parents and "site-packages" not in Path(file).parts
