"""Where a pipeline's rows may come from: each module here is one kind of source, and is found by being here."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from moldau.products.pipelines.source import Source


def all_sources() -> dict[str, type[Source]]:
    """By each key that asks for the source."""
    modules = [import_module(module.name) for module in iter_modules(__path__, f"{__name__}.")]
    named = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    kinds = [kind for kind in named if issubclass(kind, Source) and kind is not Source]
    return {key: kind for kind in kinds for key in kind.NAMED_BY}
