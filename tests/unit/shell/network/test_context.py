"""The context's additions to a handler's response."""

from __future__ import annotations

from moldau.shell.network.context import throttled
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.messages.groups_classic import HeartbeatResponse


def test_the_throttle_time_stands_in_the_answer() -> None:
    answer = HeartbeatResponse(error_code=27)
    assert throttled(answer, 0) is answer
    assert throttled(answer, 5) == HeartbeatResponse(error_code=27, throttle_time_ms=5)
    assert encode_message(HeartbeatResponse(error_code=27, throttle_time_ms=5), 0) == encode_message(answer, 0)
