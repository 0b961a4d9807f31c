"""The relay of blocking programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.idempotent.blocking import Stoppable, run
from moldau.idempotent.clients.transactions import ConfluentSending
from moldau.idempotent.relaying import Relaying, RelaySettings
from moldau.idempotent.stores import Store


class OutboxRelay(Stoppable):
    """Sends the rows of an outbox to its topic, in order, each once for a read_committed consumer.

    Run several for one topic: one of them works, and another takes over `lease_s` after its end. `client`: the settings
    of confluent-kafka, such as `{"bootstrap.servers": "127.0.0.1:9092"}`. `batch`: rows of one transaction. `idle_s`:
    the pause when there is nothing to send. `patience_s`: how long errors of the database and the broker are tried
    again."""

    def __init__(
        self,
        store: Store,
        topic: str,
        client: Mapping[str, Any],
        *,
        batch: int = 500,
        idle_s: float = 0.2,
        lease_s: float = 10.0,
        patience_s: float = 60.0,
    ) -> None:
        super().__init__()
        settings = RelaySettings(topic, batch, idle_s, lease_s, patience_s)
        self._relaying = Relaying(settings, store.session(), ConfluentSending(client), self)

    def poll(self) -> int:
        """Sends one batch; gives the number of its rows. Raises OutboxError, and other errors after `patience_s`."""
        return run(self._relaying.round())

    def run(self) -> None:
        """Polls until `stop`. Raises as `poll`."""
        while not self._stopped.is_set():
            self.poll()

    def close(self) -> None:
        """Closes the connections to the database and the broker."""
        run(self._relaying.drop())
