"""Writers of the simulation. Each has its own host and one record in flight."""

from __future__ import annotations

from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.raft.messages import Write, WriteAnswer
from moldau.simulation.raft.story import Story

REQUEST_TIMEOUT_S = 1.5
BACKOFF_MS = 50


class Writer:
    """Forgets a failed write, because its record may or may not be committed later."""

    def __init__(self, story: Story, name: str) -> None:
        self.story = story
        self.name = name
        self.process = SimulatedProcess(name)
        self.acknowledged = 0
        self.is_idle = True
        self._is_stopping = False
        self._random = story.random_of(name)
        self._target = 0
        self._number = 0
        story.after(self._random.randrange(500), self._write, self.process)

    def stop(self) -> None:
        """Begins no new write."""
        self._is_stopping = True

    def _write(self) -> None:
        if self._is_stopping:
            return
        self.is_idle = False
        self._number += 1
        value = f"<{self.name}:{self._number}{'.' * self._random.randrange(200)}>".encode()

        def take(answer: object | None) -> None:
            self._take(value, answer)

        target = f"node-{self._target}"
        self.story.calls.call(self.process, self.name, target, Write(value), take, REQUEST_TIMEOUT_S)

    def _take(self, value: bytes, answer: object | None) -> None:
        story = self.story
        self.is_idle = True
        if isinstance(answer, WriteAnswer) and not answer.error:
            story.ledger.was_acknowledged((value,), answer.offset)
            self.acknowledged += 1
            story.after(self._random.randrange(story.think_ms), self._write, self.process)
            return
        if isinstance(answer, WriteAnswer) and answer.leader_id in story.node_ids:
            self._target = answer.leader_id
        else:
            self._target = self._random.choice(story.node_ids)
        story.after(BACKOFF_MS, self._write, self.process)
