"""The coroutine of a handler: its first step runs in the call that passes it the request.

Most answers are complete after that step and cost no task and no future. A coroutine that must wait is continued by a
task. The first step of a coroutine runs outside any task, so handlers must not use functions that need the current task
(asyncio.timeout).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from types import coroutine
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

SHORT_WORK_THINGS = 50
"""A request or decision up to this size does not pause, because it would wait behind all the long ones."""


class Ended(Generic[Result]):
    """The coroutine has returned `result`; awaiting this returns it at once."""

    __slots__ = ("result",)

    def __init__(self, result: Result) -> None:
        self.result = result

    def __await__(self) -> Generator[Any, Any, Result]:
        yield from ()
        return self.result


class Waiting(Generic[Result]):
    """The coroutine has started and waits for the future that it yielded. A task must await this once."""

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
    """Runs the first step of `coroutine` and raises its exception. Until the result is awaited, no other coroutine may
    wait for the same future (asyncio forbids it): if several do, each waits for an `asyncio.shield` of it."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as end:
        return Ended(end.value)
    return Waiting(coroutine, waits_for)


async def all_ended(steps: Sequence[Ended[Result] | Waiting[Result]]) -> list[Result]:
    """The results of `steps`, in order. The waiting ones continue concurrently; those that wait for the same thing get
    it in the order of their first steps."""
    waiting = [step for step in steps if isinstance(step, Waiting)]
    if len(waiting) < 2:
        return [await step for step in steps]
    results = iter(await asyncio.gather(*waiting))
    return [next(results) if isinstance(step, Waiting) else step.result for step in steps]


class FirstSteps:
    """As `begun`, for the handlers of a node, most of which end in their first step.

    A coroutine that ends raises StopIteration in its sender, which costs 0.3 us. So one long-lived coroutine awaits
    each handler. If a handler waits, that coroutine continues with this handler only, and a new one takes its place.
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
        """The result of the first step of `work`, or the rest of `work`. Raises the exception of `work`."""
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
