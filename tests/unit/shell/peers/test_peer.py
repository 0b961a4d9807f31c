"""A peer is connected when it is needed, and again after a loss; a request without a response fails in time."""

from __future__ import annotations

import asyncio

import pytest

from moldau.core.metadata.image import BrokerListener
from moldau.shell.peers.peer import FIRST_TRY_S, MAX_BACKOFF_MS, MAX_IN_FLIGHT, NoAnswerError, Peer
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.loop import SimulatedProcess, VirtualLoop
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.trace import Trace
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.messages.metadata import MetadataRequest
from tests.support.answering_node import AnsweringNode
from tests.support.stories import run_by

HOST, PORT = "other", 9093
ADDRESS = BrokerListener("CONTROLLER", HOST, PORT)
ASKED = MetadataRequest(topics=())


class World:
    """A simulated network with this node, and another one that may listen."""

    def __init__(self, loop):
        self.loop = loop
        self.network = SimulatedNetwork(loop, 1, Trace(loop.time))
        self.other = AnsweringNode()
        self.process = SimulatedProcess(HOST)
        self.losses = []
        self.failures = []
        loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self.peer = self.peer_at(ADDRESS)

    def peer_at(self, address):
        return Peer(address, HostNetwork(self.network, "me"), lambda: self.losses.append(self.loop.time()))

    async def listen(self, host=HOST):
        self.process = SimulatedProcess(host)
        await self.loop.run_in_process(self.process, self.network.listen(host, PORT, self.other.accept))

    def die(self):
        self.loop.kill(self.process)
        self.network.drop_process(self.process)


def tell(story):
    """Runs `story` in a simulated world, to its end."""
    loop = VirtualLoop()
    try:

        async def run():
            await story(World(loop))

        loop.run_until_complete(run())
    finally:
        loop.close()


@run_by(tell)
async def test_the_highest_version_is_spoken_that_both_sides_know(world):
    await world.listen()
    await world.peer.request(ASKED, 1_000)
    assert API_VERSIONS[ApiKey.METADATA].max_version > 9
    assert world.other.requests == [(ApiKey.METADATA, 9)]


@run_by(tell)
async def test_a_node_that_comes_later_is_reached_after_a_bounded_pause(world):
    for _ in range(20):
        with pytest.raises(NoAnswerError):
            await world.peer.request(ASKED, 10_000)
    await world.listen()
    began_s = world.loop.time()
    await world.peer.request(ASKED, 10_000)
    assert world.loop.time() - began_s < MAX_BACKOFF_MS / 1_000 + 0.4


@run_by(tell)
async def test_the_pauses_between_tries_grow(world):
    began_s = world.loop.time()
    for _ in range(20):
        with pytest.raises(NoAnswerError):
            await world.peer.request(ASKED, 10_000)
    assert world.loop.time() - began_s > 15 * MAX_BACKOFF_MS / 1_000


@run_by(tell)
async def test_no_answer_in_time_ends_the_connection_and_the_next_request_makes_another(world):
    await world.listen()
    world.other.is_mute = True
    with pytest.raises(NoAnswerError, match="no answer in 500 ms"):
        await world.peer.request(ASKED, 500)
    world.other.is_mute = False
    await world.peer.request(ASKED, 1_000)
    assert [one.is_lost for one in world.other.connections] == [True, False]
    assert world.losses == []  # this side gave up


@run_by(tell)
async def test_a_peer_that_dies_is_told_once_and_its_requests_fail_at_once(world):
    await world.listen()
    await world.peer.request(ASKED, 1_000)
    world.other.is_mute = True
    asked = [asyncio.ensure_future(world.peer.request(ASKED, 60_000)) for _ in range(3)]
    await asyncio.sleep(1)
    world.die()
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results] == [NoAnswerError] * 3
    assert world.loop.time() < 5
    assert len(world.losses) == 1


