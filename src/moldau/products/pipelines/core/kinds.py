"""Finds the kinds of sources and targets: each is a class in a module of its package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import iter_modules


def kinds_in(package: str, path: Iterable[str]) -> Iterator[type]:
    """The classes with `NAMED_BY`, the keys that select them, in the modules of a package. A class that does not define
    `NAMED_BY` itself is a shared base, or one form of a kind. `path`: the package's `__path__`."""
    for found in iter_modules(path, f"{package}."):
        for one in vars(import_module(found.name)).values():
            if isinstance(one, type) and one.__module__ == found.name and "NAMED_BY" in vars(one):
                yield one
