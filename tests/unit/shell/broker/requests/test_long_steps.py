"""With any number of names in a request, no step of the loop goes through all of them, so no client waits that long."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any

import pytest

from benchmarks.loaders.long_requests import TOPIC, requests_of
from moldau.shell.network.dispatch import LONG_FRAME_BYTES
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from tests.support.node import offset_commit

pytestmark = pytest.mark.asyncio

COUNT = 3_000
CALL_NS = 1_000
"""The time of a function call by the node's timer; a turn of the loop has 1 ms for all long work."""
MAX_CALLS = 5_500
"""In one step; another pass over all names takes one to ten calls for each."""
IN_ONE_PIECE = (
    # one entity of that many parts, of which there are three kinds
    "ALTER_CLIENT_QUOTAS entries.entity",
    # at most 10,000 partitions are looked at
    "CREATE_TOPICS topics.assignments",
    # its fast path decodes up to MANY_BYTES at once; up to 5,000 partitions become a session
    "FETCH ",
)
TRIES = 3
TURNS = 20_000
"""The response comes within that many turns of the loop."""


class CallsOfEachStep:
    """The number of function calls in the loop's longest step; its time would depend on the machine's load."""

    def __init__(self) -> None:
        self.most = 0
        self._calls = 0
        self._all_calls = 0

    def timer_ns(self) -> int:
        return self._all_calls * CALL_NS

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = asyncio.events.Handle._run

        def run_counted(handle: asyncio.Handle) -> None:
            self._calls = 0
            run(handle)
            self.most = max(self.most, self._calls)

        monkeypatch.setattr(asyncio.events.Handle, "_run", run_counted)

    async def count_for(self, node: Any, request: bytes, label: str) -> None:
        """Sends `request` on a separate connection, and waits (turns of the loop, no time) for its response."""
        client = node.connect()
        sys.setprofile(self._count)
        try:
            client.feed(request)
            for _ in range(TURNS):
                if client.wire.sent or client.wire.is_closed:
                    return
                await node.turns(1)
        finally:
            sys.setprofile(None)
        raise AssertionError(f"{label}: no answer")

    def _count(self, frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_call"):
            self._calls += 1
            self._all_calls += 1


@pytest.mark.slow
@pytest.mark.parametrize("key", API_VERSIONS, ids=lambda key: key.name)
async def test_no_step_goes_through_all_that_a_request_names(
    start_node: Any, monkeypatch: pytest.MonkeyPatch, key: ApiKey
) -> None:
    steps = CallsOfEachStep()
    node = await start_node(timer_ns=steps.timer_ns)
    await node.create_topic(TOPIC, 10)
    await node.connect().ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="group"))
    await node.connect().ask(ApiKey.OFFSET_COMMIT, 8, offset_commit(1, group="group", topic=TOPIC))
    steps.watch(monkeypatch)
    for label, frame in requests_of(key, COUNT):
        # the first try imports modules and compiles codecs, and any try may meet the node's timed work
        for _ in range(TRIES):
            steps.most = 0
            await steps.count_for(node, frame, label)
            if steps.most <= MAX_CALLS:
                break
        is_short = len(frame) <= LONG_FRAME_BYTES
        assert is_short or label.startswith(IN_ONE_PIECE) or steps.most <= MAX_CALLS, f"{label}: {steps.most}"
