"""The follower's side of a fetch session (KIP-227): its next request and the session state.

A session remembers the last request for each partition. A request names the changed partitions and the removed ones.
The leader answers with partitions that have news.
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
        """The partitions in the session."""

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition, because no session exists yet."""
        return self._epoch == INITIAL_EPOCH

    @property
    def asked(self) -> Mapping[PartitionKey, FetchPartition]:
        """The partitions of the session. The leader returns whatever is new in them."""
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
        """The request for `wanted`, and the rest of the session without `left_out`. A full one is for `wanted`
        alone."""
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
        """The session after a response. An error ends it."""
        if response.error_code:
            self.begin_anew(response.session_id or self._session_id)
        elif response.session_id == NO_SESSION_ID:
            self.begin_anew()
        else:
            self._session_id = response.session_id
            self._epoch = next_epoch(self._epoch)

    def begin_anew(self, session_id: int = NO_SESSION_ID) -> None:
        """The next request is a full one, which closes the session `session_id`."""
        self._session_id, self._epoch = session_id, INITIAL_EPOCH
        self._asked = {}


def _forgotten(keys: Iterable[PartitionKey]) -> tuple[ForgottenTopic, ...]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return tuple(ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes)) for topic_id, indexes in topics.items())
