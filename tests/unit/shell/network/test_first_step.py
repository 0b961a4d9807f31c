"""A coroutine whose first step runs without a task, and which a task continues."""

from __future__ import annotations

import asyncio

import pytest

from moldau.shell.network.first_step import Ended, FirstSteps, Waiting, all_ended, begun

pytestmark = pytest.mark.asyncio


async def test_what_ends_in_its_first_step_needs_no_task() -> None:
    async def answer() -> int:
        return 7

    step = begun(answer())
    assert isinstance(step, Ended)
    assert step.result == 7


async def test_an_error_of_the_first_step_is_raised_there() -> None:
    async def answer() -> int:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        begun(answer())


async def test_a_task_goes_on_where_the_first_step_ended() -> None:
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(3)]
    seen: list[object] = []

    async def answer() -> str:
        for future in futures:
            try:
                seen.append(await future)
            except ValueError as error:
                seen.append(str(error))
        return "all"

    step = begun(answer())
    assert isinstance(step, Waiting)

    async def go_on() -> str:
        return await step

    task = loop.create_task(go_on())
    futures[0].set_result(1)
    await asyncio.sleep(0)
    futures[1].set_exception(ValueError("second"))
    futures[2].set_result(3)
    assert await task == "all"
    assert seen == [1, "second", 3]


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_it_is_closed_once_when_its_task_is_cancelled(turns: int) -> None:
    loop = asyncio.get_running_loop()
    ends: list[str] = []

    async def answer() -> None:
        try:
            await loop.create_future()
        finally:
            ends.append("closed")

    step = begun(answer())
    assert isinstance(step, Waiting)

    async def go_on(step: Waiting[None]) -> None:
        await step

    task = loop.create_task(go_on(step))
    del step
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    del task  # the task keeps its exception, which keeps the frame
    assert ends == ["closed"]


async def test_many_first_steps_are_taken_one_behind_the_other() -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    steps = FirstSteps()

    async def answer(value: int) -> int:
        return value

    async def wait() -> str:
        return await future

    async def fail() -> None:
        raise ValueError("at once")

    assert steps.begin(answer(1)) == (1, None)
    none, waiting = steps.begin(wait())
    assert none is None
    assert waiting is not None
    assert steps.begin(answer(2)) == (2, None)
    with pytest.raises(ValueError, match="at once"):
        steps.begin(fail())
    assert steps.begin(answer(3)) == (3, None)

    async def go_on() -> object:
        return await waiting

    task = loop.create_task(go_on())
    future.set_result("later")
    assert await task == "later"


async def test_several_that_wait_go_on_side_by_side_in_the_order_of_their_first_steps() -> None:
    first, both, last = asyncio.Event(), asyncio.Event(), asyncio.Event()
    went_on: list[int] = []

    async def work(number: int) -> int:
        if number:
            await first.wait()
            went_on.append(number)
            if len(went_on) == 2:
                both.set()
            await last.wait()
        return number

    ended = asyncio.ensure_future(all_ended([begun(work(number)) for number in (1, 0, 2)]))
    first.set()
    await both.wait()
    assert went_on == [1, 2]
    last.set()
    assert await ended == [1, 0, 2]
    assert await all_ended([]) == []
