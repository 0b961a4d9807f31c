"""Questions of many callers to one broker are merged into few requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from moldau.shell.broker.cluster.merged_requests import MAX_MERGED, MAX_MERGED_THINGS, MergedRequests
from moldau.shell.peers.peer import NoAnswerError

pytestmark = pytest.mark.asyncio


class Asked:
    """A broker that answers a request with its questions when the test says so, and its callers."""

    def __init__(self) -> None:
        self.requests: list[dict[str, int]] = []
        self._answers: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.merged = MergedRequests[str, int, int](
            lambda work: self._tasks.append(asyncio.ensure_future(work)), self._send
        )

    async def _send(self, questions: Mapping[str, int]) -> Mapping[str, int]:
        self.requests.append(dict(questions))
        self._answers.append(asyncio.get_running_loop().create_future())
        await self._answers[-1]
        return self.requests[-1]

    async def ask(self, key: str, question: int, things: int = 1) -> asyncio.Task[int | None]:
        """Asks, and returns once the question is on its way or waits."""
        task = asyncio.ensure_future(self.merged.ask(key, question, things))
        await asyncio.sleep(0)
        return task

    async def answer(self, error: Exception | None = None) -> None:
        """To the last request; then the next one is sent, if there is one."""
        if error is None:
            self._answers[-1].set_result(None)
        else:
            self._answers[-1].set_exception(error)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_what_comes_while_a_request_is_under_way_goes_together_with_the_next_one() -> None:
    broker = Asked()
    asked = [await broker.ask(name, number) for number, name in enumerate("abcd")]
    assert broker.requests == [{"a": 0}]
    await broker.answer()
    assert broker.requests == [{"a": 0}, {"b": 1, "c": 2, "d": 3}]
    asked.append(await broker.ask("e", 4))
    await broker.answer()
    assert broker.requests[2:] == [{"e": 4}]
    await broker.answer()
    assert [await each for each in asked] == [0, 1, 2, 3, 4]
    asked.append(await broker.ask("f", 5))
    assert broker.requests[3:] == [{"f": 5}], "nothing is under way: it goes at once"
    await broker.answer()
    assert await asked[-1] == 5


async def test_a_request_holds_one_question_of_a_key() -> None:
    broker = Asked()
    asked = [await broker.ask(*each) for each in (("a", 0), ("b", 1), ("b", 2), ("c", 3))]
    await broker.answer()
    await broker.answer()
    await broker.answer()
    assert broker.requests == [{"a": 0}, {"b": 1, "c": 3}, {"b": 2}]
    assert [await each for each in asked] == [0, 1, 2, 3]


async def test_a_request_is_bounded_and_what_is_larger_goes_alone() -> None:
    broker = Asked()
    asked = [await broker.ask("first", 0)]
    asked += [await broker.ask(str(number), number) for number in range(MAX_MERGED + 1)]
    asked += [await broker.ask("large", 1, MAX_MERGED_THINGS + 1), await broker.ask("last", 2)]
    for _ in range(5):
        await broker.answer()
    assert [len(request) for request in broker.requests] == [1, MAX_MERGED, 1, 1, 1]
    assert all([await each is not None for each in asked])


async def test_where_no_answer_comes_those_who_wait_get_none_either_and_the_next_is_sent() -> None:
    broker = Asked()
    first = [await broker.ask("a", 0), await broker.ask("b", 1)]
    await broker.answer(NoAnswerError("lost"))
    assert [await each for each in first] == [None, None]
    second = [await broker.ask("a", 0), await broker.ask("b", 1)]
    await broker.answer()
    second.append(await broker.ask("c", 2))
    await broker.answer(NoAnswerError("lost"))
    assert [await each for each in second] == [0, None, None]
    last = await broker.ask("d", 3)
    await broker.answer()
    assert await last == 3


async def test_who_asked_first_may_be_cancelled_and_the_others_get_their_answers() -> None:
    broker = Asked()
    first, second, third = [await broker.ask(name, number) for number, name in enumerate("abc")]
    second.cancel()
    first.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    await broker.answer()
    assert await third == 2
    assert first.cancelled()
    assert second.cancelled()
