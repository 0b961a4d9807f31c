"""What is asked of another broker for many at once, where its answers wait for replication.

A broker begins no request of a connection before the one in front is answered: one request for each transaction would
take one round trip to the followers for each. So one request is under way at a time, and what comes meanwhile goes
together with the next one: nothing waits for more than two of them, as long as one can hold all that wait. What one of
them holds up (a follower that is late) holds up the others of its request, and those behind it.
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
"""Questions of one request."""
MAX_MERGED_THINGS = 2_000
"""What they name in all; a question that names more goes alone. To encode so much takes a turn of the loop."""

Key = TypeVar("Key", bound=Hashable)
Question = TypeVar("Question")
Answer = TypeVar("Answer")


class _Waiting(msgspec.Struct, Generic[Question, Answer]):
    question: Question
    things: int
    answer: asyncio.Future[Answer | None]


class MergedRequests(Generic[Key, Question, Answer]):
    """Questions of one kind to one broker. `send` makes one request of several, by key, and gives the answers that
    came, by key; it raises NoAnswerError. `spawn`: see OwnNode."""

    def __init__(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        send: Callable[[Mapping[Key, Question]], Awaitable[Mapping[Key, Answer]]],
    ) -> None:
        self._spawn = spawn
        self._send = send
        self._is_under_way = False
        self._waiting: dict[Key, deque[_Waiting[Question, Answer]]] = {}
        """In order; a request holds one of a key, for answers tell no more of theirs."""

    async def ask(self, key: Key, question: Question, things: int) -> Answer | None:
        """The answer; None where none came, also to the request in front: the broker is not reached. `things`: how many
        the question names."""
        if self._is_under_way:
            answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(key, deque()).append(_Waiting(question, things, answer))
            return await answer
        # the first caller sends the request itself: where nobody else asks, that needs no task
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
        """Ends all that wait: they would have to wait as long again for a broker that does not answer."""
        waiting, self._waiting = self._waiting, {}
        for line in waiting.values():
            for each in line:
                if not each.answer.done():
                    each.answer.set_result(None)
