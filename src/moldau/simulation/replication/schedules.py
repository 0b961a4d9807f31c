"""Explores all schedules of a small partition up to a depth: three in-sync replicas and their controller, where each
step may be any possible event.

The next step is one of these: a message in flight arrives, in any order; a broker learns the next decision of the
controller; a leader accepts a record; a timer of a broker expires; the controller fences a live broker and unfences it;
a process is killed, restarts with its appended records, and registers. A message that does not arrive within the depth
is lost. Logs are lists, and the controller decides at once by the real rules; `world` has disks and networks. A known
state is not visited again.
`python -m moldau.simulation.replication.schedules --depth 4` counts the states.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import msgspec

from moldau.core.controller.elections import ElectionRules, change_in_sync
from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.metadata.fold import merge_partition
from moldau.core.metadata.image import PartitionImage
from moldau.core.replication.divergence import diverging_epoch
from moldau.core.replication.leader import ACKS_ALL, Leader
from moldau.core.replication.replica import Replica
from moldau.core.replication.steps import (
    Append,
    Copied,
    Event,
    FetchAnswered,
    FetchedUpTo,
    FetchFailed,
    FetchFrom,
    HighWatermarkMoved,
    IsrAnswered,
    LeadershipBegan,
    LogPosition,
    MetadataChanged,
    Output,
    ProposeIsr,
    ReplicationSettings,
    Tick,
    Truncated,
    TruncateTo,
)
from moldau.errors import KafkaError
from moldau.simulation.exploring import Choice, Explored, explore_all, run_explorer
from moldau.simulation.replication.messages import AlterPartition, AlterPartitionAnswer, Fetch, FetchAnswer
from moldau.simulation.violation import ViolationError
from moldau.types import ZERO_UUID, BrokerId, LeaderEpoch

BROKER_IDS = (0, 1, 2)
CONTROLLER = -1
MAX_RECORDS = 3
MAX_DEATHS = 1
MAX_FENCES = 1
MAX_TIMEOUTS = 1
LAG_MS = 10
SETTINGS = ReplicationSettings(min_insync_replicas=2, replica_lag_time_max_ms=LAG_MS, replica_fetch_backoff_ms=1)

Entry = tuple[int, str]
"""The leader epoch and the content of a record."""


class _Message(msgspec.Struct, frozen=True):
    """`life`: that of the requesting broker. `answer` is None for a request."""

    broker_id: int
    life: int
    target: int
    request: Fetch | AlterPartition
    known_high_watermark: int = 0
    answer: FetchAnswer | AlterPartitionAnswer | None = None


class _Log:
    """The log of a replica."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochs()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As `Log.end_offset_for_epoch`."""
        return self.epochs.end_offset_for(epoch, len(self.entries))

    def append(self, entry: Entry) -> None:
        self.epochs.assign(entry[0], len(self.entries))
        self.entries.append(entry)

    def truncate_to(self, offset: int) -> None:
        del self.entries[offset:]
        self.epochs.truncate_from_end(len(self.entries))

    def open(self) -> LogPosition:
        """The state that a start finds: an epoch without records is forgotten, and no checkpoint was written."""
        self.epochs = LeaderEpochs()
        for offset, (epoch, _) in enumerate(self.entries):
            self.epochs.assign(epoch, offset)
        return LogPosition(len(self.entries), self.epochs.latest_epoch, len(self.entries), 0)


