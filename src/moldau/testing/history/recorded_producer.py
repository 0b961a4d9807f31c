"""A confluent-kafka producer that records its calls and otherwise behaves as usual."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from moldau.testing.history import events
from moldau.testing.history.naming import text_of
from moldau.testing.history.session import Session, now_ms, offsets_of

OnDelivery = Callable[[KafkaError | None, Message], None]


class RecordedProducer(Producer):  # type: ignore[misc]
    """One lock covers writing a send to the history and passing it on. So the lines have the order of the sends, also
    if threads share the producer."""

    def __init__(self, session: Session, settings: Mapping[str, Any], process: str) -> None:
        config = dict(settings)
        self._on_delivery: OnDelivery | None = config.pop("on_delivery", None)
        super().__init__(config)
        self._session, self._process = session, process
        self._lock = threading.Lock()
        self._transaction = 0
        self._is_open = False
        is_idempotent = "transactional.id" in config or str(config.get("enable.idempotence")).lower() == "true"
        session.write(events.ProducerStarts(process=process, idempotent=is_idempotent, at_ms=now_ms()))

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        on_delivery: OnDelivery | None = None,
        *more: Any,
        callback: OnDelivery | None = None,
        **named: Any,
    ) -> None:
        """As in Producer. Writes the send to the history first, and its outcome when the delivery is reported. If the
        client rejects the send, writes it as failed and raises the error."""
        operation = self._session.next_operation()
        send = events.Send(
            process=self._process,
            operation=operation,
            topic=topic,
            record=self._session.naming(key, value),
            key=None if key is None else text_of(key),
            partition=partition if partition >= 0 else None,
            transaction=self._transaction if self._is_open else None,
            tombstone=value is None,
            at_ms=now_ms(),
        )
        delivered = self._delivered(operation, on_delivery or callback or self._on_delivery)
        with self._lock:
            self._session.write(send)
            try:
                super().produce(topic, value, key, partition, delivered, *more, **named)
            except (BufferError, KafkaException, TypeError, ValueError) as error:
                # rejected: it will never be sent
                self._session.write(
                    events.Failed(process=self._process, operation=operation, error=str(error), at_ms=now_ms())
                )
                raise

    def _delivered(self, operation: int, told: OnDelivery | None) -> OnDelivery:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                self._session.write(
                    events.Sent(
                        process=self._process,
                        operation=operation,
                        partition=message.partition(),
                        # no offset for a batch that was sent again, if the broker has it but too far back to know its
                        # offset
                        offset=events.NO_OFFSET if offset is None else offset,
                        at_ms=now_ms(),
                    )
                )
            else:
                self._session.write_error(self._process, operation, error)
            if told is not None:
                told(error, message)

        return delivered

    def begin_transaction(self) -> None:
        """As in Producer. Writes the number of the transaction to the history after that."""
        super().begin_transaction()
        self._transaction, self._is_open = self._transaction + 1, True
        self._session.write(
            events.TransactionBegins(process=self._process, transaction=self._transaction, at_ms=now_ms())
        )

    def send_offsets_to_transaction(self, positions: Sequence[TopicPartition], group: bytes, *more: Any) -> None:
        """As in Producer. Writes the offsets to the history first, unless the consumer of `group` is not recorded."""
        name = self._session.groups.get(group)
        if name is not None:  # else the consumer is not recorded
            self._session.write(
                events.TransactionOffsets(
                    process=self._process,
                    transaction=self._transaction,
                    group=name,
                    positions=offsets_of(positions),
                    at_ms=now_ms(),
                )
            )
        super().send_offsets_to_transaction(positions, group, *more)

    def commit_transaction(self, *more: Any) -> None:
        """As in Producer. Writes begin and outcome of the commit to the history."""
        self._end(lambda: super(RecordedProducer, self).commit_transaction(*more), is_commit=True)

    def abort_transaction(self, *more: Any) -> None:
        """As in Producer. Writes begin and outcome of the abort to the history."""
        self._end(lambda: super(RecordedProducer, self).abort_transaction(*more), is_commit=False)

    def _end(self, act: Callable[[], None], *, is_commit: bool) -> None:
        """If the call raises, the commit or abort may still take effect."""
        operation = self._session.next_operation()
        self._session.write(
            events.TransactionEnds(
                process=self._process,
                operation=operation,
                transaction=self._transaction,
                commit=is_commit,
                at_ms=now_ms(),
            )
        )
        try:
            act()
        except KafkaException as error:
            self._session.write(
                events.Unknown(process=self._process, operation=operation, error=str(error), at_ms=now_ms())
            )
            raise
        self._is_open = False
        self._session.write_done(self._process, operation)
