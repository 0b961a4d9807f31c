"""One step of a sequence: a request that is built for each broker, and what its answer teaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from moldau.wire.protocol.api_keys import ApiKey

NO_SUCH_ID = b"\x01" * 16


class Bindings:
    """What one broker has told so far. `base_ms` is the time from which the sequence counts."""

    def __init__(self, base_ms: int) -> None:
        self.base_ms = base_ms
        self.values: dict[str, Any] = {}

    def topic_id(self, name: str) -> bytes:
        found = self.values.get(f"topic:{name}", NO_SUCH_ID)
        assert isinstance(found, bytes)
        return found

    def get(self, name: str, default: Any) -> Any:
        return self.values.get(name, default)


class Step(msgspec.Struct, frozen=True):
    """`make` builds the request for one broker; `learn` takes from its answer what later steps need."""

    key: ApiKey
    version: int
    make: Callable[[Bindings], Any]
    learn: Callable[[Bindings, Any], None] | None = None
    changes: bool = False
    """Whether the cluster's metadata may be another one afterwards."""
    names: tuple[str, ...] = ()
    """The topics whose state it may change."""
    expected: Callable[[Any], int | None] = lambda answer: None
    """The number of partitions that they have after this answer, 0 for none; None: any."""
    transactional_ids: tuple[str, ...] = ()
    """What the step may have begun to end: markers are written behind the answer."""
