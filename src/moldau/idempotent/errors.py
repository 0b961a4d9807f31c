"""What this package raises."""

from __future__ import annotations

from moldau.errors import MoldauError


class IdempotentError(MoldauError):
    """The base class."""


class PoisonRecordError(IdempotentError):
    """The handler failed for a record, and there is no retry topic. The cause is the handler's error."""


class MissingIdError(IdempotentError):
    """A record has no message id: its header is missing, or its key is null."""


class BrokenTransactionError(IdempotentError):
    """The handler hid the error of a failed statement, or ended the transaction itself."""


class LostConnectionError(IdempotentError):
    """The connection to the database ended within a transaction. It is tried again."""


class OffsetAheadError(IdempotentError):
    """The database's offset is after the end of the partition: the topic was made again, or records were lost."""


class DeliveryError(IdempotentError):
    """A record was not acknowledged by the broker."""


class MigrationError(IdempotentError):
    """The tables of this package are missing, or those of a newer version."""


class OutboxError(IdempotentError):
    """The position of an outbox in the broker does not fit its rows."""
