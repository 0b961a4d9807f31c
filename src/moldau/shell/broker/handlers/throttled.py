"""The throttle time of an answer that a coordinator makes, which knows nothing of quotas."""

from __future__ import annotations

from collections.abc import Coroutine
from types import CoroutineType
from typing import TypeVar, cast

import msgspec

Response = TypeVar("Response", bound=msgspec.Struct)


def throttled(
    answer: Response | Coroutine[object, object, Response], throttle_time_ms: int
) -> Response | Coroutine[object, object, Response]:
    """`answer` with its `throttle_time_ms` set, now or when it comes. Versions without the field leave it out."""
    if not throttle_time_ms:
        return answer
    if isinstance(answer, CoroutineType):
        return _throttled_later(answer, throttle_time_ms)
    return msgspec.structs.replace(cast(Response, answer), throttle_time_ms=throttle_time_ms)


async def _throttled_later(answer: Coroutine[object, object, Response], throttle_time_ms: int) -> Response:
    return msgspec.structs.replace(await answer, throttle_time_ms=throttle_time_ms)
