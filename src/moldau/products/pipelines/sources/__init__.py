"""Where a pipeline's rows may come from: each module here is one kind of source, and is found by being here."""

from __future__ import annotations

from moldau.products.pipelines.kinds import classes_in
from moldau.products.pipelines.source import Source


def all_sources() -> dict[str, type[Source]]:
    """By each key that asks for the source."""
    kinds = [one for one in classes_in(__name__, __path__) if issubclass(one, Source)]
    return {key: kind for kind in kinds for key in kind.NAMED_BY}
