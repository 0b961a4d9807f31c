"""Objects that survived a long garbage collection are not visited again."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from moldau.shell.node.collector import LONG_S, CollectorWatch


@pytest.fixture
def unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("unfrozen")
@pytest.mark.parametrize(("generation", "seconds", "is_frozen"), [(2, 2 * LONG_S, True), (2, 0, False), (1, 1, False)])
def test_only_what_a_long_full_collection_left_is_frozen(generation: int, seconds: float, is_frozen: bool) -> None:
    times = iter((10.0, 10.0 + seconds))
    watch = CollectorWatch(lambda: next(times))
    watch("start", {"generation": generation})
    watch("stop", {"generation": generation})
    assert (gc.get_freeze_count() > 0) is is_frozen


@pytest.mark.usefixtures("unfrozen")
def test_what_is_frozen_is_freed_when_nothing_refers_to_it() -> None:
    freed: list[str] = []

    class Kept:
        def __del__(self) -> None:
            freed.append("kept")

    kept = Kept()
    gc.freeze()
    del kept
    assert freed == ["kept"]
