"""The coroutine of a handler: its first step is taken in the call that hands it the request.

Most answers are there after that step: they cost no task and no future. One that must wait is awaited by a task, which
goes on with the coroutine where it stands. In its first step a coroutine runs in no task, so what asks for the current
one (asyncio.timeout) is not for handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from types import coroutine
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

SHORT_WORK_THINGS = 50
"""A request or decision of no more does not pause: it would wait behind all the long ones."""


class Ended(Generic[Result]):
    """The coroutine has returned `result`; to await it gives that at once."""

    __slots__ = ("result",)

    def __init__(self, result: Result) -> None:
        self.result = result

    def __await__(self) -> Generator[Any, Any, Result]:
        yield from ()
        return self.result


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
    """Takes the first step of `coroutine`, and raises what it raises. Until that is awaited, no other coroutine may
    wait for the same future (asyncio refuses that): where several do, each waits for an `asyncio.shield` of it."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as end:
        return Ended(end.value)
    return Waiting(coroutine, waits_for)


async def all_ended(steps: Sequence[Ended[Result] | Waiting[Result]]) -> list[Result]:
    """What each of `steps` gives, in their order. Those that wait go on side by side, and wait for a thing in the order
    of their first steps."""
    waiting = [step for step in steps if isinstance(step, Waiting)]
    if len(waiting) < 2:
        return [await step for step in steps]
    results = iter(await asyncio.gather(*waiting))
    return [next(results) if isinstance(step, Waiting) else step.result for step in steps]


class FirstSteps:
    """As `begun`, for the handlers of a node, of which most end in their first step.

    A coroutine that ends raises StopIteration to the one that sends, which costs 0.3 us. So one coroutine lives on and
    awaits each handler; where a handler waits, it goes on with that one alone, and another takes its place.
    """

    __slots__ = ("_driver", "_has_ended", "_result", "_token")

    def __init__(self) -> None:
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._token = object()
        self._result: Any = None
        self._driver = self._drive(self._token)
        self._driver.send(None)

    async def _drive(self, token: object) -> Any:
        while True:
            work: Any = await self._next_work()
            result = await work
            if self._token is not token:
                return result
            self._result, result, work = result, None, None

    @coroutine
    def _next_work(self) -> Generator[None, Coroutine[Any, Any, Any], Coroutine[Any, Any, Any]]:
        self._has_ended = True
        return (yield)

    def begin(self, work: Coroutine[Any, Any, Any]) -> tuple[Any, Waiting[Any] | None]:
        """What `work` gives in its first step, or the rest of it. Raises what it raises."""
        self._has_ended = False
        driver = self._driver
        try:
            waits_for = driver.send(work)
        except BaseException:
            self._begin_anew()
            raise
        if self._has_ended:
            result, self._result = self._result, None
            return result, None
        self._begin_anew()
        return None, Waiting(driver, waits_for)
