"""The committed image, and its subscribers, who get each change of it.

What the controller decides is applied at once, to an image of its own (core/metadata/fold): the next decision sees it.
It is published when it is committed; until then its deltas wait here, and can be taken back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from moldau.core.metadata.image import MetadataDelta, MetadataImage

Subscriber = Callable[[MetadataImage, MetadataDelta], None]


class Publisher:
    """`image` is what is committed, and what subscribers know."""

    def __init__(self, cluster_id: str) -> None:
        self.image = MetadataImage(cluster_id)
        self._subscribers: list[Subscriber] = []
        self._uncommitted: deque[MetadataDelta] = deque()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber(image, delta)` for each committed change, in order. The first call has all there is."""
        self._subscribers.append(subscriber)
        if self.image.end_offset:
            subscriber(self.image, self.image.as_delta())

    def applied(self, delta: MetadataDelta) -> None:
        """`delta` is in the log, and not committed yet."""
        self._uncommitted.append(delta)

    def committed(self, end_offset: int) -> None:
        """Everything below `end_offset` is committed: the image moves, and its subscribers get the changes."""
        while self._uncommitted and self._uncommitted[0].end_offset <= end_offset:
            delta = self._uncommitted.popleft()
            self.image.apply_delta(delta)
            for subscriber in self._subscribers:
                subscriber(self.image, delta)

    def take_back(self) -> None:
        """What is not committed will not be published."""
        self._uncommitted.clear()
