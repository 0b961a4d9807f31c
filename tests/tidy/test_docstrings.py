"""Every public function and method has a description.

A method may have it elsewhere: at the method of a base class or a Protocol that it implements, or, for a one-line
property, in the docstring of its class.
"""

from __future__ import annotations

import ast
import asyncio
import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.source_tree import MODULES, SOURCE, found_in, nodes_of, tree_of

PLACES = ("core", "shell", "client", "columnar", "testing", "wire", "ports.py", "telemetry.py")
DOCUMENTED = [path for path in MODULES if path.relative_to(SOURCE).parts[0] in PLACES]
CLASSES_OF_PYTHON: dict[str, type] = {
    "asyncio.BufferedProtocol": asyncio.BufferedProtocol,
    "asyncio.Protocol": asyncio.Protocol,
    "asyncio.SelectorEventLoop": asyncio.SelectorEventLoop,
    "logging.Formatter": logging.Formatter,
}
"""Base classes whose methods Python's own documentation describes."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Class(NamedTuple):
    """A class, and the module that resolves the names of its bases."""

    path: Path
    node: ast.ClassDef

    @property
    def base_names(self) -> list[str]:
        """Without their type arguments."""
        return [ast.unparse(base).partition("[")[0] for base in self.node.bases]

    def methods(self) -> dict[str, Function]:
        """Its own methods by name; of overloads the last one, which has the body."""
        return {node.name: node for node in self.node.body if isinstance(node, Function)}


@cache
def classes_of(path: Path) -> dict[str, Class]:
    return {node.name: Class(path, node) for node in nodes_of(path) if isinstance(node, ast.ClassDef)}


@cache
def imported_into(path: Path) -> dict[str, tuple[Path, str]]:
    """The names that a module imports from our modules: the file, and the name there."""
    found = {}
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("moldau."):
            place = SOURCE.parent.joinpath(*str(node.module).split("."))
            module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            found |= {alias.asname or alias.name: (module, alias.name) for alias in node.names}
    return found


def class_named(path: Path, name: str) -> Class | None:
    """The class that a name refers to in a module; None: no class of ours."""
    if name in classes_of(path):
        return classes_of(path)[name]
    return class_named(*imported_into(path)[name]) if name in imported_into(path) else None


def bases_of(own: Class) -> Iterator[Class]:
    """Our base classes, and their base classes."""
    for name in own.base_names:
        base = class_named(own.path, name)
        if base is not None:
            yield base
            yield from bases_of(base)


PROTOCOLS = [own for path in MODULES for own in classes_of(path).values() if "Protocol" in own.base_names]


def argument_names(method: Function) -> list[str]:
    arguments = method.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def protocols_of(own: Class) -> Iterator[Class]:
    """The Protocols that a class implements without naming them: it has all their methods, with the same arguments. A
    Protocol of one method counts only if it is named: `close` alone does not make a Listener."""
    methods = {name: method for base in (*bases_of(own), own) for name, method in base.methods().items()}
    for protocol in PROTOCOLS:
        wanted = {name: argument_names(method) for name, method in protocol.methods().items()}
        has_all = all(name in methods and argument_names(methods[name]) == wanted[name] for name in wanted)
        if len(wanted) > 1 and has_all:
            yield protocol


def is_said_above(own: Class, name: str) -> bool:
    """Whether a base class or a Protocol describes the method."""
    if any(hasattr(CLASSES_OF_PYTHON.get(base), name) for base in own.base_names):
        return True
    declared = (above.methods().get(name) for above in (*bases_of(own), *protocols_of(own)) if above != own)
    return any(method is not None and ast.get_docstring(method) for method in declared)


def is_said_by_its_class(own: Class, method: Function) -> bool:
    """Whether it is a one-line property that the docstring of the class names."""
    is_short_property = [*map(ast.unparse, method.decorator_list)] == ["property"] and len(method.body) == 1
    return is_short_property and f"`{method.name}`" in (ast.get_docstring(own.node) or "")


def is_silent(node: Function) -> bool:
    return not node.name.startswith("_") and not ast.get_docstring(node)


def silent_functions(path: Path) -> list[str]:
    """Functions of the module, and methods of its public classes, without a description anywhere."""
    functions = [node.name for node in tree_of(path).body if isinstance(node, Function) and is_silent(node)]
    return functions + [
        f"{own.node.name}.{name}"
        for own in classes_of(path).values()
        if not own.node.name.startswith("_")
        for name, method in own.methods().items()
        if is_silent(method) and not is_said_by_its_class(own, method) and not is_said_above(own, name)
    ]


def test_what_others_may_call_says_what_it_does() -> None:
    assert found_in(DOCUMENTED, silent_functions) == {}
