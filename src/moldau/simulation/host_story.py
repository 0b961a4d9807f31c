"""A world of hosts that call each other: its surroundings, and the calls."""

from __future__ import annotations

from collections.abc import Callable

from moldau.errors import DamagedLogError, InvariantError
from moldau.simulation.calls import Calls
from moldau.simulation.links import NetworkWeather
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.surroundings import Surroundings
from moldau.simulation.violation import ViolationError


class HostStory(Surroundings):
    """Loses no message until `calls.loss_share` is set."""

    def __init__(self, seed: int, loop: VirtualLoop, write_line: Callable[[str], None] | None) -> None:
        super().__init__(seed, loop, write_line)
        self.network.weather = NetworkWeather(delay_min=0.001, delay_max=0.005, spike_share=0.0)
        self.calls = Calls(self.network, self.random_of("calls"), loss_share=0.0)

    @property
    def now_ms(self) -> int:
        return int(self.loop.time() * 1_000)

    def failed_unseen(self, story: str, error: BaseException | None) -> None:
        if isinstance(error, DamagedLogError):
            error = ViolationError("a log opens after every crash", str(error))
        elif isinstance(error, InvariantError):
            error = ViolationError("invariants hold", story)
        super().failed_unseen(story, error)
