"""The committed image, and its subscribers, which get each change.

The controller applies a decision at once to a separate image (core/metadata/fold), which the next decision uses. A
decision is published when it is committed. Until then its deltas wait here and can be taken back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from moldau.core.metadata.image import MetadataDelta, MetadataImage

Subscriber = Callable[[MetadataImage, MetadataDelta], None]


class Publisher:
    """`image`: the committed metadata, as subscribers know it."""

    def __init__(self, cluster_id: str) -> None:
        self.image = MetadataImage(cluster_id)
        self._subscribers: list[Subscriber] = []
        self._uncommitted: deque[MetadataDelta] = deque()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber(image, delta)` for each committed change, in order. The first call has the whole image."""
        self._subscribers.append(subscriber)
        if self.image.end_offset:
            subscriber(self.image, self.image.as_delta())

    def applied(self, delta: MetadataDelta) -> None:
        """`delta` is in the log but not committed yet."""
        self._uncommitted.append(delta)

    def committed(self, end_offset: int) -> None:
        """Everything below `end_offset` is committed: advances the image and notifies subscribers."""
        while self._uncommitted and self._uncommitted[0].end_offset <= end_offset:
            delta = self._uncommitted.popleft()
            self.image.apply_delta(delta)
            for subscriber in self._subscribers:
                subscriber(self.image, delta)

    def take_back(self) -> None:
        """Drops the uncommitted deltas."""
        self._uncommitted.clear()