@run_by(tell)
async def test_a_peer_that_has_moved_is_asked_at_its_new_address(world):
    await world.listen()
    await world.peer.request(ASKED, 1_000)
    await world.listen("elsewhere")
    world.peer.move_to(BrokerListener("CONTROLLER", "elsewhere", PORT))
    await world.peer.request(ASKED, 1_000)
    assert [one.is_lost for one in world.other.connections] == [True, False]
    assert world.losses == []


@run_by(tell)
async def test_a_restarted_peer_is_asked_again_despite_a_silent_end_of_the_connection(world):
    await world.listen()
    await world.peer.request(ASKED, 1_000)
    world.loop.kill(world.process)
    world.network.drop_process(world.process, is_silent=True)
    await world.listen()
    asked = asyncio.ensure_future(world.peer.request(ASKED, 30_000))
    await asyncio.sleep(1)
    assert not asked.done()
    world.peer.begin_anew()
    with pytest.raises(NoAnswerError):
        await asked
    await world.peer.request(ASKED, 1_000)
    assert world.loop.time() < 2
    assert world.losses == []


@pytest.mark.parametrize("end", [Peer.rest, Peer.begin_anew, Peer.close])
@pytest.mark.parametrize("is_machine_silent", [True, False])
@run_by(tell)
async def test_who_waits_for_a_connection_to_a_peer_that_is_given_up_waits_no_longer(world, *, is_machine_silent, end):
    await world.listen()
    if is_machine_silent:
        world.network.cut("me", HOST, 60)
    else:
        world.loop.pause(world.process)
    asked = asyncio.ensure_future(world.peer.request(ASKED, 30_000))
    await asyncio.sleep(0.5)
    assert not asked.done()
    end(world.peer)
    await asyncio.sleep(0)
    end(world.peer)  # while the first end is in progress
    with pytest.raises(NoAnswerError, match="not waited for any more"):
        await asked
    assert world.loop.time() < 1
    assert world.losses == []


@pytest.mark.parametrize("end", [Peer.rest, Peer.begin_anew, Peer.close])
@run_by(tell)
async def test_a_peer_may_be_given_up_in_the_turn_in_which_a_try_to_connect_takes_too_long(world, *, end):
    await world.listen()
    world.network.cut("me", HOST, 60)
    asked = asyncio.ensure_future(world.peer.request(ASKED, 30_000))
    for _ in range(10):  # until the first attempt times out
        await asyncio.sleep(0)
    due_s = world.loop.time() + FIRST_TRY_S
    world.loop.call_at(due_s, world.loop.call_soon, end, world.peer)  # after the time-out, before its task knows
    with pytest.raises(NoAnswerError, match="not waited for any more"):
        await asked
    assert world.failures == []


@run_by(tell)
async def test_so_many_requests_are_under_way_at_once_and_no_more(world):
    await world.listen()
    world.other.is_mute = True
    asked = [asyncio.ensure_future(world.peer.request(ASKED, 60_000)) for _ in range(MAX_IN_FLIGHT + 5)]
    await asyncio.sleep(5)
    assert len(world.other.requests) == MAX_IN_FLIGHT
    world.peer.close()
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results] == [NoAnswerError] * len(asked)
    assert len(world.other.requests) == MAX_IN_FLIGHT


