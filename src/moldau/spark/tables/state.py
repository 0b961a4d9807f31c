"""Values by keys in Spark's state store: many of them in one exchange with the JVM.

PySpark's MapState waits for an answer after each get and each update. Here up to a hundred requests are on their way at
once. The messages and the connection are PySpark's own (`StatefulProcessorApiClient`); what is used of it is the same
in PySpark 4.2 and 4.3.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from struct import pack
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

from moldau.errors import MoldauError

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_REQUESTS = 100
_REQUEST_BYTES = 32_768
"""Requests that are sent before their answers are read. The bytes fit in the buffers of the connection. With more, both
sides could wait for the other to read."""
_NOTHING = 2
"""The status of an answer that has no entry."""

_Request = tuple[Any, Callable[[], tuple[Any, ...]]]
"""A message, and the function that reads its answer: a status, the reason of an error, and what was asked for."""


class StateError(MoldauError):
    """Spark's state store rejects a request. The message has its reason."""


class Slots:
    """Values by keys, of the group of rows that the processor handles. A value is anything that pickle takes, except
    None."""

    def __init__(self, handle: StatefulProcessorHandle, name: str) -> None:
        """Call it in `init` of the processor only, as Spark demands for its own states."""
        handle.getMapState(name, "key binary", "value binary")
        self._name = name
        self._client: Any = handle._statefulProcessorApiClient

    def get(self, keys: Sequence[bytes]) -> list[Any]:
        """The values in the order of the keys; None where a key has none."""
        requests = (self._call(getValue=messages.GetValue(userKey=self._row(key))) for key in keys)
        return [self._value(value) if value else None for _, _, value in self._ask(requests)]

    def put(self, values: Mapping[bytes, Any]) -> None:
        """Sets the values of the keys. None removes a key."""
        for _ in self._ask(self._changes(values)):
            pass

    def put_in(self, values: Mapping[tuple[Any, ...], Mapping[bytes, Any]]) -> None:
        """`put` for several groups, each a key of Spark's grouping columns. The last one stays the current group."""
        requests = (
            request for group, some in values.items() for request in (self._turn_to(group), *self._changes(some))
        )
        for _ in self._ask(requests):
            pass

    def all_in(self, groups: Sequence[tuple[Any, ...]]) -> Iterator[dict[bytes, Any]]:
        """The keys and values of each of these groups. The last one stays the current group."""
        names = [uuid4().hex for _ in groups]
        requests = (
            request
            for group, name in zip(groups, names, strict=True)
            for request in (self._turn_to(group), self._some_of(name))
        )
        for name, (_, _, pairs, has_more) in zip(names, islice(self._ask(requests), 1, None, 2), strict=True):
            found = self._pairs(pairs)
            while has_more:
                ((_, _, pairs, has_more),) = self._ask([self._some_of(name)])
                found |= self._pairs(pairs)
            yield found

    def _turn_to(self, group: tuple[Any, ...]) -> _Request:
        key = messages.SetImplicitKey(key=self._client._serialize_to_bytes(self._client.key_schema, group))
        request = messages.ImplicitGroupingKeyRequest(setImplicitKey=key)
        return messages.StateRequest(implicitGroupingKeyRequest=request), self._client._receive_proto_message

    def _some_of(self, name: str) -> _Request:
        """Entries of the group in which the iterator of this name began."""
        request, _ = self._call(iterator=messages.Iterator(iteratorId=name))
        return request, self._client._receive_proto_message_with_map_pairs

    def _changes(self, values: Mapping[bytes, Any]) -> Iterator[_Request]:
        for key, value in values.items():
            if value is None:
                yield self._call(removeKey=messages.RemoveKey(userKey=self._row(key)))
            else:
                stored = self._row(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
                yield self._call(updateValue=messages.UpdateValue(userKey=self._row(key), value=stored))

    def _call(self, **call: Any) -> _Request:
        request = messages.StateVariableRequest(mapStateCall=messages.MapStateCall(stateName=self._name, **call))
        return messages.StateRequest(stateVariableRequest=request), self._client._receive_proto_message

    def _row(self, value: bytes) -> bytes:
        """As PySpark sends a row of one binary column."""
        return bytes(self._client.pickleSer.dumps((value,)))

    def _value(self, row: bytes) -> Any:
        return pickle.loads(self._client._deserialize_from_bytes(row)[0])

    def _pairs(self, pairs: Iterable[Any]) -> dict[bytes, Any]:
        return {bytes(self._client._deserialize_from_bytes(one.key)[0]): self._value(one.value) for one in pairs}

    def _ask(self, requests: Iterable[_Request]) -> Iterator[tuple[Any, ...]]:
        """The answers in the order of the requests. Raises StateError."""
        sent = bytearray()
        waiting: list[Callable[[], tuple[Any, ...]]] = []
        for request, receive in requests:
            message = request.SerializeToString()
            sent += pack("!ii", 0, len(message)) + message
            waiting.append(receive)
            if len(waiting) == _REQUESTS or len(sent) > _REQUEST_BYTES:
                yield from self._answers(sent, waiting)
                sent, waiting = bytearray(), []
        yield from self._answers(sent, waiting)

    def _answers(self, sent: bytearray, waiting: Iterable[Callable[[], tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        self._client.sockfile.write(sent)
        self._client.sockfile.flush()
        answers = [receive() for receive in waiting]
        for status, reason, *_ in answers:
            if status not in (0, _NOTHING):
                raise StateError(f"Spark's state store rejects a request for {self._name!r}: {reason}")
        return answers
