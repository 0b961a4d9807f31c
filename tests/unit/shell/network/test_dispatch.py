"""Requests that the dispatcher rejects, and text of strangers that stays out of our log."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.network.event_log import EventLog, escape
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest


def header(key: int, version: int, client_id: bytes | None = b"c") -> bytes:
    length = -1 if client_id is None else len(client_id)
    head = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + b"\x00\x00\x00\x07"
    return head + length.to_bytes(2, "big", signed=True) + (client_id or b"")


OWN_CLUSTER, OWN_NODE = "own", 1_000_000
"""Stand for the id of the cluster and of the broker under test."""


@pytest.mark.asyncio
@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (4, 0), (71, 0), (0, 2), (0, 14), (1, 3), (22, 6)])
async def test_an_unknown_key_or_version_closes(client: Any, key: int, version: int) -> None:
    client.feed(frame(header(key, version)))
    assert client.wire.is_closed
    assert not client.wire.sent


@pytest.mark.asyncio
@pytest.mark.parametrize("version", [6, 99, -1])
@pytest.mark.parametrize("rest", [b"", b"\x00", b"\x00junk"])
async def test_api_versions_of_an_unknown_version_gets_35_and_stays_open(
    client: Any, version: int, rest: bytes
) -> None:
    client.feed(frame(header(18, version), rest))
    assert not client.wire.is_closed
    sent = bytes(client.wire.sent)
    assert sent == b"\x00\x00\x00\x10\x00\x00\x00\x07\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x05"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, 0),
        (OWN_CLUSTER, OWN_NODE, 0),
        (OWN_CLUSTER, -1, 42),
        (None, OWN_NODE, 42),
        ("other", -1, 42),
        ("other", OWN_NODE, 129),
        ("", OWN_NODE, 129),
        (OWN_CLUSTER, 77, 129),
        (OWN_CLUSTER, -2, 129),
    ],
)
async def test_a_client_that_meant_another_node_has_to_bootstrap_again(
    node: Any, cluster_id: str | None, node_id: int, code: int
) -> None:
    """As Apache Kafka 4.4.0 answered (KIP-1242)."""
    broker = node.node.broker
    meant = broker.image.cluster_id if cluster_id == OWN_CLUSTER else cluster_id
    request = ApiVersionsRequest("raw", "1", meant, broker.node_id if node_id == OWN_NODE else node_id)
    answer = await node.connect().ask(ApiKey.API_VERSIONS, 5, request)
    assert (answer.error_code, bool(answer.api_keys)) == (code, code == 0)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "body", [b"", b"\x00", b"\x00" * 9, header(3, 9)[:-1], header(3, 9), header(3, 9) + b"\xff" * 6]
)
async def test_a_cut_header_closes(client: Any, body: bytes) -> None:
    client.feed(frame(body))
    assert client.wire.is_closed


@pytest.mark.asyncio
@pytest.mark.parametrize("client_id", [None, b"", b"\xff\xfe", b"a" * 30_000, b"line\nfeed"])
async def test_any_client_id_is_accepted(client: Any, client_id: bytes | None) -> None:
    client._asked = [(ApiKey.API_VERSIONS, 0)] * 7
    client.feed(frame(header(18, 0, client_id)))
    assert len(client.answers()) == 1


@pytest.mark.asyncio
async def test_every_request_is_counted(node: Any, client: Any) -> None:
    client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    client.send(ApiKey.METADATA, 1, MetadataRequest(topics=()))
    client.send(ApiKey.METADATA, 1, MetadataRequest(topics=()))
    counts = node.node.dispatcher.request_counts()
    assert counts["API_VERSIONS"] == 1
    assert counts["METADATA"] == 2


@pytest.mark.asyncio
async def test_the_first_requests_are_all_timed_then_one_in_32(node: Any) -> None:
    looks = 0

    def timer() -> float:
        nonlocal looks
        looks += 1
        return float(looks)

    node.node.dispatcher.timer = timer
    client = node.connect()
    for _ in range(64 + 320):
        client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    assert looks == 2 * (64 + 10)


EMPTY_METADATA_V9 = b"\x01\x00\x00\x00\x00"


@pytest.mark.asyncio
@pytest.mark.parametrize("tags", [b"\x00", b"\x02\x00\x01a\x05\x02bb", b"\x90\x4e" + b"\x00\x00" * 10_000])
async def test_unknown_tagged_fields_of_a_header_are_skipped(client: Any, tags: bytes) -> None:
    client._asked = [(ApiKey.METADATA, 9)] * 7
    client.feed(frame(header(3, 9), tags, EMPTY_METADATA_V9))
    assert len(client.answers()) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "tags",
    [b"\x01", b"\x80", b"\x01\x00", b"\x01\x00\x7f", b"\xff\xff\xff\xff\xff\xff", b"\x91\x4e" + b"\x00\x00" * 10_001],
)
async def test_tagged_fields_are_bounded(client: Any, tags: bytes, caplog: pytest.LogCaptureFixture) -> None:
    client.feed(frame(header(3, 9), tags))
    assert client.wire.is_closed
    assert "Traceback" not in caplog.text  # bytes of a stranger are not a bug of ours


def test_a_foreign_string_cannot_forge_a_log_line() -> None:
    assert escape("a\nERROR forged") == "a\\nERROR forged"
    assert escape(b"\x00\xff\x1b[31m").isascii()
    assert escape(b"\x00\xff\x1b[31m").isprintable()
    assert len(escape("x" * 100_000)) < 300


def test_a_kind_of_line_is_written_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = EventLog(clock)
    with caplog.at_level(logging.INFO, "moldau"):
        for index in range(50):
            log.warn("kind", f"line {index}")
        log.warn("other", "spoken for itself")
        clock.advance(1_000)
        log.warn("kind", "again")
    assert [record.getMessage() for record in caplog.records] == [
        "line 0",
        "spoken for itself",
        f"again (49 more before: {', '.join(f'line {index}' for index in range(1, 6))}, and others)",
    ]


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_what_a_line_leaves_out_is_named_in_one_line_once_the_second_is_over(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = EventLog(clock)
    with caplog.at_level(logging.INFO, "moldau"):
        for name in "abcb":
            log.warn("topic created", f"topic {name} is created", about=name)
        log.write_left_out()
        clock.advance(1_000)
        log.write_left_out()
        log.write_left_out()
    assert lines_of(caplog) == ["topic a is created", "topic created, 3 more: b, c"]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_names_of_what_is_left_out_are_bounded_in_count_and_length(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog(ManualClock())
    with caplog.at_level(logging.INFO, "moldau"):
        for index in range(10_000):
            log.info("kind", "line", about=f"{index}" * 100)
        log.write_left_out(is_ending=True)
    assert lines_of(caplog)[1].startswith("kind, 9999 more: 1111")
    assert len(lines_of(caplog)[1]) < 2_000
