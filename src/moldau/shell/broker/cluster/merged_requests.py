"""Merges questions to another broker into one request at a time, for answers that wait for replication.

A broker handles the requests of a connection one after the other. With one request for each transaction, each would
cost a round trip to the followers. Therefore one request is in flight at a time, and the questions that arrive
meanwhile share the next one. No question waits for more than two requests, as long as one can hold all that wait. A
late follower delays all questions of its request, and the next requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from moldau.shell.peers.peer import NoAnswerError

MAX_MERGED = 200
"""The most questions in one request."""
MAX_MERGED_THINGS = 2_000
"""The most partitions or other things that the questions of a request name. A question that names more travels alone.
Encoding this many takes one turn of the loop."""

Key = TypeVar("Key", bound=Hashable)
Question = TypeVar("Question")
Answer = TypeVar("Answer")


class _Waiting(msgspec.Struct, Generic[Question, Answer]):
    question: Question
    things: int
    answer: asyncio.Future[Answer | None]


class MergedRequests(Generic[Key, Question, Answer]):
    """Questions of one kind to one broker. `send` sends several questions, by key, in one request, and returns the
    answers received, by key; it raises NoAnswerError. `spawn`: see OwnNode."""

    def __init__(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        send: Callable[[Mapping[Key, Question]], Awaitable[Mapping[Key, Answer]]],
    ) -> None:
        self._spawn = spawn
        self._send = send
        self._is_under_way = False
        self._waiting: dict[Key, deque[_Waiting[Question, Answer]]] = {}
        """In order of arrival. A request holds one question for each key, as answers are matched by key."""

    async def ask(self, key: Key, question: Question, things: int) -> Answer | None:
        """The answer. None if this request or the one before it got none: the broker is not reached. `things`: how many
        things the question names."""
        if self._is_under_way:
            answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(key, deque()).append(_Waiting(question, things, answer))
            return await answer
        # the first caller sends the request itself: without other callers no task is needed
        self._is_under_way = True
        try:
            return (await self._send({key: question})).get(key)
        except NoAnswerError:
            self._give_up()
            return None
        finally:
            if self._waiting:
                self._spawn(self._send_all())
            else:
                self._is_under_way = False

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._send_next()
        finally:
            self._give_up()
            self._is_under_way = False

    async def _send_next(self) -> None:
        sent = self._take()
        answers: Mapping[Key, Answer] = {}
        try:
            answers = await self._send({key: each.question for key, each in sent.items()})
        except NoAnswerError:
            self._give_up()
        finally:
            for key, each in sent.items():
                if not each.answer.done():
                    each.answer.set_result(answers.get(key))

    def _take(self) -> dict[Key, _Waiting[Question, Answer]]:
        taken: dict[Key, _Waiting[Question, Answer]] = {}
        things = 0
        for key in list(islice(self._waiting, MAX_MERGED)):
            things += self._waiting[key][0].things
            if taken and things > MAX_MERGED_THINGS:
                break
            line = self._waiting.pop(key)
            taken[key] = line.popleft()
            if line:
                self._waiting[key] = line
        return taken

    def _give_up(self) -> None:
        """Ends all waiting questions: the broker does not answer, and they would wait as long again."""
        waiting, self._waiting = self._waiting, {}
        for line in waiting.values():
            for each in line:
                if not each.answer.done():
                    each.answer.set_result(None)
