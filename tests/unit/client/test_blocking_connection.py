"""The blocking connection with a scripted broker: versions, order, timeouts, invalid responses."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError, ProtocolError
from moldau.transport.access import open_connection
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import decode_request_header, encode_response_header
from moldau.wire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataResponse

Answer = Callable[[int, int, int], bytes | None]
"""(api key, version, correlation id) -> the response frame; None closes the connection, b"" sends nothing."""


class ScriptedBroker:
    """Answers each request of each connection by the script."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    self._serve_connection(connection)

    def _serve_connection(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while length := stream.read(4):
            body = stream.read(struct.unpack(">i", length)[0])
            header, _ = decode_request_header(body)
            answer = self._answer(header.api_key, header.api_version, header.correlation_id)
            if answer is None:
                return
            connection.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


def api_versions_answer(version: int, correlation_id: int, *, metadata: tuple[int, int] = (0, 13)) -> bytes:
    keys = (ApiVersion(ApiKey.API_VERSIONS, 0, 4), ApiVersion(ApiKey.METADATA, *metadata))
    body = encode_message(ApiVersionsResponse(api_keys=keys), version)
    return frame(encode_response_header(correlation_id, 0), body)


def metadata_answer(version: int, correlation_id: int, cluster_id: str = "c") -> bytes:
    body = encode_message(MetadataResponse(cluster_id=cluster_id), version)
    return frame(encode_response_header(correlation_id, 1 if version >= 9 else 0), body)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], ScriptedBroker]]:
    brokers: list[ScriptedBroker] = []

    def start(answer: Answer) -> ScriptedBroker:
        brokers.append(ScriptedBroker(answer))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


def ordinary(api_key: int, version: int, correlation_id: int) -> bytes:
    if api_key == ApiKey.API_VERSIONS:
        return api_versions_answer(version, correlation_id)
    return metadata_answer(version, correlation_id, f"answer-{correlation_id}")


def test_an_old_broker_answers_the_versions_question_in_version_0(serve):
    def old(api_key, version, correlation_id):
        if api_key == ApiKey.API_VERSIONS and version > 0:
            row = (ApiVersion(ApiKey.API_VERSIONS, 0, 2),)
            body = encode_message(ApiVersionsResponse(error_code=35, api_keys=row), 0)
            return frame(encode_response_header(correlation_id, 0), body)
        if api_key == ApiKey.API_VERSIONS:
            return api_versions_answer(0, correlation_id, metadata=(0, 5))
        return metadata_answer(version, correlation_id)

    with open_connection(ClusterAccess("127.0.0.1"), "127.0.0.1", serve(old).port) as connection:
        assert connection.version_of(ApiKey.METADATA) == 5
        assert connection.version_of(ApiKey.METADATA, max_version=3) == 3
        assert connection.request(MetadataRequest()).cluster_id == "c"
        with pytest.raises(KafkaError, match="FETCH"):
            connection.version_of(ApiKey.FETCH)


def test_requests_may_be_pipelined_and_are_answered_in_order(serve):
    with open_connection(ClusterAccess("127.0.0.1"), "127.0.0.1", serve(ordinary).port) as connection:
        for _ in range(10):
            connection.send(MetadataRequest(), 9)
        assert connection.in_flight == 10
        names = [connection.receive_message(MetadataResponse).cluster_id for _ in range(10)]
        assert names == [f"answer-{correlation_id}" for correlation_id in range(1, 11)]
        assert connection.in_flight == 0


def test_a_buffer_of_the_callers_is_used_where_the_answer_fits(serve):
    with open_connection(ClusterAccess("127.0.0.1"), "127.0.0.1", serve(ordinary).port) as connection:
        buffer = bytearray(10_000)
        for size, is_used in ((10_000, True), (8, False)):
            connection.send(MetadataRequest(), 9)
            view = connection.receive(buffer[:size] if size < 100 else buffer)
            assert (view.obj is buffer) == is_used


@pytest.mark.parametrize(
    ("answer", "error", "word"),
    [
        (lambda key, version, correlation_id: None, KafkaError, "lost the connection"),
        (lambda key, version, correlation_id: b"", KafkaError, "did not answer"),
        (lambda key, version, correlation_id: b"\x00\x00", KafkaError, "did not answer"),
        (lambda key, version, correlation_id: frame(b"\x00" * 9), ProtocolError, "answered request 0"),
        (lambda key, version, correlation_id: frame(b"\x00"), ProtocolError, "cut"),
        (lambda key, version, correlation_id: b"\x7f\xff\xff\xff", ProtocolError, "frame of"),
        (lambda key, version, correlation_id: b"\xff\xff\xff\xff", ProtocolError, "frame of"),
        (
            lambda key, version, correlation_id: (
                metadata_answer(version, correlation_id)[:3]
                + bytes([metadata_answer(version, correlation_id)[3] - 4])
                + metadata_answer(version, correlation_id)[4:-4]
            ),
            ProtocolError,
            "MetadataResponse",
        ),
    ],
)
def test_what_is_no_answer_closes_the_connection(serve, answer, error, word):
    def script(api_key, version, correlation_id):
        if api_key == ApiKey.API_VERSIONS:
            return api_versions_answer(version, correlation_id)
        return answer(api_key, version, correlation_id)

    connection = open_connection(ClusterAccess("127.0.0.1", request_timeout_ms=150), "127.0.0.1", serve(script).port)
    with pytest.raises(error, match=word):
        connection.request(MetadataRequest())
    assert not connection.is_open
    with pytest.raises(KafkaError, match="is closed"):
        connection.send(MetadataRequest(), 9)


def test_who_accepts_and_says_nothing_is_waited_for_as_long_as_for_a_connection(serve):
    broker = serve(lambda api_key, version, correlation_id: b"")
    with pytest.raises(KafkaError, match="did not answer within 100 ms"):
        open_connection(ClusterAccess("127.0.0.1", connect_timeout_ms=100), "127.0.0.1", broker.port)


def test_a_broker_that_refuses_the_versions_question_is_refused(serve):
    def refusing(api_key, version, correlation_id):
        body = encode_message(ApiVersionsResponse(error_code=42), version)
        return frame(encode_response_header(correlation_id, 0), body)

    with pytest.raises(KafkaError, match="refused ApiVersions"):
        open_connection(ClusterAccess("127.0.0.1"), "127.0.0.1", serve(refusing).port)
