"""A broker of a cluster registers, serves and stops as the controller allows, with any number of attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.core.metadata.features import REGISTERED_FEATURES
from moldau.errors import KafkaError, kafka_error
from moldau.shell.broker.cluster.heartbeats import BrokerReport, Heartbeats
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.network.event_log import EventLog
from moldau.simulation.loop import VirtualLoop
from moldau.types import Uuid
from moldau.wire.protocol.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    RegisteredListener,
)
from tests.support.controller import Controller
from tests.support.stories import run_by

SESSION_S = 9.0


class Story:
    """A controller that decides at once, and a broker whose metadata is up to date unless `lags_at` is its offset.
    `refusals`: the errors that the next requests get."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.controller = Controller()
        self.controller.start(1)
        self.lags_at: int | None = None
        self.failed: tuple[Uuid, ...] = ()
        self.cordoned: tuple[Uuid, ...] | None = ()
        self.epochs: list[int] = []
        self.refusals: list[str] = []
        self.asked: list[Any] = []
        self.took_part_after = -1

    def broker(self, life: int = 1) -> Heartbeats:
        registration = BrokerRegistrationRequest(
            2,
            "cluster",
            Uuid(bytes([life]) * 16),
            (RegisteredListener("PLAINTEXT", "h", 9092),),
            REGISTERED_FEATURES,
            log_dirs=(Uuid(b"\xd2" * 16),),
        )
        return Heartbeats(
            registration,
            self.submit,
            EventLog(ManualClock()),
            BrokerReport(
                lambda: len(self.controller.log) - 1 if self.lags_at is None else self.lags_at,
                lambda: self.failed,
                lambda: self.cordoned,
            ),
            take_part=self.take_part,
            registered=self.epochs.append,
            interval_ms=2_000,
            registration_timeout_ms=60_000,
        )

    async def take_part(self) -> None:
        self.took_part_after = len(self.asked)

    async def submit(self, request: Any) -> Any:
        self.asked.append(request)
        self.controller.wait_until(int(self.loop.time() * 1_000))
        if self.refusals:
            raise kafka_error(self.refusals.pop(0))
        return self.controller.ask(request)

    @property
    def is_fenced(self) -> bool:
        return self.controller.state.image.brokers[2].is_fenced


def tell(story: Callable[[Story], Awaitable[None]]) -> None:
    """Runs `story` on virtual time, to its end."""
    loop = VirtualLoop()

    async def run() -> None:
        await story(Story())

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


@run_by(tell)
async def test_a_broker_serves_once_it_has_its_registration_in_its_metadata(here: Story) -> None:
    broker = here.broker()
    here.lags_at = 0
    starting = asyncio.ensure_future(broker.start())
    await asyncio.sleep(1)
    assert here.is_fenced
    here.lags_at = None
    await starting
    assert not here.is_fenced
    assert here.epochs == [here.controller.epoch(2)]


@run_by(tell)
async def test_a_broker_serves_once_its_registration_is_in_the_metadata(here: Story) -> None:
    await here.broker().start()
    registration, fenced, *later = here.asked
    assert isinstance(registration, BrokerRegistrationRequest)
    assert fenced.want_fence
    assert here.took_part_after == 2
    assert [request.want_fence for request in later] == [False]


@run_by(tell)
async def test_a_heartbeat_comes_each_interval_and_keeps_the_session(here: Story) -> None:
    broker = here.broker()
    await broker.start()
    here.asked.clear()
    going = asyncio.ensure_future(broker.go_on())
    await asyncio.sleep(21)
    assert [type(request) for request in here.asked] == [BrokerHeartbeatRequest] * 10
    assert not here.is_fenced
    going.cancel()
    await asyncio.sleep(SESSION_S)
    here.controller.wait_until(int(here.loop.time() * 1_000))
    assert here.is_fenced


@run_by(tell)
async def test_a_broker_is_heard_of_at_once_where_the_controller_may_think_that_it_died(here: Story) -> None:
    broker = here.broker()
    await broker.start()
    going = asyncio.ensure_future(broker.go_on())
    await asyncio.sleep(0.5)
    here.asked.clear()
    broker.beat_now()
    await asyncio.sleep(0.01)
    assert len(here.asked) == 1
    await asyncio.sleep(1.9)
    assert len(here.asked) == 1
    await asyncio.sleep(0.2)
    assert len(here.asked) == 2
    going.cancel()


