"""A node that does not answer is logged once for each outage, and once when it answers again."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable

import pytest

from moldau.core.metadata.image import BrokerListener
from moldau.shell.network.event_log import EventLog
from moldau.shell.peers.outages import OUTAGE_S, RECENT_S, Outages, reason
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.ports import SimulatedClock

ADDRESS = BrokerListener("PLAINTEXT", "kt2", 9092)


def said(caplog: pytest.LogCaptureFixture, story: Callable[[Outages], Awaitable[None]]) -> list[str]:
    """The log lines about outages after `story`, in virtual time."""
    caplog.set_level(logging.INFO, "moldau.network")
    loop = VirtualLoop()
    try:
        loop.run_until_complete(story(Outages(EventLog(SimulatedClock(loop)))))
    finally:
        loop.close()
    return [record.getMessage() for record in caplog.records]


async def fail(outages: Outages, seconds: float) -> None:
    """Tries once a second, and never has a response."""
    for _ in range(int(seconds)):
        outages.of("broker 2").asked(ADDRESS)
        outages.of("broker 2").failed("Connection refused", asyncio.get_running_loop().time())
        await asyncio.sleep(1)


def test_an_outage_and_its_end_are_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    async def story(outages: Outages) -> None:
        await fail(outages, 10 * OUTAGE_S)
        outages.of("broker 2").asked(ADDRESS)
        outages.of("broker 2").answered()

    assert said(caplog, story) == [
        "broker 2 at kt2:9092 is not reached for 10 s: Connection refused",
        "broker 2 at kt2:9092 answers again",
    ]


def test_an_answer_in_between_ends_what_would_be_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    async def story(outages: Outages) -> None:
        for _ in range(3):
            await fail(outages, OUTAGE_S - 1)
            outages.of("broker 2").answered()
        await asyncio.sleep(2 * OUTAGE_S)

    assert said(caplog, story) == []


def test_a_node_that_is_asked_nothing_any_more_has_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    async def story(outages: Outages) -> None:
        await fail(outages, OUTAGE_S - RECENT_S - 2)
        await asyncio.sleep(2 * OUTAGE_S)
        await fail(outages, OUTAGE_S - 1)
        outages.of("broker 2").rest()
        await asyncio.sleep(2 * OUTAGE_S)

    assert said(caplog, story) == []


def test_a_try_that_never_ends_is_an_outage_too(caplog: pytest.LogCaptureFixture) -> None:
    async def story(outages: Outages) -> None:
        outages.of("controller 1").asked(BrokerListener("CONTROLLER", "fd00::1", 9093))
        await asyncio.sleep(2 * OUTAGE_S)

    assert said(caplog, story) == ["controller 1 at [fd00::1]:9093 is not reached for 10 s: it does not answer"]


def test_each_node_has_outages_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async def story(outages: Outages) -> None:
        for node_id in (2, 3):
            outages.of(f"broker {node_id}").asked(ADDRESS)
        outages.of("broker 3").answered()
        await asyncio.sleep(2 * OUTAGE_S)

    assert [line[:8] for line in said(caplog, story)] == ["broker 2"]


def test_reasons_are_in_the_words_of_the_system() -> None:
    assert reason(ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)")) == "Connection refused"
    assert reason(socket.gaierror(socket.EAI_NONAME, "Name or service not known")) == "Name or service not known"
    assert reason(OSError("Multiple exceptions: a, b")) == "Multiple exceptions: a, b"
