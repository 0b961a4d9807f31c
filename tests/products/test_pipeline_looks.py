"""The queries of a pipeline look at its clusters in turn: only two of them wait for a broker that does not answer, and
the others learn it from them."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

from moldau.client.blocking.silence import PATIENCE_MS, ListeningDialer
from moldau.ports import Stream
from moldau.products.pipelines.running.query_progress import QueryProgress
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.testing import Cluster
from moldau.transport.tcp import TCP

if TYPE_CHECKING:
    from moldau.spark import SparkSession

ANSWERS_WITHIN_MS = 2_000


class HastyStream:
    """Waits for a response for ANSWERS_WITHIN_MS, where a look waits for ten seconds."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.send, self.has_ended, self.close = stream.send, stream.has_ended, stream.close

    def receive(self, max_bytes: int, timeout_ms: int) -> bytes:
        return self._stream.receive(max_bytes, min(timeout_ms, ANSWERS_WITHIN_MS))

    def receive_into(self, target: memoryview, timeout_ms: int) -> int:
        return self._stream.receive_into(target, min(timeout_ms, ANSWERS_WITHIN_MS))


class Dialer:
    """Of TCP. `dialed`: the number of requested connections. `ahead_ms`: of its clock."""

    def __init__(self) -> None:
        self.dialed = self.ahead_ms = 0

    def dial(self, host: str, port: int, timeout_ms: int) -> Stream:
        self.dialed += 1
        return HastyStream(TCP.dial(host, port, timeout_ms))

    def monotonic_ms(self) -> int:
        return TCP.monotonic_ms() + self.ahead_ms

    def pause(self, length_ms: int) -> None:
        TCP.pause(length_ms)


def test_a_broker_that_stands_still_is_not_waited_for_by_each_query(tmp_path: Path) -> None:
    with Cluster() as cluster, ExitStack() as stack:
        targets = "".join(f"  to_{number}: {{from: orders, path: out/{number}}}\n" for number in range(5))
        text = (
            f"name: shop\nbootstrap_servers: {cluster.bootstrap_servers}\n"
            f"sources:\n  orders: {{topic: {cluster.topic()}, format: string}}\ntargets:\n{targets}"
        )
        spec = parse_spec(text, file_name="spec.yaml", directory=tmp_path)
        dialer = Dialer()
        listening = ListeningDialer(dialer)
        looks = [
            stack.enter_context(closing(QueryProgress(cast("SparkSession", None), spec, query, "", listening)))
            for query in spec.queries
        ]
        assert [look.look("running").lag for look in looks] == [0] * len(looks)
        cluster.pause()
        # the first finds that an open connection is silent, the second that a new one is silent too
        assert [look.look("running").lag for look in looks[:2]] == [None, None]
        assert listening.silent() == [cluster.bootstrap_servers]
        dialed = dialer.dialed
        for look in looks:
            assert "does not answer; trying for another" in str(look.look("running").trouble)
        assert dialer.dialed == dialed
        cluster.resume()
        dialer.ahead_ms = PATIENCE_MS
        assert [look.look("running").lag for look in looks] == [0] * len(looks)