@run_by(tell)
async def test_giving_up_a_sent_request_ends_the_connection_and_makes_room(world):
    await world.listen()
    await world.peer.request(ASKED, 1_000)
    world.other.is_mute = True
    asked = [asyncio.ensure_future(world.peer.request(ASKED, 60_000)) for _ in range(MAX_IN_FLIGHT + 1)]
    await asyncio.sleep(1)
    assert len(world.other.requests) == 1 + MAX_IN_FLIGHT
    asked[0].cancel()
    results = await asyncio.gather(*asked[:MAX_IN_FLIGHT], return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] + [NoAnswerError] * (MAX_IN_FLIGHT - 1)
    await asyncio.sleep(1)
    assert len(world.other.requests) == 2 + MAX_IN_FLIGHT  # the waiting request was sent, on a new connection
    asked[-1].cancel()
    await asyncio.gather(asked[-1], return_exceptions=True)
    world.other.is_mute = False
    await world.peer.request(ASKED, 1_000)
    world.other.is_mute, before = True, len(world.other.requests)
    asked = [asyncio.ensure_future(world.peer.request(ASKED, 60_000)) for _ in range(MAX_IN_FLIGHT + 1)]
    await asyncio.sleep(1)
    assert len(world.other.requests) - before == MAX_IN_FLIGHT
    world.peer.close()
    await asyncio.gather(*asked, return_exceptions=True)


@run_by(tell)
async def test_an_answer_that_cannot_be_read_is_no_answer(world):
    await world.listen()
    await world.peer.request(ASKED, 1_000)
    asked = asyncio.ensure_future(world.peer.request(ASKED, 60_000))
    world.other.is_mute = True
    await asyncio.sleep(1)
    world.other.connections[0].transport.write(frame(b"\x00"))
    with pytest.raises(NoAnswerError, match="header cut"):
        await asked


@run_by(tell)
async def test_an_api_that_the_peer_does_not_serve_is_no_answer(world):
    await world.listen()
    request = API_VERSIONS[ApiKey.FIND_COORDINATOR].request()
    with pytest.raises(NoAnswerError, match="no version of FIND_COORDINATOR"):
        await world.peer.request(request, 1_000)


@run_by(tell)
async def test_behind_a_cut_link_a_request_ends_in_time(world):
    await world.listen()
    await world.peer.request(ASKED, 1_000)
    world.network.cut("me", HOST, 60)
    began_s = world.loop.time()
    for _ in range(2):
        with pytest.raises(NoAnswerError, match="no answer in 700 ms"):
            await world.peer.request(ASKED, 700)
    assert world.loop.time() - began_s == pytest.approx(1.4)


@pytest.mark.parametrize("way", [("me", HOST), (HOST, "me")])
@run_by(tell)
async def test_a_request_over_a_link_cut_one_way_waits_two_seconds(world, *, way):
    await world.listen()
    await world.peer.request(ASKED, 1_000)
    world.network.cut(*way, 20)
    began_s = world.loop.time()
    with pytest.raises(NoAnswerError, match="nothing comes"):
        await world.peer.request(ASKED, 30_000)
    assert world.loop.time() - began_s < 2.5
    failures = 0
    while world.loop.time() - began_s < 20 + MAX_BACKOFF_MS / 1_000 + 3:
        try:
            await world.peer.request(ASKED, 30_000)
            break
        except NoAnswerError:
            failures += 1
    assert world.loop.time() - began_s < 20 + MAX_BACKOFF_MS / 1_000 + 3
    assert failures in range(5, 9), "later tries take longer"


@run_by(tell)
async def test_a_connection_reset_at_the_other_end_is_replaced_within_two_seconds(world):
    await world.listen()
    await world.peer.request(ASKED, 1_000)
    world.other.is_mute = True
    asked = asyncio.ensure_future(world.peer.request(ASKED, 30_000))
    await asyncio.sleep(0.5)
    [connection] = world.network.connections.values()
    world.network.tear(connection.server)
    began_s = world.loop.time()
    with pytest.raises(NoAnswerError):
        await asked
    assert world.loop.time() - began_s < 2
    world.other.is_mute = False
    await world.peer.request(ASKED, 1_000)


@run_by(tell)
async def test_a_peer_that_is_busy_for_long_is_not_dialled_again(world):
    """Its system answers for it."""
    await world.listen()
    await world.peer.request(ASKED, 1_000)
    world.loop.pause(world.process)
    world.loop.call_later(20, world.loop.resume, world.process)
    await world.peer.request(ASKED, 30_000)
    assert len(world.other.connections) == 1
