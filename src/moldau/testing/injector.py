"""Injects faults into requests, between the connections of a node and its dispatcher.

Other requests pass unchanged. For a fault with `when="after"`, the handler gets a connection that holds back the
response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, cast

from moldau.errors import ERROR_CODES, ProtocolError
from moldau.shell.network.context import RequestContext
from moldau.shell.network.dispatch import Dispatcher
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.shell.network.reply import Reply
from moldau.shell.peers.peer import CLIENT_ID as PEER_CLIENT_ID
from moldau.testing.error_responses import error_response, names_of, with_errors
from moldau.testing.faults import Action, Faults, RequestFacts
from moldau.types import Buffer, Uuid
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, response_header_version
from moldau.wire.protocol.codec import decode_message
from moldau.wire.protocol.headers import decode_request_header, decode_response_header
from moldau.wire.protocol.messages.fetch import FetchResponse
from moldau.wire.protocol.messages.produce import ProduceRequest

_read_head = Struct(">hhih").unpack_from
_FORGOTTEN_SESSION = ERROR_CODES["FETCH_SESSION_ID_NOT_FOUND"]


class FaultInjector:
    """Handles frames before the dispatcher of one node. Belongs to the node's loop."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        faults: Faults,
        topic_name: Callable[[Uuid], str | None],
        connections: Mapping[int, object],
    ) -> None:
        self._dispatcher = dispatcher
        self._faults = faults
        self._topic_name = topic_name
        self._connections = connections
        self._silent: dict[int, None] = {}
        """The ids of connections whose client gets no more responses."""

    def handle(self, connection: Reply, frame: memoryview) -> Answer | PendingResponse | None:
        """Handles one frame as Dispatcher.handle does, unless a fault selects it."""
        if connection.id in self._silent:
            return None
        if not self._faults.are_any or len(frame) < 10:
            return self._dispatcher.handle(connection, frame)
        api_key, version = _read_head(frame, 0)[:2]
        row = API_VERSIONS.get(api_key)
        if row is None or not row.min_version <= version <= row.max_version:
            return self._dispatcher.handle(connection, frame)
        copy = bytes(frame)
        header, position = decode_request_header(copy)
        if header.client_id == PEER_CLIENT_ID:  # from another broker of the cluster: faults apply to clients only
            return self._dispatcher.handle(connection, frame)
        facts = RequestFacts(ApiKey(api_key), header.client_id or "", lambda: self._names(copy, api_key, position))
        action = self._faults.take(facts)
        if action is None or action.kind == "pass":
            return self._dispatcher.handle(connection, frame)
        request = _Request(ApiKey(api_key), version, header.correlation_id, header.client_id or "", copy, position)
        return self._perform(connection, action, request)

    def _perform(self, connection: Reply, action: Action, request: _Request) -> Answer | PendingResponse | None:
        if action.kind == "error":
            return self._refuse(connection, request, action.error_name)
        if action.kind == "delay" and action.when == "before":
            return self._delay(connection, request, action.delay_ms / 1000)
        if action.when == "after":
            return self._after(connection, action, request)
        if action.kind == "drop":
            self._silence(connection)
        else:
            connection.close()
        return None

    def _silence(self, connection: Reply) -> None:
        self._silent = {number: None for number in self._silent if number in self._connections}
        self._silent[connection.id] = None

    # -- before the work

    def _delay(self, connection: Reply, request: _Request, delay_s: float) -> PendingResponse:
        place = connection.reserve()

        def go_on() -> None:
            if not connection.is_closed:
                self._work(connection, request, place, place.complete)

        self._dispatcher.loop.call_later(delay_s, go_on)
        return place

    # -- instead of the work

    def _refuse(self, connection: Reply, request: _Request, error_name: str) -> Answer | PendingResponse | None:
        key, version = request.api_key, request.version
        row = API_VERSIONS[key]
        if key is ApiKey.METADATA:
            return self._overlay(connection, request, error_name)
        decoded, _ = decode_message(row.request, version, request.frame, request.position)
        if isinstance(decoded, ProduceRequest) and decoded.acks == 0:
            # no response can hold the error: Kafka closes the connection
            connection.close()
            return None
        response = error_response(key, version, decoded, error_name)
        if isinstance(response, FetchResponse) and not response.error_code and not response.responses:
            # an incremental fetch that names no partition: end its session, so that the next request names all of them
            response = FetchResponse(error_code=_FORGOTTEN_SESSION)
        return self._encode(connection, request, response)

    def _overlay(self, connection: Reply, request: _Request, error_name: str) -> Answer | PendingResponse | None:
        place = connection.reserve()

        def answered(answer: Answer | None) -> None:
            if answer is None:
                place.complete(None)
                return
            # a response without records; it is not decoded again
            frame = answer if isinstance(answer, bytes) else b"".join(cast("list[Buffer]", answer))
            version = request.version
            _, position = decode_response_header(frame[4:], response_header_version(request.api_key, version))
            row = API_VERSIONS[request.api_key]
            response, _ = decode_message(row.response, version, frame[4:], position)
            place.complete(
                self._encode(connection, request, with_errors(request.api_key, version, response, error_name))
            )

        self._work(connection, request, place, answered)
        return place

    def _encode(self, connection: Reply, request: _Request, response: Any) -> bytes | None:
        context = RequestContext(
            self._dispatcher,
            connection,
            connection.session,
            request.api_key,
            request.version,
            request.correlation_id,
            request.client_id,
        )
        return self._dispatcher.encode(context, response)

    # -- after the work

    def _after(self, connection: Reply, action: Action, request: _Request) -> PendingResponse:
        place = connection.reserve()

        def answered(answer: Answer | None) -> None:
            if action.kind == "delay":
                self._dispatcher.loop.call_later(action.delay_ms / 1000, place.complete, answer)
            elif action.kind == "disconnect":
                connection.close()

        if action.kind == "drop":
            self._silence(connection)
        self._work(connection, request, place, answered)
        return place

    def _work(
        self,
        connection: Reply,
        request: _Request,
        place: PendingResponse,
        answered: Callable[[Answer | None], None],
    ) -> None:
        """Executes the request, and passes the response to `answered` instead of the client."""
        captured = _CapturedConnection(connection, answered)
        place.on_abandoned = captured.abandoned
        handled_as: Any = captured
        try:
            answer = self._dispatcher.handle(handled_as, memoryview(request.frame))
        except ProtocolError as error:
            connection.close_for(error)
            return
        captured.handled(answer)

    def _names(self, frame: bytes, api_key: int, position: int) -> tuple[tuple[str, ...], str | None]:
        version = _read_head(frame, 0)[1]
        try:
            request, _ = decode_message(API_VERSIONS[ApiKey(api_key)].request, version, frame, position)
        except ProtocolError:
            return (), None
        topics, group = names_of(request)
        named = (topic if isinstance(topic, str) else self._topic_name(Uuid(topic)) for topic in topics)
        return tuple(name for name in named if name is not None), group


