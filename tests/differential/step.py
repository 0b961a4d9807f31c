"""One step of a sequence: a request that is built for each broker, and the values kept from its response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from moldau.wire.protocol.api_keys import ApiKey

NO_SUCH_ID = b"\x01" * 16


class Bindings:
    """The values from one broker's responses so far. `base_ms` is the start time of the sequence."""

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
    """`make` builds the request for one broker; `learn` takes values from its response for later steps."""

    key: ApiKey
    version: int
    make: Callable[[Bindings], Any]
    learn: Callable[[Bindings, Any], None] | None = None
    changes: bool = False
    """Whether the cluster's metadata may differ afterwards."""
    names: tuple[str, ...] = ()
    """The topics whose state it may change."""
    expected: Callable[[Any], int | None] = lambda answer: None
    """The number of their partitions after this response, 0 for none; None: any."""
    transactional_ids: tuple[str, ...] = ()
    """The ids that the step may have begun to end: markers are written after the response."""
