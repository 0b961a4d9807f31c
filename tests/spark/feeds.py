"""A feed without Spark, called as Spark calls it."""

from __future__ import annotations

import pickle

from moldau.spark.source.feeds import Feed, Place


class Reader:
    """Reads batch by batch; a feed that was sent to a task reads the rows."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.place = feed, feed.beginning()

    def batch(self) -> list[dict]:
        """[] if there is nothing new."""
        end = self.feed.end(self.place)
        if end == self.place:
            return []
        begin, self.place = self.place, self.feed.step(self.place, end)
        return self.between(begin, self.place)

    def between(self, begin: Place, end: Place) -> list[dict]:
        in_task = pickle.loads(pickle.dumps(self.feed))
        parts = self.feed.parts(begin, end)
        return [row for part in parts for batch in in_task.read(part) for row in batch.to_pylist()]
