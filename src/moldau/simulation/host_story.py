"""A world of hosts that call each other: its surroundings, what happens later, and the calls."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context

from moldau.errors import DamagedLogError, InvariantError
from moldau.simulation.calls import Calls
from moldau.simulation.loop import SimulatedProcess, VirtualLoop
from moldau.simulation.network import NetworkWeather
from moldau.simulation.surroundings import Surroundings
from moldau.simulation.violation import ViolationError


class HostStory(Surroundings):
    """No message is lost until `calls.loss_share` says so."""

    def __init__(self, seed: int, loop: VirtualLoop, write_line: Callable[[str], None] | None) -> None:
        super().__init__(seed, loop, write_line)
        self.network.weather = NetworkWeather(delay_min=0.001, delay_max=0.005, spike_share=0.0)
        self.calls = Calls(self.network, self.random_of("calls"), loss_share=0.0)
        self._nobody = copy_context()

    @property
    def now_ms(self) -> int:
        return int(self.loop.time() * 1_000)

    def after(self, delay_ms: float, act: Callable[[], None], process: SimulatedProcess | None = None) -> None:
        """Calls `act` in `delay_ms`, unless `process` is dead by then."""
        context = self._nobody if process is None else process.context
        self.loop.call_later(delay_ms / 1_000, act, context=context)

    def failed_unseen(self, story: str, error: BaseException | None) -> None:
        if isinstance(error, DamagedLogError):
            error = ViolationError("a log opens after every crash", str(error))
        elif isinstance(error, InvariantError):
            error = ViolationError("invariants hold", story)
        super().failed_unseen(story, error)