class _Broker:
    """A broker with its replica, and the controller's decisions that it has not received yet."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = BrokerId(broker_id)
        self.log = _Log()
        self.life = 0
        self.now_ms = 0
        self.start()

    def start(self) -> None:
        """Begins a life, with the log of the last one."""
        self.life += 1
        self.epoch = -1
        """-1 until it has registered."""
        self.replica = Replica(self.broker_id, self.log.open(), SETTINGS, self.log.end_offset_for_epoch)
        self.untold: list[MetadataChanged] = []
        self.parked: list[tuple[_Message, Fetch]] = []
        self.waits: list[tuple[int, LeaderEpoch]] = []
        """End offset and leader epoch of each record that waits for its acknowledgement."""


class _Controller:
    """The brokers by id, each with its epoch and whether it is fenced. All registered brokers receive its decisions."""

    def __init__(self) -> None:
        self.partition = PartitionImage(BROKER_IDS, BROKER_IDS, BrokerId(0), LeaderEpoch(0), 0)
        self.epochs: dict[int, int] = {}
        self.fenced: dict[int, bool] = {}

    def is_active(self, broker_id: int) -> bool:
        return not self.fenced.get(broker_id, True)

    def register(self, broker_id: int) -> int:
        """Registers the broker, whose earlier state counts as lost, as after every start without the mark of a clean
        stop."""
        epoch = 1 + max(self.epochs.values(), default=0)
        self.fenced[broker_id] = True
        if broker_id in self.epochs:
            self.leave(broker_id, is_lost=True)
        self.epochs[broker_id] = epoch
        return epoch

    def leave(self, broker_id: int, *, is_lost: bool) -> None:
        isr = tuple(replica for replica in self.partition.isr if replica != broker_id)
        self._change(isr, (broker_id,) if is_lost else ())

    def serve(self, broker_id: int) -> None:
        self.fenced[broker_id] = False
        self._change(self.partition.isr, ())

    def alter(self, request: AlterPartition) -> AlterPartitionAnswer:
        partition, proposal = self.partition, request.proposal
        if self.epochs[request.broker_id] != request.broker_epoch:
            return AlterPartitionAnswer(error="STALE_BROKER_EPOCH")
        if proposal.leader_epoch != partition.leader_epoch or partition.leader != request.broker_id:
            return AlterPartitionAnswer(error="FENCED_LEADER_EPOCH")
        if proposal.partition_epoch != partition.partition_epoch:
            return AlterPartitionAnswer(error="INVALID_UPDATE_VERSION")
        if not all(self.is_active(replica) and epoch in (-1, self.epochs[replica]) for replica, epoch in proposal.isr):
            return AlterPartitionAnswer(error="INELIGIBLE_REPLICA")
        self._change(tuple(replica for replica, _ in proposal.isr), ())
        return AlterPartitionAnswer(self.partition)

    def news(self) -> MetadataChanged:
        active = {broker_id: epoch for broker_id, epoch in self.epochs.items() if self.is_active(broker_id)}
        return MetadataChanged(self.partition, active)

    def _change(self, isr: tuple[int, ...], lost: tuple[int, ...]) -> None:
        change = change_in_sync(
            ZERO_UUID,
            0,
            self.partition,
            ElectionRules(SETTINGS.min_insync_replicas, has_elr=True),
            target_isr=isr,
            is_active=self.is_active,
            lost_replicas=lost,
        )
        if change is not None:
            self.partition = merge_partition(self.partition, change)


class Schedule:
    """One state of the small partition. `next_choices` lists the possible events, `follow` performs one. After `begin`,
    other methods lead to states that are close to interesting events."""

    def __init__(self) -> None:
        self._brokers = [_Broker(broker_id) for broker_id in BROKER_IDS]
        self._controller = _Controller()
        self._messages: list[_Message] = []
        self._leaders: dict[int, int] = {}
        self._committed: list[Entry] = []
        self._acknowledged = 0
        self._records = 0
        self._deaths = 0
        self._fences = 0
        self._timeouts = 0

    def begin(self) -> None:
        """All brokers serve and are in sync. Broker 0 leads, and has one record that all know to be committed."""
        for act in (self._register, self._serve):
            for broker in self._brokers:
                act(broker)
        for broker in self._brokers:
            broker.untold = broker.untold[-1:]
            self._learn(broker)
        self._take_record(self._brokers[0])
        self._settle(*BROKER_IDS)

    def leave_one_behind(self) -> None:
        """Brokers 0 and 1 get another record, and broker 2 does not."""
        self._take_record(self._brokers[0])
        self._settle(1)

    def shrink(self) -> None:
        """Broker 2 is no longer in sync, and lacks the record that the others know to be committed."""
        self._fence(self._brokers[2])
        for broker in self._brokers[:2]:
            self._learn(broker)
        self._take_record(self._brokers[0])
        self._settle(0, 1)

    def succeed(self) -> None:
        """Broker 1 leads and broker 2 follows. Broker 0 does not know it yet, and has a record that no other broker
        has."""
        self._take_record(self._brokers[0])
        self._fence(self._brokers[0])
        for broker in self._brokers[1:]:
            self._learn(broker)
        self._settle(1, 2)

    def part(self) -> None:
        """Broker 2 leads. Broker 1 has two records above its high watermark: first a committed one, then an uncommitted
        one, where the logs diverge."""
        first, second, third = self._brokers
        self._take_record(first)
        for broker_id in (1, 1, 2):
            self._arrive(broker_id)
        self._take_record(first)
        for broker_id in (1, 2):
            self._arrive(broker_id)
        self._fence(second)
        self._fence(first)
        self._serve(second)
        while third.untold:
            self._learn(third)

    def _arrive(self, *broker_ids: int) -> bool:
        """Delivers one message from or to these brokers. Returns whether there was one."""
        place = next((place for place, one in enumerate(self._messages) if one.broker_id in broker_ids), None)
        if place is not None:
            self.follow(("arrives", place))
        return place is not None

    def _settle(self, *broker_ids: int) -> None:
        """Delivers all messages from and to these brokers."""
        while self._arrive(*broker_ids):
            pass

    def begin_counting(self) -> None:
        """Begins to count limited events from here."""
        self._deaths = self._fences = self._timeouts = 0

    @property
    def progress(self) -> tuple[int, int]:
        """The highest leader epoch so far, and the number of acknowledged records."""
        return max(self._leaders), self._acknowledged

    def next_choices(self) -> Iterator[Choice]:
        """The possible next events, by name and place."""
        for place in range(len(self._messages)):
            yield "arrives", place
        for place, broker in enumerate(self._brokers):
            is_active = self._controller.is_active(place)
            if broker.untold:
                yield "learns", place
            if isinstance(broker.replica.role, Leader) and self._records < MAX_RECORDS:
                yield "record", place
            if broker.replica.next_deadline_ms() is not None and self._timeouts < MAX_TIMEOUTS:
                yield "time is over", place
            if broker.epoch < 0:
                yield "registers", place
            elif not is_active and not broker.untold:
                yield "serves", place
            elif is_active and self._fences < MAX_FENCES:
                yield "is fenced", place
            if self._deaths < MAX_DEATHS:
                yield "dies", place

    def follow(self, choice: Choice) -> None:
        """Performs the event. Raises ViolationError."""
        what, place = choice
        if what == "arrives":
            self._deliver(self._messages.pop(place))
            return
        acts: dict[str, Callable[[_Broker], None]] = {
            "learns": self._learn,
            "record": self._take_record,
            "time is over": self._pass_time,
            "registers": self._register,
            "serves": self._serve,
            "is fenced": self._fence,
            "dies": self._die,
        }
        acts[what](self._brokers[place])

    def sort_messages(self) -> None:
        self._messages.sort(key=repr)

    # --- what happens ---

    def _learn(self, broker: _Broker) -> None:
        self._step(broker, broker.untold.pop(0))

    def _take_record(self, broker: _Broker) -> None:
        leader = broker.replica.leader
        try:
            leader.check_append(ACKS_ALL)
        except KafkaError:
            return
        self._records += 1
        broker.log.append((leader.leader_epoch, f"record {self._records}"))
        end_offset = len(broker.log.entries)
        broker.waits.append((end_offset, leader.leader_epoch))
        self._perform_all(broker, leader.appended(end_offset))

    def _pass_time(self, broker: _Broker) -> None:
        self._timeouts += 1
        broker.now_ms = max(broker.now_ms + LAG_MS + 1, broker.replica.next_deadline_ms() or 0)
        self._step(broker, Tick())

    def _register(self, broker: _Broker) -> None:
        broker.epoch = self._controller.register(broker.broker_id)
        broker.untold.clear()
        self._tell_all()

    def _serve(self, broker: _Broker) -> None:
        self._controller.serve(broker.broker_id)
        self._tell_all()

    def _fence(self, broker: _Broker) -> None:
        self._fences += 1
        self._controller.fenced[broker.broker_id] = True
        self._controller.leave(broker.broker_id, is_lost=False)
        self._tell_all()

    def _die(self, broker: _Broker) -> None:
        """Kills the process. Hosts that wait for its responses learn that their connections have ended."""
        self._deaths += 1
        parked = broker.parked
        broker.start()
        for message, _ in parked:
            self._answer(message, FetchAnswer("NOT_LEADER_OR_FOLLOWER"))

    def _tell_all(self) -> None:
        """Sends the latest decision and the live brokers to all. Each broker receives the decisions in order."""
        news = self._controller.news()
        for broker in self._brokers:
            if broker.epoch >= 0:
                broker.untold.append(news)

    # --- messages ---

    def _deliver(self, message: _Message) -> None:
        request, answer = message.request, message.answer
        if answer is not None:
            broker = self._brokers[message.broker_id]
            if broker.life == message.life:
                self._take_answer(broker, request, answer)
        elif isinstance(request, AlterPartition):
            isr = self._controller.partition.isr
            decided = self._controller.alter(request)
            self._check_joined(isr)
            if decided.partition is not None:
                self._tell_all()
            self._answer(message, decided)
        else:
            self._serve_follower(self._brokers[message.target], message, request)

    def _answer(self, message: _Message, answer: FetchAnswer | AlterPartitionAnswer) -> None:
        self._messages.append(msgspec.structs.replace(message, answer=answer))

    def _take_answer(
        self, broker: _Broker, request: Fetch | AlterPartition, answer: FetchAnswer | AlterPartitionAnswer
    ) -> None:
        if isinstance(request, AlterPartition) and isinstance(answer, AlterPartitionAnswer):
            event: Event = IsrAnswered(request.proposal.partition_epoch, answer.partition, answer.error)
        elif isinstance(request, Fetch) and isinstance(answer, FetchAnswer) and not answer.error:
            told = answer.high_watermark, answer.records, answer.diverging
            event = FetchAnswered(request.leader_epoch, request.offset, *told)
        else:
            event = FetchFailed(request.leader_epoch if isinstance(request, Fetch) else -1)
        self._step(broker, event)

    def _serve_follower(self, broker: _Broker, message: _Message, request: Fetch) -> None:
        """Handles a fetch as a broker does: one without new data is parked."""
        try:
            leader = broker.replica.leader
            leader.check_fetch(request.replica_id, request.broker_epoch, request.leader_epoch)
            if request.last_fetched_epoch >= 0:
                known = broker.log.end_offset_for_epoch(request.last_fetched_epoch)
                diverging = diverging_epoch(known, request.offset, request.last_fetched_epoch)
                if diverging is not None:
                    self._answer(message, FetchAnswer(diverging=diverging))
                    return
        except KafkaError as error:
            self._answer(message, FetchAnswer(error.name))
            return
        broker.parked.append((message, request))
        self._step(broker, FetchedUpTo(request.replica_id, request.broker_epoch, request.leader_epoch, request.offset))

    def _answer_parked(self, broker: _Broker) -> None:
        """Answers the parked fetches for which there is new data, or whose leader epoch has ended."""
        parked, broker.parked = broker.parked, []
        role = broker.replica.role
        for message, request in parked:
            if not isinstance(role, Leader) or role.leader_epoch != request.leader_epoch:
                self._answer(message, FetchAnswer("NOT_LEADER_OR_FOLLOWER"))
                continue
            entries, high_watermark = broker.log.entries[request.offset :], broker.replica.high_watermark
            if entries or high_watermark > message.known_high_watermark:
                records = msgspec.json.encode(entries) if entries else b""
                self._answer(message, FetchAnswer("", high_watermark, records))
            else:
                broker.parked.append((message, request))

    # --- the machine and its outputs ---

    def _step(self, broker: _Broker, event: Event) -> None:
        self._perform_all(broker, broker.replica.step(event, broker.now_ms))

    def _perform_all(self, broker: _Broker, outputs: tuple[Output, ...]) -> None:
        followed_by = [event for output in outputs if (event := self._perform(broker, output)) is not None]
        for event in followed_by:
            self._step(broker, event)
        self._acknowledge(broker)
        self._answer_parked(broker)

    def _perform(self, broker: _Broker, output: Output) -> Event | None:
        """Performs the output, and returns the resulting event."""
        log = broker.log
        match output:
            case LeadershipBegan():
                log.epochs.begin(output.leader_epoch, len(log.entries))
                self._check_leader(broker, output.leader_epoch)
            case HighWatermarkMoved():
                self._check_committed(broker, broker.replica.high_watermark)
            case ProposeIsr():
                self._ask(broker, CONTROLLER, AlterPartition(broker.broker_id, broker.epoch, output))
            case FetchFrom():
                asked = (broker.epoch, output.leader_epoch, output.offset, output.last_fetched_epoch)
                self._ask(broker, output.leader_id, Fetch(broker.broker_id, *asked))
            case TruncateTo():
                self._check_cut(broker, output.offset)
                log.truncate_to(output.offset)
                return Truncated(len(log.entries), log.epochs.latest_epoch)
            case Append():
                for epoch, text in msgspec.json.decode(output.records, type=list[Entry]):
                    log.append((epoch, text))
                return Copied(len(log.entries), log.epochs.latest_epoch)
        return None

    def _ask(self, broker: _Broker, target: int, request: Fetch | AlterPartition) -> None:
        known = broker.replica.high_watermark
        self._messages.append(_Message(broker.broker_id, broker.life, target, request, known))

    def _acknowledge(self, broker: _Broker) -> None:
        waits, broker.waits = broker.waits, []
        for end_offset, leader_epoch in waits:
            try:
                if not broker.replica.is_acknowledged(end_offset, leader_epoch):
                    broker.waits.append((end_offset, leader_epoch))
                    continue
            except KafkaError:
                continue
            self._acknowledged += 1
            if end_offset > len(self._committed):
                raise ViolationError("what is acknowledged is committed", f"{end_offset} of {self._committed}")

    # --- what must hold ---

    def _check_leader(self, broker: _Broker, epoch: int) -> None:
        if self._leaders.setdefault(epoch, broker.broker_id) != broker.broker_id:
            raise ViolationError("one leader in an epoch", f"broker {broker.broker_id} in epoch {epoch}")
        if epoch == max(self._leaders):
            self._check_has_all("a leader has what is committed", broker)

    def _check_joined(self, before: tuple[int, ...]) -> None:
        """Checks the new in-sync replicas, unless they have restarted since the decision."""
        for replica in self._controller.partition.isr:
            broker = self._brokers[replica]
            if replica not in before and broker.epoch == self._controller.epochs[replica]:
                self._check_has_all("an in-sync replica has what is committed", broker)

    def _check_has_all(self, rule: str, broker: _Broker) -> None:
        if broker.log.entries[: len(self._committed)] != self._committed:
            raise ViolationError(rule, f"broker {broker.broker_id}: {broker.log.entries} of {self._committed}")

    def _check_cut(self, broker: _Broker, offset: int) -> None:
        entries, committed = broker.log.entries[offset:], self._committed[offset:]
        if any(entry == known for entry, known in zip(entries, committed, strict=False)):
            raise ViolationError("nothing committed is truncated", f"broker {broker.broker_id} cuts from {offset}")

    def _check_committed(self, broker: _Broker, high_watermark: int) -> None:
        found, known = broker.log.entries[:high_watermark], self._committed
        shorter = min(len(found), len(known))
        if len(found) < high_watermark or found[:shorter] != known[:shorter]:
            raise ViolationError("replicas are equal below the high watermark", f"{found}, committed {known}")
        self._committed = max(found, known, key=len)


SITUATIONS: tuple[Callable[[Schedule], None], ...] = (
    lambda schedule: None,
    Schedule.leave_one_behind,
    Schedule.shrink,
    Schedule.succeed,
    Schedule.part,
)
"""The situations after `begin` from which all schedules are followed."""


def explore(depth: int) -> Explored:
    """Follows every schedule of up to `depth` steps from each situation. Raises ViolationError."""
    explored = Explored(0, 0, 0)
    for lead_to in SITUATIONS:
        schedule = Schedule()
        schedule.begin()
        lead_to(schedule)
        schedule.begin_counting()
        explored = explored.beside(explore_all(schedule, depth))
    return explored


def main(arguments: list[str] | None = None) -> int:
    """The exit code is 0 if no rule was broken, else 1."""
    return run_explorer("moldau.simulation.replication.schedules", str(__doc__), explore, arguments)


if __name__ == "__main__":
    sys.exit(main())
