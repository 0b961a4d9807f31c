"""Explores all schedules of a small quorum up to a depth: three voters follow a leader, and each step may be any
possible event.

The next step is one of these: a message in flight arrives, in any order; a node's timer expires; a leader accepts a
record; a node dies and restarts with its saved and flushed state. A message that does not arrive within the depth is
lost. Disks are lists and answer at once; `world` has real ones. A known state is not visited again. `python -m
moldau.simulation.raft.schedules --depth 9` counts the states.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec

from moldau.core.raft.messages import Request, Standing, Vote, VoteAnswer
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.quorum import Quorum
from moldau.core.raft.steps import (
    Answer,
    Answered,
    AnswerRecords,
    Append,
    AppendControl,
    Appended,
    Ask,
    Asked,
    Event,
    Flush,
    Flushed,
    HighWatermarkMoved,
    LeadershipBegan,
    Output,
    QuorumSettings,
    QuorumState,
    Save,
    Tick,
    Truncated,
    TruncateTo,
)
from moldau.core.raft.voters import ReplicaKey, VoterHistory, configured_voters
from moldau.simulation.exploring import Choice, Explored, explore_all, run_explorer
from moldau.simulation.violation import ViolationError
from moldau.types import BrokerId

NODE_IDS = (0, 1, 2)
MAX_RECORDS = 1
MAX_DEATHS = 1
MAX_TIMEOUTS = 2
SETTINGS = QuorumSettings()

Entry = tuple[int, str]
"""The epoch and the content of a record."""


class _NoJitter:
    """The schedule decides who is first, so no jitter is needed."""

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    def random_below(self, bound: int) -> int:
        return 0


class _Message(msgspec.Struct, frozen=True):
    """`answer` is None for a request."""

    source: int
    target: int
    request: Request
    answer: Standing | None = None


class _Entries(list[Entry]):
    """The log of a node."""

    @property
    def latest_epoch(self) -> int:
        return self[-1][0] if self else -1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As `Log.end_offset_for_epoch`."""
        below = [known for known, _ in self if known <= epoch]
        if epoch > self.latest_epoch or not below:
            return (-1, -1)
        return below[-1], len(below)


class _Node:
    """A node with a disk in memory."""

    def __init__(self, node_id: int) -> None:
        self.key = ReplicaKey(BrokerId(node_id))
        self.entries = _Entries()
        self.saved: QuorumState | None = None
        self.now_ms = 0
        self.asked: dict[int, tuple[int, Request]] = {}
        self.start()

    def start(self) -> None:
        """Starts the node. Its first action waits for its timer."""
        voters = VoterHistory(configured_voters(NODE_IDS))
        entries, end_offset = self.entries, len(self.entries)
        log = OwnLog(voters, entries.end_offset_for_epoch, log_end_offset=end_offset, latest_epoch=entries.latest_epoch)
        log.flushed_offset = end_offset
        self.asked.clear()
        self.quorum = Quorum(self.key, self.saved, log, SETTINGS, _NoJitter())


