"""The coroutine of a handler: its first step is taken in the call that hands it the request.

Most answers are there after that step: they cost no task and no future. One that must wait is awaited by a task, which
goes on with the coroutine where it stands. In its first step a coroutine runs in no task, so what asks for the current
one (asyncio.timeout) is not for handlers.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Ended(Generic[Result]):
    """The coroutine has returned `result`."""

    __slots__ = ("result",)

    def __init__(self, result: Result) -> None:
        self.result = result


class Waiting(Generic[Result]):
    """The coroutine has begun, and waits for the future that it gave. To be awaited once, by a task."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, Result], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Result]:
        coroutine, waits_for = self._coroutine, self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except GeneratorExit:
                    coroutine.close()
                    raise
                except BaseException as error:
                    waits_for = coroutine.throw(error)
                else:
                    waits_for = coroutine.send(sent)
        except StopIteration as end:
            result: Result = end.value
            return result


def begun(coroutine: Coroutine[Any, Any, Result]) -> Ended[Result] | Waiting[Result]:
    """Takes the first step of `coroutine`, and raises what it raises."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as end:
        return Ended(end.value)
    return Waiting(coroutine, waits_for)
