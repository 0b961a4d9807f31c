"""The follower's side of a fetch session (KIP-227): which requests a leader gets, and which session it keeps for them.

A session knows what was asked of each partition last. A request names those of which that is another thing now, and
those that are to be left out; the leader answers with those of which it has news.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.core.replication.fetch_session import INITIAL_EPOCH, NO_SESSION_ID, next_epoch
from moldau.types import Uuid
from moldau.wire.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

PartitionKey = tuple[Uuid, int]


class FetchRequests:
    """The requests of one follower to one leader, one at a time."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._asked: dict[PartitionKey, FetchPartition] = {}
        """What the session holds."""

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition: there is no session yet."""
        return self._epoch == INITIAL_EPOCH

    @property
    def asked(self) -> Mapping[PartitionKey, FetchPartition]:
        """What the session holds: the leader gives of each whatever it has."""
        return self._asked

    def next(
        self,
        wanted: Mapping[PartitionKey, FetchPartition],
        left_out: Iterable[PartitionKey],
        state: ReplicaState,
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
    ) -> FetchRequest:
        """The request for `wanted`, and what the session holds besides, without those that are `left_out`. A full one
        is for `wanted` alone."""
        asked = self._asked
        changed = [(key, entry) for key, entry in wanted.items() if asked.get(key) != entry]
        forgotten = [key for key in left_out if asked.pop(key, None) is not None]
        asked.update(wanted)
        topics: dict[Uuid, list[FetchPartition]] = {}
        for (topic_id, _), entry in changed:
            topics.setdefault(topic_id, []).append(entry)
        return FetchRequest(
            replica_state=state,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=tuple(FetchTopic(topic_id=topic_id, partitions=tuple(rows)) for topic_id, rows in topics.items()),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def answered(self, response: FetchResponse) -> None:
        """What the session is from now on. An answer with an error ends it."""
        if response.error_code:
            self.begin_anew(response.session_id or self._session_id)
        elif response.session_id == NO_SESSION_ID:
            self.begin_anew()
        else:
            self._session_id = response.session_id
            self._epoch = next_epoch(self._epoch)

    def begin_anew(self, session_id: int = NO_SESSION_ID) -> None:
        """The next request is a full one; it closes the session `session_id`."""
        self._session_id, self._epoch = session_id, INITIAL_EPOCH
        self._asked = {}


def _forgotten(keys: Iterable[PartitionKey]) -> tuple[ForgottenTopic, ...]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return tuple(ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes)) for topic_id, indexes in topics.items())
