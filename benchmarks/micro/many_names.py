"""One request that names very many things, for every API that can: how long a canary beside it waits for its answers.

    python benchmarks/micro/many_names.py [--count 100000] [--only METADATA --only ...]

The canary asks for the brokers, again and again with a short rest between, on a connection of its own. For each API:
seconds until the long answer has come, its bytes, and the canary's median, 99th percentile and longest wait in ms.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from benchmarks.loaders.canned import request_frame
from benchmarks.peers import Moldau
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.schema import fields_of

CANARY_REST_S = 0.001
ANSWER_TIMEOUT_S = 120
VALUES = {
    "acks": 1,
    "allow_auto_topic_creation": False,
    "resource_type": 2,
    "timeout_ms": 60_000,
    "num_partitions": 1,
    "replication_factor": 1,
    "mechanism": 1,
}
"""Of fields by name, so that the handler looks further than at them; others have their defaults."""
CANARY = request_frame(int(ApiKey.METADATA), 9, MetadataRequest(topics=()))


hints_of = cache(get_type_hints)
"""By class: to resolve them takes 100 us."""


def filled(kind: Any, number: int, version: int) -> Any:
    """A value of a field's type; arrays have one element."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return message_of(kind, version, number)
    if get_origin(kind) is tuple:
        return (filled(get_args(kind)[0], number, version),)
    if kind is str or str in get_args(kind):
        return f"absent-{number}"
    if kind is int:
        return 0
    structs = [one for one in get_args(kind) if get_origin(one) is tuple]
    return filled(structs[0], number, version) if structs else None


def message_of(cls: type[msgspec.Struct], version: int, number: int = 0, count: int = 1) -> msgspec.Struct:
    """A message of `cls` whose first array has `count` elements."""
    values: dict[str, Any] = {}
    hints = hints_of(cls)
    is_first = True
    for field in fields_of(cls):
        if not field.is_present(version):
            continue
        kind = hints[field.name]
        array = next((one for one in (kind, *get_args(kind)) if get_origin(one) is tuple), None)
        if field.name in VALUES:
            values[field.name] = VALUES[field.name]
        elif array is not None and is_first and count > 1:
            is_first = False
            values[field.name] = tuple(filled(get_args(array)[0], each, version) for each in range(count))
        elif count == 1 and (value := filled(kind, number, version)) is not None:
            values[field.name] = value
    return cls(**values)


def has_array(cls: type[msgspec.Struct]) -> bool:
    hints = hints_of(cls).values()
    return any(get_origin(one) is tuple for kind in hints for one in (kind, *get_args(kind)))


def receive(client: socket.socket) -> int:
    """The size of one answer; 0 where the connection is closed."""
    head = client.recv(4, socket.MSG_WAITALL)
    left = size = int.from_bytes(head, "big")
    while left > 0 and (some := client.recv(min(left, 1 << 20))):
        left -= len(some)
    return size


class Canary(threading.Thread):
    """Asks until it is stopped; `waits_ms` are those of its answers."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.waits_ms: list[float] = []
        self.is_stopped = threading.Event()
        self._client = socket.create_connection(("127.0.0.1", port))
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self) -> None:
        with self._client:
            while not self.is_stopped.is_set():
                begin = time.perf_counter()
                self._client.sendall(CANARY)
                receive(self._client)
                self.waits_ms.append((time.perf_counter() - begin) * 1_000)
                time.sleep(CANARY_REST_S)


def measure(port: int, request: bytes) -> dict[str, float]:
    with socket.create_connection(("127.0.0.1", port), ANSWER_TIMEOUT_S) as client:
        canary = Canary(port)
        canary.start()
        begin = time.perf_counter()
        client.sendall(request)
        size = receive(client)
        seconds = time.perf_counter() - begin
        canary.is_stopped.set()
        canary.join()
    waits = sorted(canary.waits_ms)
    return {
        "seconds": seconds,
        "answer_bytes": size,
        "canary_p50_ms": statistics.median(waits),
        "canary_p99_ms": waits[min(len(waits) - 1, len(waits) * 99 // 100)],
        "canary_max_ms": waits[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--only", action="append", help="the name of an API, as METADATA; may be given again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-many-names-") as directory:
        broker = Moldau("moldau", Path(directory))
        broker.start()
        try:
            for key, row in API_VERSIONS.items():
                if (arguments.only and key.name not in arguments.only) or not has_array(row.request):
                    continue
                message = message_of(row.request, row.max_version, count=arguments.count)
                found = measure(broker.port, request_frame(int(key), row.max_version, message))
                print(f"{key.name:36}", *(f"{name} {value:10.1f}" for name, value in found.items()), flush=True)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
