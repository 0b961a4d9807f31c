"""Where a pipeline's rows may go: each module here is one kind of target, and is found by being here."""

from __future__ import annotations

from moldau.products.pipelines.core.kinds import kinds_in
from moldau.products.pipelines.targets.target import Target


def all_targets() -> dict[str, type[Target]]:
    """By the key of a target that asks for the kind."""
    return {kind.NAMED_BY: kind for kind in kinds_in(__name__, __path__) if issubclass(kind, Target)}
