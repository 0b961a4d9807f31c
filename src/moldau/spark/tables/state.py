"""Values by keys in Spark's state store: many of them in one exchange with the JVM.

PySpark's MapState waits for an answer after each get and each update. Here up to a hundred requests are on their way at
once. The messages and the connection are PySpark's own (`StatefulProcessorApiClient`); what is used of it is the same
in PySpark 4.2 and 4.3.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import pack
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

from moldau.errors import MoldauError

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_REQUESTS = 100
_REQUEST_BYTES = 32_768
"""Requests that are sent before their answers are read. The bytes fit in the buffers of the connection. With more, both
sides could wait for the other to read."""


class StateError(MoldauError):
    """Spark's state store rejects a request. The message has its reason."""


class Slots:
    """Values by keys, of the group of rows that the processor handles. A value is anything that pickle takes, except
    None."""

    def __init__(self, handle: StatefulProcessorHandle, name: str) -> None:
        """Call it in `init` of the processor only, as Spark demands for its own states."""
        self._entries = handle.getMapState(name, "key binary", "value binary")
        self._name = name
        self._client: Any = handle._statefulProcessorApiClient

    def get(self, keys: Sequence[bytes]) -> list[Any]:
        """The values in the order of the keys; None where a key has none."""
        get, row = messages.GetValue, self._row
        answers = self._ask(self._call(getValue=get(userKey=row(key))) for key in keys)
        return [self._value(answer) if answer else None for answer in answers]

    def put(self, values: Mapping[bytes, Any]) -> None:
        """Sets the values of the keys. None removes a key."""
        for _ in self._ask(self._changes(values)):
            pass

    def put_in(self, values: Mapping[tuple[Any, ...], Mapping[bytes, Any]]) -> None:
        """`put` for several groups, each a key of Spark's grouping columns. The last one stays the current group."""
        for _ in self._ask(request for group, some in values.items() for request in self._changes_in(group, some)):
            pass

    def all_in(self, group: tuple[Any, ...]) -> Iterator[tuple[bytes, Any]]:
        """The keys and values of another group, which stays the current group."""
        self._client.set_implicit_key(group)
        for key, value in self._entries.iterator():
            yield bytes(key[0]), pickle.loads(value[0])

    def _changes_in(self, group: tuple[Any, ...], values: Mapping[bytes, Any]) -> Iterator[Any]:
        key = messages.SetImplicitKey(key=self._client._serialize_to_bytes(self._client.key_schema, group))
        yield messages.StateRequest(implicitGroupingKeyRequest=messages.ImplicitGroupingKeyRequest(setImplicitKey=key))
        yield from self._changes(values)

    def _changes(self, values: Mapping[bytes, Any]) -> Iterator[Any]:
        for key, value in values.items():
            if value is None:
                yield self._call(removeKey=messages.RemoveKey(userKey=self._row(key)))
            else:
                stored = self._row(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
                yield self._call(updateValue=messages.UpdateValue(userKey=self._row(key), value=stored))

    def _call(self, **call: Any) -> Any:
        return messages.StateRequest(
            stateVariableRequest=messages.StateVariableRequest(
                mapStateCall=messages.MapStateCall(stateName=self._name, **call)
            )
        )

    def _row(self, value: bytes) -> bytes:
        """As PySpark sends a row of one binary column."""
        return bytes(self._client.pickleSer.dumps((value,)))

    def _value(self, answer: bytes) -> Any:
        return pickle.loads(self._client._deserialize_from_bytes(answer)[0])

    def _ask(self, requests: Iterable[Any]) -> Iterator[bytes]:
        """The values of the answers, in the order of the requests. Raises StateError."""
        sent = bytearray()
        waiting = 0
        for request in requests:
            message = request.SerializeToString()
            sent += pack("!ii", 0, len(message)) + message
            waiting += 1
            if waiting == _REQUESTS or len(sent) > _REQUEST_BYTES:
                yield from self._answers(sent, waiting)
                sent, waiting = bytearray(), 0
        yield from self._answers(sent, waiting)

    def _answers(self, sent: bytearray, count: int) -> list[bytes]:
        self._client.sockfile.write(sent)
        self._client.sockfile.flush()
        answers = [self._client._receive_proto_message() for _ in range(count)]
        for status, reason, _ in answers:
            if status != 0:
                raise StateError(f"Spark's state store rejects a request for {self._name!r}: {reason}")
        return [value for _, _, value in answers]
