"""Logs unreachable nodes: a line for each outage that lasts OUTAGE_S, and one for its end.

A node that gets no requests has no outage: after the leader of a partition dies, it gets none once another one leads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket

from moldau.core.metadata.image import BrokerListener
from moldau.shell.network.event_log import EventLog

OUTAGE_S = 10.0
RECENT_S = 5.0
"""A node whose last try failed longer ago no longer gets requests, because connection tries follow each other
sooner."""


class Outages:
    """The outages of all nodes that one node contacts; used from its loop only."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._nodes: dict[str, Outage] = {}

    def of(self, name: str) -> Outage:
        """The outage of the node with this name in the log, such as "broker 2": shared by all connections to it."""
        return self._nodes.setdefault(name, Outage(name, self._log))

    def close(self) -> None:
        """Stops logging."""
        for node in self._nodes.values():
            node.rest()


class Outage:
    """The outage of one node: a `Peer` reports each try and each answer."""

    __slots__ = ("_address", "_asked_s", "_failed_s", "_is_told", "_log", "_name", "_since_s", "_timer", "_why")

    def __init__(self, name: str, log: EventLog) -> None:
        self._name = name
        self._log = log
        self._address = BrokerListener("", "", 0)
        self._since_s: float | None = None
        """Time of the first try without an answer; None: the last try had one, or none was made."""
        self._asked_s, self._failed_s = 0.0, -1.0
        self._why = ""
        self._is_told = False
        self._timer: asyncio.TimerHandle | None = None

    def asked(self, address: BrokerListener) -> None:
        """A connection is being tried, or a request was sent that gets its answer soon."""
        loop = asyncio.get_running_loop()
        self._address = address
        self._asked_s = loop.time()
        if self._since_s is None:
            self._since_s, self._why = self._asked_s, ""
            if self._timer is None:
                self._timer = loop.call_later(OUTAGE_S, self._look)

    def failed(self, why: str, now_s: float) -> None:
        """The last try has failed. `now_s`: on the loop's clock, given by the caller: a dropped coroutine calls this
        when no loop runs."""
        self._failed_s, self._why = now_s, why

    def answered(self) -> None:
        """The node has answered."""
        if self._is_told:
            self._is_told = False
            self._log.finding(logging.INFO, "outage", f"{self._place()} answers again")
        self._since_s = None

    def rest(self) -> None:
        """The node gets no requests for now, regardless of its earlier answers."""
        if not self._is_told:
            self._since_s = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._since_s is None or self._is_told:
            return
        loop = asyncio.get_running_loop()
        left_s = self._since_s + OUTAGE_S - loop.time()
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._look)
        elif self._asked_s > self._failed_s or loop.time() - self._failed_s <= RECENT_S:
            self._is_told = True
            text = f"{self._place()} is not reached for {OUTAGE_S:.0f} s: {self._why or 'it does not answer'}"
            self._log.finding(logging.WARNING, "outage", text)
        else:
            self._since_s = None

    def _place(self) -> str:
        host, port = self._address.host, self._address.port
        return f"{self._name} at [{host}]:{port}" if ":" in host else f"{self._name} at {host}:{port}"


def reason(error: OSError | ValueError) -> str:
    """Why a connection failed, in the system's words: the loop's own messages show Python tuples. ValueError (also its
    subclass UnicodeError): the host is not a valid name."""
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error)
