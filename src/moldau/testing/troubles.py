"""Random troubles of a cluster from a seed. One is active at a time."""

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
"""The other kinds need links between brokers."""
SLOW_MS = (5.0, 50.0, 200.0)


class Brokers(Protocol):
    """The methods of `Cluster` that troubles use."""

    def kill(self, broker: int) -> None:
        """Ends the broker as kill -9 does."""
        ...

    def restart(self, broker: int) -> None:
        """Starts the broker again. Stops a running one cleanly first."""
        ...

    def pause(self, broker: int) -> None:
        """Suspends the broker, as SIGSTOP does."""
        ...

    def resume(self, broker: int) -> None:
        """Resumes the broker after `pause`."""
        ...

    def partition(self, *sides: Iterable[int]) -> None:
        """Cuts the network between brokers of different sides. Brokers that are not named form one more side."""
        ...

    def slow(self, broker: int, ms: float) -> None:
        """Delays messages between the broker and the others by `ms` in each direction."""
        ...

    def heal(self) -> None:
        """Restores every link, without delay."""
        ...


class Trouble(msgspec.Struct, frozen=True):
    """A trouble of `broker`: it is killed, restarted cleanly, paused, cut off from the others, or `ms` away from them
    in each direction."""

    kind: Kind
    broker: int
    ms: float = 0.0

    def begin(self, cluster: Brokers) -> None:
        """Applies the trouble to the broker. A restart is over when this returns."""
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
        """Ends the trouble: the broker runs, and its links work."""
        if self.kind == "kill":
            cluster.restart(self.broker)
        elif self.kind == "pause":
            cluster.resume(self.broker)
        elif self.kind in ("partition", "slow"):
            cluster.heal()


def drawn(seed: int, count: int, brokers: Sequence[int], kinds: Sequence[Kind]) -> list[Trouble]:
    """`count` troubles, the same for the same arguments. Raises ValueError for a kind that is unknown or needs several
    brokers."""
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
    """Yields each trouble while it is active, for one pass of the caller's loop. The last one ends with the loop, also
    when the loop is left early."""
    for trouble in troubles:
        trouble.begin(cluster)
        try:
            yield trouble
        finally:
            trouble.end(cluster)
