"""The base classes of all errors in Moldau. Tracebacks show them under `moldau.errors`, as users import them."""

from __future__ import annotations

from typing import ClassVar


class MoldauError(Exception):
    """The base class of all intended errors of Moldau."""

    __module__ = "moldau.errors"


class ProtocolError(MoldauError):
    """Malformed bytes of a message."""

    __module__ = "moldau.errors"


class InvariantError(MoldauError):
    """A bug: our own code broke a rule."""

    __module__ = "moldau.errors"


class StorageFullError(MoldauError):
    """ENOSPC: the write left nothing, and the next append may try again."""

    __module__ = "moldau.errors"


class StorageFailedError(MoldauError):
    """EIO, or a failed fsync: the log directory is offline until a restart."""

    __module__ = "moldau.errors"


class DamagedLogError(StorageFailedError):
    """Records on the disk are unreadable or missing. The message names the file and the place."""

    __module__ = "moldau.errors"


def invariant(condition: object, message: str) -> None:
    """Raises InvariantError unless `condition` holds. Unlike `assert`, `-O` does not remove it."""
    if not condition:
        raise InvariantError(message)


class KafkaError(MoldauError):
    """An error with a code of the Kafka protocol. `message` may be sent to the client, so it has no internals."""

    __module__ = "moldau.errors"

    code: ClassVar[int] = -1
    name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    is_retriable: ClassVar[bool] = False
    """Whether a client may send the same request again."""

    def __init_subclass__(cls, *, code: int | None = None, name: str = "", is_retriable: bool = False) -> None:
        """With a code: an error of Kafka, which a traceback shows under its import name. Without: a subclass by a
        user."""
        if code is None:
            return
        cls.code, cls.name, cls.is_retriable = code, name, is_retriable
        cls.__module__ = "moldau.errors"
        ERROR_CLASSES[code] = cls

    def __init__(self, message: str | None = None, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message or self.name)
        self.message = message
        self.record_errors = record_errors
        """Where single records are to blame: their indexes in the batch, and what is wrong with each (KIP-467)."""


ERROR_CLASSES: dict[int, type[KafkaError]] = {}
"""By code. Code 0 means that nothing failed, and has no class."""
