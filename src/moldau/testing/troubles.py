"""Random troubles of a cluster, from a seed: one at a time, each ended before the next."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Sequence
from typing import Literal, Protocol, get_args

import msgspec

from moldau.testing.tracebacks import hides

__tracebackhide__ = hides

Kind = Literal["kill", "restart", "pause", "partition", "slow"]
KINDS: tuple[Kind, ...] = get_args(Kind)
OF_ONE_BROKER: tuple[Kind, ...] = ("kill", "restart", "pause")
"""The others need links between brokers."""
SLOW_MS = (5.0, 50.0, 200.0)


class Brokers(Protocol):
    """The troubles that a `Cluster` can have."""

    def kill(self, broker: int) -> None:
        """Ends the broker as kill -9 does."""
        ...

    def restart(self, broker: int) -> None:
        """Starts the broker again; one that runs is stopped cleanly before."""
        ...

    def pause(self, broker: int) -> None:
        """The broker stands still, as by SIGSTOP."""
        ...

    def resume(self, broker: int) -> None:
        """The broker goes on after `pause`."""
        ...

    def partition(self, *sides: Iterable[int]) -> None:
        """Brokers of different sides reach each other no more; those that are not named are a side of their own."""
        ...

    def slow(self, broker: int, ms: float) -> None:
        """What travels between the broker and the others takes `ms` longer in each direction."""
        ...

    def heal(self) -> None:
        """Every link is whole and quick again."""
        ...


class Trouble(msgspec.Struct, frozen=True):
    """What is wrong now: `broker` is killed, was restarted cleanly, stands still, is cut off from the others, or hears
    them `ms` later in each direction."""

    kind: Kind
    broker: int
    ms: float = 0.0

    def begin(self, cluster: Brokers) -> None:
        """Does the trouble to the broker. A restart is over when this returns."""
        if self.kind == "kill":
            cluster.kill(self.broker)
        elif self.kind == "restart":
            cluster.restart(self.broker)
        elif self.kind == "pause":
            cluster.pause(self.broker)
        elif self.kind == "partition":
            cluster.partition([self.broker])
        else:
            cluster.slow(self.broker, self.ms)

    def end(self, cluster: Brokers) -> None:
        """Makes the broker whole again: it runs, and its links do."""
        if self.kind == "kill":
            cluster.restart(self.broker)
        elif self.kind == "pause":
            cluster.resume(self.broker)
        elif self.kind in ("partition", "slow"):
            cluster.heal()


def drawn(seed: int, count: int, brokers: Sequence[int], kinds: Sequence[Kind]) -> list[Trouble]:
    """`count` troubles, the same for the same arguments. Raises ValueError for a kind that is none, or that one broker
    alone cannot have."""
    possible = KINDS if len(brokers) > 1 else OF_ONE_BROKER
    wanted = kinds or possible
    for kind in wanted:
        if kind not in possible:
            raise ValueError(f"{kind!r} is no trouble of {len(brokers)} broker(s): {', '.join(possible)}")
    source = random.Random(seed)
    troubles = []
    for _ in range(count):
        kind, broker, ms = source.choice(wanted), source.choice(brokers), source.choice(SLOW_MS)
        troubles.append(Trouble(kind, broker, ms if kind == "slow" else 0.0))
    return troubles


def one_after_the_other(cluster: Brokers, troubles: Sequence[Trouble]) -> Generator[Trouble]:
    """Each one lasts for one pass of the caller's loop; the last one ends with the loop, also with one that is left."""
    for trouble in troubles:
        trouble.begin(cluster)
        try:
            yield trouble
        finally:
            trouble.end(cluster)
