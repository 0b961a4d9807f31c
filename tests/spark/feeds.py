"""A feed without Spark: asked as Spark asks it."""

from __future__ import annotations

import pickle

from moldau.spark.source.feeds import Feed, Place


class Reader:
    """Reads batch by batch; rows are read by a feed that has travelled to a task."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.place = feed, feed.beginning()

    def batch(self) -> list[dict]:
        """[] where there is nothing new."""
        end = self.feed.end(self.place)
        if end == self.place:
            return []
        begin, self.place = self.place, self.feed.step(self.place, end)
        return self.between(begin, self.place)

    def between(self, begin: Place, end: Place) -> list[dict]:
        in_task = pickle.loads(pickle.dumps(self.feed))
        parts = self.feed.parts(begin, end)
        return [row for part in parts for batch in in_task.read(part) for row in batch.to_pylist()]
