"""Chooses the groups to ask about in a cluster with many groups."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.products.pipelines.core.commit_metadata import GROUP_PREFIX


def choose_groups(names: Sequence[str], most: int) -> set[str]:
    """The first `most` names. Up to half of them are pipelines: neither kind takes all places, regardless of the order
    of names."""
    pipelines = [name for name in names if name.startswith(GROUP_PREFIX)]
    chosen = pipelines[: most // 2]
    others = [name for name in names if not name.startswith(GROUP_PREFIX)]
    rest = [*others, *pipelines[most // 2 :]]
    return {*chosen, *rest[: most - len(chosen)]}
