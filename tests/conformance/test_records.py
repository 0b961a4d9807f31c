"""A client and all others read the records that it wrote, unchanged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.clients import ALL_CLIENTS, CLIENTS, Client, Received

MEGABYTE = 1_000_000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_in_order_with_every_codec(client: Client, new_topic: Callable[..., str], codec: str) -> None:
    topic = new_topic()
    records = [Received(f"key-{n}".encode(), f"value-{n}".encode() * 20) for n in range(10)]
    client.produce(topic, records, codec=codec)
    assert client.read(topic, 10) == records


def test_null_and_empty_are_told_apart(client: Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    records = [Received(None, b"no key"), Received(b"no value", None), Received(b"both", b"value")]
    client.produce(topic, records)
    assert client.read(topic, 3) == records


def test_headers_keep_their_order_and_repeat(client: Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    last = (("empty", None),) if client.has_null_headers else (("empty", b""),)
    records = [Received(b"k", b"v", (("trace", b"1"), ("trace", b"2"), *last))]
    client.produce(topic, records)
    assert client.read(topic, 1) == records


def test_a_record_of_a_megabyte(client: Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    records = [Received(b"large", b"x" * MEGABYTE)]
    client.produce(topic, records)
    assert client.read(topic, 1) == records


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(
    "kinds", [CLIENTS, pytest.param(ALL_CLIENTS, marks=pytest.mark.foreign)], ids=["python", "all"]
)
def test_every_client_reads_what_the_others_wrote(
    bootstrap_servers: str, new_topic: Callable[..., str], codec: str, kinds: dict[str, type[Client]]
) -> None:
    topic = new_topic()
    clients = [kind(bootstrap_servers) for kind in kinds.values() if kind.missing() is None]
    records = [Received(client.name.encode(), b"written with " + codec.encode()) for client in clients]
    for client, record in zip(clients, records, strict=True):
        client.produce(topic, [record], codec=codec)
    for client in clients:
        assert client.read(topic, len(records)) == records
