"""The consumer of blocking programs: with confluent-kafka or kafka-python."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from moldau.idempotent.blocking import Stoppable, run
from moldau.idempotent.clients.choosing import consuming, producing
from moldau.idempotent.handling import Handler, Handling, Settings
from moldau.idempotent.records import MessageId
from moldau.idempotent.retry import RetryTopic
from moldau.idempotent.stores import Store


class IdempotentConsumer(Stoppable):
    """Handles each record once: what the handler writes, and the id or the offset of the record, are one transaction.

    `client`: a consumer of confluent-kafka or kafka-python in a group, with enable.auto.commit=false and no
    deserializers. `name`: of this consumer in the tables; all members of the group have the same one. `message_id`:
    `by_header("id")`, `by_key`, `by_position` or a function of yours. `offsets`: "group" commits them to the group
    after the transaction, "database" keeps them in the transaction and starts there, without ids. `retry`: where poison
    records go; None raises PoisonRecordError. `max_records`: of one transaction. `patience_s`: how long transient
    errors of the database are tried again. `keep_ids`: the age at which ids are deleted; None keeps them."""

    def __init__(
        self,
        client: Any,
        store: Store,
        topics: Sequence[str],
        *,
        name: str,
        message_id: MessageId | None = None,
        offsets: Literal["group", "database"] = "group",
        retry: RetryTopic | None = None,
        max_records: int = 100,
        patience_s: float = 60.0,
        keep_ids: timedelta | None = None,
    ) -> None:
        super().__init__()
        wanted = (*topics, retry.topic) if retry else tuple(topics)
        settings = Settings(name, wanted, message_id, offsets, retry, max_records, patience_s, keep_ids)
        outlet = producing(retry.producer) if retry else None
        self._session = store.session()
        self._handling = Handling(settings, consuming(client), self._session, outlet, self, is_async=False)

    def poll(self, handle: Handler, timeout_s: float = 1.0) -> int:
        """Waits for records and handles them; gives their number, with those that were handled before. Calls
        `handle(connection, record)` in an open transaction of your driver; the library commits it.

        Raises PoisonRecordError without a retry topic, the database's error after `patience_s`, DeliveryError, and
        errors of the client that it does not recover from. Then no record is lost: the next poll, or the next process,
        begins at the first one that is not handled."""
        return run(self._handling.round(handle, timeout_s))

    def run(self, handle: Handler) -> None:
        """Polls until `stop`. Raises as `poll`."""
        while not self._stopped.is_set():
            self.poll(handle)

    def close(self) -> None:
        """Closes the connection to the database. The client is yours to close."""
        run(self._session.close())
