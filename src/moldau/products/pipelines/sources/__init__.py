"""Where a pipeline's rows may come from: each module here is one kind of source, and is found by being here."""

from __future__ import annotations

from moldau.products.pipelines.core.kinds import kinds_in
from moldau.products.pipelines.sources.source import Source


def all_sources() -> dict[str, type[Source]]:
    """By each key that asks for the source."""
    kinds = [kind for kind in kinds_in(__name__, __path__) if issubclass(kind, Source)]
    return {key: kind for kind in kinds for key in kind.NAMED_BY}