class _Request:
    """One request, with its own copy of the frame."""

    __slots__ = ("api_key", "client_id", "correlation_id", "frame", "position", "version")

    def __init__(
        self, api_key: ApiKey, version: int, correlation_id: int, client_id: str, frame: bytes, position: int
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.frame = frame
        self.position = position


class _CapturedConnection:
    """Looks like the client's connection to a handler. Passes the response to `answered`, once."""

    __slots__ = ("_answered", "_final", "_real")

    def __init__(self, real: Reply, answered: Callable[[Answer | None], None]) -> None:
        object.__setattr__(self, "_real", real)
        object.__setattr__(self, "_answered", answered)
        object.__setattr__(self, "_final", None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._real, name, value)

    def reserve(self, *, may_produce_begin: bool = False) -> PendingResponse:
        connection: Any = self
        return PendingResponse(connection, may_produce_begin=may_produce_begin)

    def handled(self, answer: Answer | PendingResponse | None) -> None:
        """Takes the return value of the dispatcher."""
        if not isinstance(answer, PendingResponse):
            self._answered(answer)
        elif answer.is_complete:
            self._answered(answer.answer)
        else:
            object.__setattr__(self, "_final", answer)

    def response_completed(self, response: PendingResponse) -> None:
        if response is self._final:
            self._answered(response.answer)

    def abandoned(self) -> None:
        """The client disconnected before the response was ready."""
        final = self._final
        if final is not None and final.on_abandoned is not None:
            final.on_abandoned()
