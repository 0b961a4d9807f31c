"""Requests and responses as single messages between hosts: late, lost one way or both, answered at most once."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from moldau.simulation.calls import Calls
from moldau.simulation.loop import SimulatedProcess, VirtualLoop
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.trace import Trace

TIMEOUT_S = 5.0


class Hosts:
    """Two hosts: `server` answers each request with itself, `client` keeps its responses."""

    def __init__(self, loop, loss_share):
        self.network = SimulatedNetwork(loop, 1, Trace(loop.time))
        self.calls = Calls(self.network, Random(1), loss_share)
        self.server, self.client = SimulatedProcess("server"), SimulatedProcess("client")
        self.requests, self.answers = [], []
        self.calls.serve("server", self.server, self.receive)

    def receive(self, request, respond):
        self.requests.append(request)
        respond(request)

    def call(self, request):
        self.calls.call(self.client, "client", "server", request, self.answers.append, TIMEOUT_S)


def tell(story, loss_share=0.0):
    loop = VirtualLoop()
    try:

        async def run():
            hosts = Hosts(loop, loss_share)
            await story(hosts, loop)
            return hosts.requests, hosts.answers

        return loop.run_until_complete(run())
    finally:
        loop.close()


def test_each_request_gets_its_answer():
    async def story(hosts, loop):
        for request in range(20):
            hosts.call(request)
        await asyncio.sleep(2 * TIMEOUT_S)

    requests, answers = tell(story)
    assert sorted(requests) == sorted(answers) == list(range(20))


def test_a_caller_gets_nothing_once_for_each_request_whose_request_or_answer_is_lost():
    async def story(hosts, loop):
        for request in range(200):
            hosts.call(request)
        await asyncio.sleep(2 * TIMEOUT_S)

    requests, answers = tell(story, loss_share=0.3)
    given = [answer for answer in answers if answer is not None]
    assert len(answers) == 200
    assert len(given) < len(requests) < 200
    assert set(given) < set(requests)


@pytest.mark.parametrize(("way", "arrived"), [(("client", "server"), []), (("server", "client"), [7])])
def test_a_message_over_a_cut_link_is_lost(way, arrived):
    async def story(hosts, loop):
        hosts.network.cut(*way, 1.0)
        hosts.call(7)
        await asyncio.sleep(2 * TIMEOUT_S)

    assert tell(story) == (arrived, [None])


def test_an_answer_that_comes_too_late_is_dropped():
    async def story(hosts, loop):
        hosts.network.slow("server", "client", 100.0, 1_000.0)
        for request in range(10):
            hosts.call(request)
        await asyncio.sleep(2_000)

    requests, answers = tell(story)
    assert len(requests) == 10
    assert answers == [None] * 10


def test_a_process_that_stands_still_takes_its_requests_when_it_goes_on():
    async def story(hosts, loop):
        loop.pause(hosts.server)
        hosts.call(7)
        await asyncio.sleep(TIMEOUT_S / 2)
        assert hosts.requests == []
        loop.resume(hosts.server)
        await asyncio.sleep(1)

    assert tell(story) == ([7], [7])


def test_a_host_whose_process_is_dead_receives_nothing_and_a_dead_caller_no_answer():
    async def story(hosts, loop):
        loop.kill(hosts.server)
        hosts.call(1)
        await asyncio.sleep(2 * TIMEOUT_S)
        hosts.calls.serve("server", SimulatedProcess("server"), hosts.receive)
        hosts.call(2)
        loop.kill(hosts.client)
        await asyncio.sleep(2 * TIMEOUT_S)

    assert tell(story) == ([2], [None])
