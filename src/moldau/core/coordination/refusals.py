"""The error code for a client when the coordinator's append fails."""

from __future__ import annotations

from moldau.errors import ERROR_CODES, KafkaError, MoldauError, StorageFailedError, StorageFullError

_COORDINATOR_NOT_AVAILABLE = ERROR_CODES["COORDINATOR_NOT_AVAILABLE"]
_NOT_COORDINATOR = ERROR_CODES["NOT_COORDINATOR"]
_UNKNOWN_SERVER_ERROR = ERROR_CODES["UNKNOWN_SERVER_ERROR"]

_APPEND_ERRORS = {
    "UNKNOWN_TOPIC_OR_PARTITION": _COORDINATOR_NOT_AVAILABLE,
    "NOT_ENOUGH_REPLICAS": _COORDINATOR_NOT_AVAILABLE,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": _COORDINATOR_NOT_AVAILABLE,
    "REQUEST_TIMED_OUT": _COORDINATOR_NOT_AVAILABLE,
    "NOT_LEADER_OR_FOLLOWER": _NOT_COORDINATOR,
    "KAFKA_STORAGE_ERROR": _NOT_COORDINATOR,
    "MESSAGE_TOO_LARGE": _UNKNOWN_SERVER_ERROR,
    "RECORD_LIST_TOO_LARGE": _UNKNOWN_SERVER_ERROR,
    "INVALID_FETCH_SIZE": _UNKNOWN_SERVER_ERROR,
}


def append_error_code(error: MoldauError) -> int:
    """The code, translated as in Kafka's coordinators: a client knows nothing of their logs and must find the
    coordinator again or give up."""
    if isinstance(error, (StorageFullError, StorageFailedError)):
        return _NOT_COORDINATOR
    if not isinstance(error, KafkaError):
        return _UNKNOWN_SERVER_ERROR
    return _APPEND_ERRORS.get(error.name, error.code)
