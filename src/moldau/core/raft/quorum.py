"""One node of the quorum as a step machine (KIP-595, 630, 853, 996): elections, epochs and commits.

    begin(now_ms), step(event, now_ms) -> outputs     performed by the driver in their order, each before the next event
    next_deadline_ms()                                when a Tick is due; None: nothing waits for time

Deterministic, without callbacks or futures, as core/replication/replica. The driver owns the metadata log, the file
`quorum-state`, the network and the clock. A remote fault is an event, never an exception. An epoch, a vote and a leader
are saved before anything that depends on them is sent.

**Roles.** The transitions between them:

    waiting (no leader to follow)   its time is over                           -> pre-vote round
    follower                        the leader does not answer, or has ended   -> pre-vote round
    pre-vote round                  a majority would vote for it               -> vote round, in the next epoch
                                    a majority would not, or its time is over  -> follower or waiting
    vote round                      a majority votes for it                    -> leader
                                    a majority does not, or its time is over   -> pre-vote round
    leader                          no majority fetches, or it is removed      -> waiting
    any                             a higher epoch is seen                     -> follower or waiting

An observer only waits, asks voters for the leader, and follows. A voter that is a majority alone leads at once, in an
epoch above every epoch in `quorum-state` and in the log.

**Restart.** A leader that restarts does not lead in its old epoch, because it may have lost records that it sent. In
that epoch it grants no vote.

**Resign** ends a node's participation until the next start.
"""

from __future__ import annotations

from moldau.core.raft.election import Round, Waiting, is_vote_granted
from moldau.core.raft.follower import Follower
from moldau.core.raft.leader import Leader
from moldau.core.raft.membership import Membership
from moldau.core.raft.messages import (
    NOBODY,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    Standing,
    UpdateVoter,
    Vote,
    VoteAnswer,
    VoterChange,
    VoterChangeAnswer,
)
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.steps import (
    Answer,
    Answered,
    Ask,
    Asked,
    ConnectionLost,
    Event,
    LeadershipBegan,
    LeadershipEnded,
    Output,
    QuorumSettings,
    QuorumState,
    Resign,
    Save,
    Tick,
)
from moldau.core.raft.voter_changes import Progress
from moldau.core.raft.voters import ReplicaKey
from moldau.ports import Random
from moldau.types import ZERO_UUID, BrokerId, LeaderEpoch, Offset, uuid_from_text, uuid_to_text


