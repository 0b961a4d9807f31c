"""Where a pipeline's rows may go: each module here is one kind of target, and is found by being here."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from moldau.products.pipelines.target import Target


def all_targets() -> dict[str, type[Target]]:
    """By the key of `sink` that names the target."""
    modules = [import_module(module.name) for module in iter_modules(__path__, f"{__name__}.")]
    classes = [
        one for module in modules for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__
    ]
    return {one.NAMED_BY: one for one in classes if isinstance(one, type) and issubclass(one, Target)}