@run_by(tell)
async def test_after_a_heartbeat_without_an_answer_the_next_one_comes_at_once(here: Story) -> None:
    broker = here.broker()
    await broker.start()
    here.asked.clear()
    here.refusals = ["REQUEST_TIMED_OUT"] * 3
    going = asyncio.ensure_future(broker.go_on())
    await asyncio.sleep(2.5)
    assert len(here.asked) == 4
    going.cancel()


@run_by(tell)
async def test_a_broker_whose_earlier_life_still_counts_waits_for_the_end_of_its_session(here: Story) -> None:
    await here.broker(life=1).start()
    began_s = here.loop.time()
    await here.broker(life=2).start()
    assert SESSION_S <= here.loop.time() - began_s < SESSION_S + 1
    assert len(here.epochs) == 2


@run_by(tell)
async def test_a_broker_that_nobody_takes_gives_up_in_time(here: Story) -> None:
    here.refusals = ["REQUEST_TIMED_OUT"] * 10_000
    with pytest.raises(TimeoutError):
        await here.broker().start()
    assert here.loop.time() == pytest.approx(60)


@run_by(tell)
async def test_a_broker_that_cannot_be_in_this_cluster_is_told_at_once(here: Story) -> None:
    here.refusals = ["INCONSISTENT_CLUSTER_ID"]
    with pytest.raises(KafkaError) as caught:
        await here.broker().start()
    assert caught.value.code == 104


@run_by(tell)
async def test_a_broker_that_lacks_a_finalized_level_says_which_levels_it_supports(here: Story) -> None:
    here.refusals = ["UNSUPPORTED_VERSION"]
    said = r"refuses broker 2 .*`kafka-features describe` .* supports metadata.version 7 to 33, .*group.version 0 to 1"
    with pytest.raises(KafkaError, match=said):
        await here.broker().start()


@run_by(tell)
async def test_a_broker_that_is_refused_when_it_registers_again_goes_on_asking(here: Story) -> None:
    broker = here.broker()
    await broker.start()
    here.refusals = ["BROKER_ID_NOT_REGISTERED", "UNSUPPORTED_VERSION", "BROKER_ID_NOT_REGISTERED"]
    going = asyncio.ensure_future(broker.go_on())
    await asyncio.sleep(8.5)
    assert not going.done()
    assert len(here.epochs) == 2
    assert not here.is_fenced
    going.cancel()


@pytest.mark.parametrize("name", ["STALE_BROKER_EPOCH", "BROKER_ID_NOT_REGISTERED"])
@run_by(tell)
async def test_a_controller_that_has_forgotten_the_broker_is_told_of_it_again(here: Story, *, name: str) -> None:
    broker = here.broker()
    await broker.start()
    here.refusals = ["REQUEST_TIMED_OUT", name]
    going = asyncio.ensure_future(broker.go_on())
    await asyncio.sleep(2.5)
    assert isinstance(here.asked[-1], BrokerRegistrationRequest)
    assert len(here.epochs) == 2
    await asyncio.sleep(2)
    assert not here.is_fenced
    going.cancel()


@run_by(tell)
async def test_failed_directories_are_reported(here: Story) -> None:
    broker = here.broker()
    await broker.start()
    here.failed = (Uuid(b"\xd2" * 16),)
    going = asyncio.ensure_future(broker.go_on())
    await asyncio.sleep(2.5)
    assert here.asked[-1].offline_log_dirs == here.failed
    going.cancel()


@run_by(tell)
async def test_cordoned_directories_are_reported_after_the_broker_caught_up(here: Story) -> None:
    here.cordoned = (Uuid(b"\xd2" * 16),)
    await here.broker().start()
    _, waiting, serving = here.asked
    assert (waiting.cordoned_log_dirs, serving.cordoned_log_dirs) == (None, here.cordoned)
    assert here.controller.state.image.brokers[2].cordoned_log_directories == here.cordoned

    here.cordoned = None
    await here.broker(life=2).start()
    assert here.asked[-1].cordoned_log_dirs is None
    assert here.controller.state.image.brokers[2].cordoned_log_directories is None


@run_by(tell)
async def test_a_broker_stops_when_the_others_know_that_it_leads_nothing(here: Story) -> None:
    broker = here.broker()
    await broker.start()
    here.controller.start(3)
    here.controller.create(2, 3)
    stopping = asyncio.ensure_future(broker.shut_down())
    await asyncio.sleep(1)
    assert here.controller.partition.leader == 3
    assert not stopping.done()
    here.controller.beat(3)
    await stopping
    assert here.is_fenced
    await here.broker(life=2).start()