class Schedule:
    """One state of the small quorum. `next_choices` lists the possible events, `follow` performs one."""

    def __init__(self) -> None:
        self._nodes = [_Node(node_id) for node_id in NODE_IDS]
        self._messages: list[_Message] = []
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, int], ReplicaKey] = {}
        self._committed: list[Entry] = []
        self._records = 0
        self._deaths = 0
        self._timeouts = 0
        for node in self._nodes:
            self._perform_all(node, node.quorum.begin(0))

    def elect(self) -> None:
        """Makes node 0 the leader, and delivers all messages."""
        for _ in range(2):
            self.follow(("time is over", 0))
            while self._messages:
                self.follow(("arrives", 0))
        self._timeouts = 0

    @property
    def progress(self) -> tuple[int, int]:
        """The highest epoch with a leader, and the number of committed records."""
        return max(self._leaders, default=0), len(self._committed)

    def next_choices(self) -> Iterator[Choice]:
        """The possible next events, by name and place."""
        for place in range(len(self._messages)):
            yield "arrives", place
        for place, node in enumerate(self._nodes):
            if self._timeouts < MAX_TIMEOUTS:
                yield "time is over", place
            if node.quorum.is_leader and self._records < MAX_RECORDS:
                yield "record", place
            if self._deaths < MAX_DEATHS:
                yield "dies", place

    def follow(self, choice: Choice) -> None:
        """Performs the event. Raises ViolationError."""
        what, place = choice
        if what == "arrives":
            self._deliver(self._messages.pop(place))
            return
        node = self._nodes[place]
        if what == "time is over":
            self._timeouts += 1
            node.now_ms = max(node.now_ms, node.quorum.next_deadline_ms() or 0)
            self._step(node, Tick())
        elif what == "record":
            self._records += 1
            node.entries.append((node.quorum.leader_epoch, f"record {self._records}"))
            self._step(node, Appended(len(node.entries), node.entries.latest_epoch))
        else:
            self._deaths += 1
            node.start()
            self._perform_all(node, node.quorum.begin(node.now_ms))

    def sort_messages(self) -> None:
        self._messages.sort(key=repr)

    def _deliver(self, message: _Message) -> None:
        node = self._nodes[message.target]
        if message.answer is not None:
            self._step(node, Answered(message.source, message.request, message.answer))
            return
        request_id = max(node.asked, default=-1) + 1
        node.asked[request_id] = (message.source, message.request)
        self._step(node, Asked(request_id, message.request))

    def _step(self, node: _Node, event: Event) -> None:
        self._perform_all(node, node.quorum.step(event, node.now_ms))

    def _perform_all(self, node: _Node, outputs: tuple[Output, ...]) -> None:
        followed_by = [event for output in outputs if (event := self._perform(node, output)) is not None]
        for event in followed_by:
            self._step(node, event)

    def _perform(self, node: _Node, output: Output) -> Event | None:
        """Performs the output, and returns the resulting event."""
        match output:
            case Save():
                node.saved = output.state
            case Ask():
                self._voted(node, output.request)
                self._messages.append(_Message(node.key.node_id, output.node_id, output.request))
            case Answer() | AnswerRecords():
                self._answer(node, output)
            case AppendControl():
                node.entries.append((output.leader_epoch, f"leader {node.key.node_id}"))
                return Appended(len(node.entries), node.entries.latest_epoch)
            case Append():
                node.entries += msgspec.json.decode(output.records, type=list[Entry])
                return Appended(len(node.entries), node.entries.latest_epoch)
            case TruncateTo():
                del node.entries[output.offset :]
                return Truncated(len(node.entries), node.entries.latest_epoch)
            case Flush():
                return Flushed(len(node.entries))
            case HighWatermarkMoved():
                self._check_committed(node, output.high_watermark)
            case LeadershipBegan():
                self._check_leader(node, output.leader_epoch)
        return None

    def _answer(self, node: _Node, output: Answer | AnswerRecords) -> None:
        source, request = node.asked.pop(output.request_id)
        answer = output.answer
        if isinstance(output, AnswerRecords):
            records = node.entries[output.offset :]
            answer = msgspec.structs.replace(output.answer, records=msgspec.json.encode(records) if records else b"")
        if isinstance(answer, VoteAnswer) and answer.is_granted:
            self._voted(node, request)
        self._messages.append(_Message(node.key.node_id, source, request, answer))

    # --- what must hold ---

    def _voted(self, node: _Node, request: Request) -> None:
        if isinstance(request, Vote) and not request.is_pre_vote:
            place = (node.key.node_id, request.leader_epoch)
            if self._votes.setdefault(place, request.candidate) != request.candidate:
                raise ViolationError("one vote in an epoch", f"node {place[0]} in epoch {place[1]}")

    def _check_leader(self, node: _Node, epoch: int) -> None:
        if self._leaders.setdefault(epoch, node.key.node_id) != node.key.node_id:
            raise ViolationError("one leader in an epoch", f"node {node.key.node_id} in epoch {epoch}")
        if epoch == max(self._leaders) and node.entries[: len(self._committed)] != self._committed:
            raise ViolationError("a leader has what is committed", f"{node.entries} of {self._committed}")

    def _check_committed(self, node: _Node, high_watermark: int) -> None:
        found, known = node.entries[:high_watermark], self._committed
        shorter = min(len(found), len(known))
        if len(found) < high_watermark or found[:shorter] != known[:shorter]:
            raise ViolationError("replicas are equal below the high watermark", f"{found}, committed {known}")
        self._committed = max(found, known, key=len)


def explore(depth: int) -> Explored:
    """Follows every schedule of up to `depth` steps after the first election. Raises ViolationError."""
    first = Schedule()
    first.elect()
    return explore_all(first, depth)


def main(arguments: list[str] | None = None) -> int:
    """The exit code is 0 if no rule was broken, else 1."""
    return run_explorer("moldau.simulation.raft.schedules", str(__doc__), explore, arguments)


if __name__ == "__main__":
    sys.exit(main())
