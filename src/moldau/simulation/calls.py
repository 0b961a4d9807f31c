"""Requests and responses between hosts. Each is one message, which may be late, lost or out of order.

A message over a cut link is lost. Only the host that waits for the response may send the request again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random

from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.network import SimulatedNetwork

Respond = Callable[[object], None]
Receive = Callable[[object, Respond], None]
"""Handles a request. `respond` may be called later, at most once."""


class Calls:
    """Delivers messages. A host that is down or unknown receives nothing."""

    def __init__(self, network: SimulatedNetwork, random: Random, loss_share: float) -> None:
        self.loss_share = loss_share
        self._network = network
        self._loop = network.loop
        self._random = random
        self._hosts: dict[str, tuple[SimulatedProcess, Receive]] = {}
        """The process on each host, and the handler of its requests."""
        self._wire = copy_context()
        """Messages in flight belong to no process."""

    def serve(self, host: str, process: SimulatedProcess, receive: Receive) -> None:
        """Delivers requests to `host` to `receive` from now on."""
        self._hosts[host] = (process, receive)

    def call(
        self,
        caller: SimulatedProcess,
        source: str,
        target: str,
        request: object,
        take_answer: Callable[[object | None], None],
        timeout_s: float,
    ) -> None:
        """Sends a request. `take_answer` is called once, with the response, or with None after `timeout_s`."""
        is_answered = False

        def answer(value: object | None) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                take_answer(value)

        def receive() -> None:
            process, take = self._hosts.get(target, (None, None))
            if process is None or take is None or process.is_dead:
                return

            def respond(value: object) -> None:
                self._carry(target, source, lambda: answer(value), caller.context)

            # a paused process handles its requests when it resumes
            self._loop.call_soon(take, request, respond, context=process.context)

        self._carry(source, target, receive, self._wire)
        self._loop.call_later(timeout_s, answer, None, context=caller.context)

    def _carry(self, source: str, target: str, act: Callable[[], None], context: Context) -> None:
        network, random = self._network, self._random
        link = network.link(source, target)
        delay_s = network.delay(random) + random.uniform(0, link.delay_s)
        if random.random() < self.loss_share or link.is_cut:
            network.trace.note("lost", source, target)
            return
        self._loop.call_later(delay_s, act, context=context)
