"""The errors of Moldau and Kafka.

    MoldauError
    |-- KafkaError            one subclass for each error code of the protocol: docs/reference/errors.md lists them
    |   |-- OffsetOutOfRangeError, NotLeaderOrFollowerError, ...
    |-- ProtocolError         bytes that are no message: the connection closes
    |-- StorageFullError      no space left: the log was cut back to its old end (answered as 56)
    |-- StorageFailedError    the device failed: the log directory is offline until a restart (answered as 56)
    |   |-- DamagedLogError   what was on the disk is damaged or missing: a start is refused
    |-- InvariantError        our own mistake: the node stops

A `KafkaError` is raised where the fault is found. One place (the handler's entry for that partition, topic or group)
turns it into a field of the response.

kafka: one class for each error code of the protocol
reference_page: writes docs/reference/errors.md
roots: the base classes
"""

from __future__ import annotations

from moldau.errors.kafka import *  # noqa: F403  # all 134 classes, for type checkers too
from moldau.errors.roots import ERROR_CLASSES as ERROR_CLASSES
from moldau.errors.roots import DamagedLogError as DamagedLogError
from moldau.errors.roots import InvariantError as InvariantError
from moldau.errors.roots import KafkaError as KafkaError
from moldau.errors.roots import MoldauError as MoldauError
from moldau.errors.roots import ProtocolError as ProtocolError
from moldau.errors.roots import StorageFailedError as StorageFailedError
from moldau.errors.roots import StorageFullError as StorageFullError
from moldau.errors.roots import invariant as invariant

ERROR_NAMES: dict[int, str] = {0: "NONE"} | {code: made.name for code, made in ERROR_CLASSES.items()}
ERROR_CODES: dict[str, int] = {name: code for code, name in ERROR_NAMES.items()}


def kafka_error(
    name_or_code: str | int, message: str | None = None, record_errors: tuple[tuple[int, str], ...] = ()
) -> KafkaError:
    """The error with Kafka's name or code: `raise kafka_error("INVALID_TOPIC_EXCEPTION", "...")`.

    Raises KeyError for an unknown name or code.
    """
    code = ERROR_CODES[name_or_code] if isinstance(name_or_code, str) else name_or_code
    return ERROR_CLASSES[code](message, record_errors)