class Quorum:
    """`saved`: the content of `quorum-state`. `log` begins with the recovered log and belongs to this object from
    then on. `bootstrap_ids`: nodes to ask for the leader if the log names no voters
    (`controller.quorum.bootstrap.servers`)."""

    def __init__(
        self,
        node: ReplicaKey,
        saved: QuorumState | None,
        log: OwnLog,
        settings: QuorumSettings,
        random: Random,
        bootstrap_ids: tuple[int, ...] = (),
        membership: Membership | None = None,
    ) -> None:
        saved = saved or QuorumState()
        self.node = node
        self.log = log
        self.leader_epoch = LeaderEpoch(max(log.latest_epoch, saved.leader_epoch))
        is_known = saved.leader_epoch == self.leader_epoch
        self.leader_id = saved.leader_id if is_known else NOBODY
        """NOBODY if the leader of this epoch is unknown."""
        self.voted: ReplicaKey | None = None
        """The vote of this node in this epoch."""
        if is_known and saved.voted_id != NOBODY:
            self.voted = ReplicaKey(BrokerId(saved.voted_id), uuid_from_text(saved.voted_directory_id))
        self._settings = settings
        self._random = random
        self._bootstrap_ids = [node_id for node_id in bootstrap_ids if node_id != node.node_id]
        self._membership = membership
        self._saved = saved
        self._role: Waiting | Round | Follower | Leader = Waiting(0)
        self._has_resigned = False

    # --- properties ---

    @property
    def has_resigned(self) -> bool:
        """Whether this node no longer participates."""
        return self._has_resigned

    @property
    def is_leader(self) -> bool:
        """Whether this node leads in its latest epoch."""
        return isinstance(self._role, Leader)

    @property
    def is_voter(self) -> bool:
        """Whether the latest voter set in the log, committed or not, has this node with this directory."""
        return self.log.voters.latest.key_of(self.node) is not None

    @property
    def _may_stand(self) -> bool:
        return self.log.voters.may_stand(self.node, self.log.high_watermark)

    @property
    def _is_majority(self) -> bool:
        """Whether this voter alone is a majority."""
        return self.is_voter and self.log.voters.latest.majority == 1

    @property
    def high_watermark(self) -> Offset:
        """The offset below which this node knows all records to be committed."""
        return self.log.high_watermark

    @property
    def has_all_committed(self) -> bool:
        """Whether this node has everything that its leader, or itself as the leader, knows to be committed."""
        return self._role.has_all_committed if isinstance(self._role, Follower) else self.is_leader

    def refusal(self, request: VoterChange) -> VoterChangeAnswer | None:
        """Why this change of voters is rejected, as far as known before the new voter is asked."""
        if isinstance(self._role, Leader):
            return self._role.refusal(request)
        return VoterChangeAnswer("NOT_LEADER_OR_FOLLOWER", self.leader_id, self.leader_epoch)

    def replicas(self, now_ms: int) -> dict[ReplicaKey, Progress]:
        """The progress of each voter and observer, the leader included. Empty if another node leads."""
        return self._role.replicas(now_ms) if isinstance(self._role, Leader) else {}

    def next_deadline_ms(self) -> int | None:
        """When the next Tick is due, in steady time; None: no timer."""
        if self._has_resigned:
            return None
        role = self._role
        deadline_ms = role.next_deadline_ms() if isinstance(role, Leader | Follower) else role.deadline_ms
        both = [each for each in (deadline_ms, self.log.next_deadline_ms()) if each is not None]
        return min(both, default=None)

    # --- events ---

    def begin(self, now_ms: int) -> tuple[Output, ...]:
        """Takes the role of a start, and returns the outputs."""
        if self._is_majority:
            return self._begin_election(now_ms)
        return (*self._find_role(now_ms), *self.log.flush())

    def step(self, event: Event, now_ms: int) -> tuple[Output, ...]:
        """Takes one event and returns the outputs. After a resignation it takes none. `now_ms`: steady time."""
        if self._has_resigned:
            return ()
        self.log.take(event, now_ms)
        match event:
            case Asked():
                outputs = self._asked(event, now_ms)
            case Answered():
                outputs = self._answered(event, now_ms)
            case ConnectionLost():
                if isinstance(self._role, Follower) and event.node_id == self.leader_id:
                    left = [key.node_id for key in self.log.voters.latest.keys if key.node_id != self.leader_id]
                    self._role.leader_lost(now_ms, left.index(self.node.node_id) if self.is_voter else len(left))
                outputs = ()
            case Resign():
                return self._resign()
            case _:
                outputs = self._role.step(event, now_ms) if isinstance(self._role, Leader | Follower) else ()
        if isinstance(event, Tick):
            outputs = (*outputs, *self._look_at_time(now_ms))
        if isinstance(self._role, Leader) and self._role.is_removed:
            outputs = (*outputs, *self._step_down(now_ms))
        return (*outputs, *self.log.flush())

    def _look_at_time(self, now_ms: int) -> tuple[Output, ...]:
        role = self._role
        if isinstance(role, Leader):
            check_ms = role.check_quorum_ms()
            return self._step_down(now_ms) if check_ms is not None and now_ms >= check_ms else ()
        if now_ms < role.deadline_ms:
            return ()
        if isinstance(role, Round) and role.is_pre_vote:
            return self._find_role(now_ms)
        return self._begin_pre_vote(now_ms) if self._may_stand else self._look_for_leader(now_ms)

    # --- roles ---

    def _enter(self, role: Waiting | Round | Follower | Leader) -> tuple[Output, ...]:
        """Takes the role. If a leadership ends, all its waiting requests get a response."""
        old, self._role = self._role, role
        return (LeadershipEnded(old.leader_epoch), *old.end()) if isinstance(old, Leader) else ()

    def _save(self) -> tuple[Output, ...]:
        log = self.log
        state = QuorumState(
            self.leader_id,
            self.leader_epoch,
            NOBODY if self.voted is None else self.voted.node_id,
            uuid_to_text(ZERO_UUID if self.voted is None else self.voted.directory_id),
            (tuple(key.node_id for key in log.voters.latest.keys) or None) if log.voters.kraft_version == 0 else None,
        )
        if state == self._saved:
            return ()
        self._saved = state
        return (Save(state),)

    def _election_time(self, now_ms: int) -> int:
        """The end of a random time between one and two election timeouts, so that two nodes seldom begin together."""
        timeout_ms = self._settings.election_timeout_ms
        return now_ms + timeout_ms + self._random.random_below(timeout_ms)

    def _see_epoch(self, leader_epoch: int, leader_id: int, now_ms: int) -> tuple[Output, ...]:
        """Another node is in `leader_epoch` and knows that leader. An older epoch is ignored."""
        if leader_epoch > self.leader_epoch:
            self.leader_epoch, self.leader_id, self.voted = LeaderEpoch(leader_epoch), NOBODY, None
        elif leader_epoch < self.leader_epoch or leader_id == NOBODY or self.leader_id != NOBODY:
            return ()
        if leader_id not in (NOBODY, self.node.node_id):
            self.leader_id, self.voted = leader_id, None
        return self._find_role(now_ms)

    def _find_role(self, now_ms: int) -> tuple[Output, ...]:
        """Follows the leader of this epoch, or waits for one."""
        if self.leader_id in (NOBODY, self.node.node_id):
            ended = self._enter(Waiting(self._election_time(now_ms) if self._may_stand else now_ms))
            return (*ended, *self._save())
        role = Follower(
            self.node, self.log, self._settings, self.leader_id, self.leader_epoch, now_ms, self._membership
        )
        return (*self._enter(role), *self._save(), *role.begin())

    def _look_for_leader(self, now_ms: int) -> tuple[Output, ...]:
        """An observer asks one of the voters, which responds with the leader."""
        others = [key.node_id for key in self.log.voters.latest.others(self.node)] or self._bootstrap_ids
        request = Fetch(self.node, self.leader_epoch, self.log.log_end_offset, self.log.latest_epoch, 0, 0)
        asked = () if not others else (Ask(others[self._random.random_below(len(others))], request),)
        return (*self._enter(Waiting(self._election_time(now_ms))), *asked)

    def _begin_pre_vote(self, now_ms: int) -> tuple[Output, ...]:
        return self._begin_election(now_ms) if self._is_majority else self._begin_round(now_ms, is_pre_vote=True)

    def _begin_election(self, now_ms: int) -> tuple[Output, ...]:
        """Begins the next epoch, with this node's vote for itself."""
        self.leader_epoch = LeaderEpoch(self.leader_epoch + 1)
        self.leader_id, self.voted = NOBODY, self.node
        return self._lead(now_ms) if self._is_majority else self._begin_round(now_ms, is_pre_vote=False)

    def _begin_round(self, now_ms: int, *, is_pre_vote: bool) -> tuple[Output, ...]:
        voters = self.log.voters.latest
        role = Round(self.node, voters, self._election_time(now_ms), is_pre_vote=is_pre_vote)
        ended = self._enter(role)
        asked = (
            Ask(
                key.node_id,
                Vote(
                    self.leader_epoch,
                    self.node,
                    key,
                    self.log.latest_epoch,
                    self.log.log_end_offset,
                    is_pre_vote,
                ),
            )
            for key in voters.others(self.node)
        )
        return (*ended, *self._save(), *asked)

    def _count(self, role: Round, now_ms: int) -> tuple[Output, ...]:
        if role.is_won:
            return self._begin_election(now_ms) if role.is_pre_vote else self._lead(now_ms)
        if role.is_lost:
            return self._find_role(now_ms) if role.is_pre_vote else self._begin_pre_vote(now_ms)
        return ()

    def _lead(self, now_ms: int) -> tuple[Output, ...]:
        self.leader_id, self.voted = self.node.node_id, None
        role = Leader(self.node, self.log, self._settings, self.leader_epoch, now_ms)
        return (*self._enter(role), *self._save(), *role.begin(), LeadershipBegan(self.leader_epoch))

    def _step_down(self, now_ms: int) -> tuple[Output, ...]:
        """The leader has no majority, or is no voter any more: tells the voters, and waits."""
        farewell = self._role.farewell() if isinstance(self._role, Leader) else ()
        return (*self._find_role(now_ms), *farewell)

    def _resign(self) -> tuple[Output, ...]:
        self._has_resigned = True
        farewell = self._role.farewell() if isinstance(self._role, Leader) else ()
        return (*self._enter(Waiting(0)), *farewell)

    # --- events from other nodes ---

    def _answered(self, event: Answered, now_ms: int) -> tuple[Output, ...]:
        answer, role = event.answer, self._role
        if answer is not None:
            news = self._see_epoch(answer.leader_epoch, answer.leader_id, now_ms)
            if self._role is not role:
                return news
        if isinstance(role, Follower):
            return role.step(event, now_ms)
        if isinstance(role, Waiting) and not self._may_stand and self.leader_id not in (NOBODY, self.node.node_id):
            return self._find_role(now_ms)  # an observer that gave up its leader, which is still the leader
        if isinstance(role, Round) and isinstance(answer, VoteAnswer) and isinstance(event.request, Vote):
            is_of_round = event.request.is_pre_vote == role.is_pre_vote
            if is_of_round and event.request.leader_epoch == self.leader_epoch and not answer.error:
                role.take(event.node_id, is_granted=answer.is_granted)
                return self._count(role, now_ms)
        return ()

    def _asked(self, event: Asked, now_ms: int) -> tuple[Output, ...]:
        match event.request:
            case Vote():
                return self._vote(event.request_id, event.request, now_ms)
            case BeginQuorumEpoch() | EndQuorumEpoch():
                return self._hear_leader(event.request_id, event.request, now_ms)
            case _:
                return self._ask_leader(event.request_id, event.request, now_ms)

    def _vote(self, request_id: int, request: Vote, now_ms: int) -> tuple[Output, ...]:
        error = ""
        outputs: tuple[Output, ...] = ()
        is_granted = False
        if request.leader_epoch < self.leader_epoch:
            error = "FENCED_LEADER_EPOCH"
        elif request.voter.node_id != self.node.node_id or request.voter.directory_id not in (
            ZERO_UUID,
            self.node.directory_id,
        ):
            error = "INVALID_VOTER_KEY"
        else:
            outputs = self._see_epoch(request.leader_epoch, NOBODY, now_ms)
            role = self._role
            works = isinstance(role, Leader) or (isinstance(role, Follower) and role.has_fetched)
            is_granted = is_vote_granted(request, self.log, self.leader_id, self.voted, has_working_leader=works)
            if is_granted and not request.is_pre_vote:
                self.voted = request.candidate
                outputs = (*outputs, *self._find_role(now_ms))
        answer = VoteAnswer(error, self.leader_id, self.leader_epoch, is_granted)
        return (*outputs, Answer(request_id, answer))

    def _hear_leader(
        self, request_id: int, request: BeginQuorumEpoch | EndQuorumEpoch, now_ms: int
    ) -> tuple[Output, ...]:
        error = "FENCED_LEADER_EPOCH" if request.leader_epoch < self.leader_epoch else ""
        outputs = self._see_epoch(request.leader_epoch, request.leader_id, now_ms)
        answer = Answer(request_id, Standing(error, self.leader_id, self.leader_epoch))
        role = self._role
        if not error and isinstance(request, EndQuorumEpoch) and isinstance(role, Follower):
            names = (self.node, ReplicaKey(self.node.node_id))  # a configured voter has no directory
            keys = request.preferred_successors
            place = next((place for place, key in enumerate(keys) if key in names), len(keys))
            wait_ms = place * self._random.random_below(self._settings.election_timeout_ms)
            role.leader_ended(now_ms + wait_ms)
        return (*outputs, answer)

    def _ask_leader(
        self, request_id: int, request: Fetch | FetchSnapshot | VoterChange, now_ms: int
    ) -> tuple[Output, ...]:
        role, error = self._role, ""
        epoch = request.leader_epoch if isinstance(request, Fetch | FetchSnapshot | UpdateVoter) else -1
        may_be_any = not isinstance(request, Fetch | FetchSnapshot) and epoch < 0
        if epoch != self.leader_epoch and not may_be_any:
            is_old = epoch < self.leader_epoch
            error = "FENCED_LEADER_EPOCH" if is_old else "UNKNOWN_LEADER_EPOCH"
        if error or not isinstance(role, Leader):
            return (self._refuse(request_id, request, error or "NOT_LEADER_OR_FOLLOWER"),)
        match request:
            case Fetch():
                return role.fetch(request_id, request, now_ms)
            case FetchSnapshot():
                return role.fetch_snapshot(request_id, request, now_ms)
            case _:
                return role.change_voters(request_id, request, now_ms)

    def _refuse(self, request_id: int, request: Fetch | FetchSnapshot | VoterChange, error: str) -> Answer:
        kind: type[Standing] = VoterChangeAnswer
        if isinstance(request, Fetch):
            kind = FetchAnswer
        elif isinstance(request, FetchSnapshot):
            kind = FetchSnapshotAnswer
        return Answer(request_id, kind(error, self.leader_id, self.leader_epoch))
