"""The rules of groups: committed offsets do not go back, and each partition has one owner in a generation."""

from __future__ import annotations

import msgspec

from moldau.simulation.violation import ViolationError

NOTHING = -1


class Attempt(msgspec.Struct):
    """One OffsetCommit of one partition. `is_over`: its response came, or never will."""

    offset: int
    is_over: bool = False


class CommittedOffset:
    """The possible committed offsets of one partition of one group.

    `known` is the last one that was acknowledged or read. An attempt without a response stays possible until a commit
    that began after its end is acknowledged.
    """

    def __init__(self, name: str, *, is_flushed: bool) -> None:
        self.name = name
        self.is_flushed = is_flushed
        self.known = NOTHING
        self.attempts: list[Attempt] = []
        self.history: list[int] = [NOTHING]
        self.is_unsure = False

    def begin(self, offset: int) -> tuple[Attempt, list[Attempt]]:
        """A commit is about to be sent. Returns it, and the attempts that its acknowledgement makes obsolete."""
        outdated = [attempt for attempt in self.attempts if attempt.is_over]
        attempt = Attempt(offset)
        self.attempts.append(attempt)
        self.history.append(offset)
        return attempt, outdated

    def acknowledged(self, attempt: Attempt, outdated: list[Attempt]) -> None:
        attempt.is_over = True
        self.known = attempt.offset
        self.is_unsure = False
        gone = [*outdated, attempt]
        self.attempts = [other for other in self.attempts if not any(other is one for one in gone)]

    def refused(self, attempt: Attempt) -> None:
        """The broker rejected the commit."""
        attempt.is_over = True
        self.attempts = [other for other in self.attempts if other is not attempt]

    def read(self, offset: int) -> None:
        """OffsetFetch returned `offset`."""
        possible = [self.known, *[attempt.offset for attempt in self.attempts]]
        if self.is_unsure:
            possible += self.history
        if offset not in possible:
            raise ViolationError(
                "committed offsets never go back", f"{self.name}: read {offset}, possible are {sorted(set(possible))}"
            )
        self.known = offset
        self.is_unsure = False

    def power_lost(self) -> None:
        """The machine crashed: without a flush any earlier value may return."""
        if not self.is_flushed:
            self.is_unsure = True


class KnownGeneration(msgspec.Struct, frozen=True):
    """The newest generation that any member of a group has received, and the life of the group."""

    life: int
    generation: int


class GroupLedger:
    """One group: its offsets, and the owners of partitions in each generation."""

    def __init__(self, group: str, *, is_flushed: bool) -> None:
        self.group = group
        self.is_flushed = is_flushed
        self.offsets: dict[tuple[str, int], CommittedOffset] = {}
        self.owners: dict[tuple[int, str, int], str] = {}
        self.plans: dict[int, dict[str, tuple[int, ...]]] = {}
        self.generation = -1
        self.lives = 1
        """The number of lives of the group: it ends without members and committed offsets, and a new life begins with
        generation 1."""
        self.may_be_forgotten = False
        """A crash of the machine may have removed the whole group."""

    def offset(self, topic: str, partition: int) -> CommittedOffset:
        key = (topic, partition)
        if key not in self.offsets:
            name = f"{self.group} {topic}-{partition}"
            self.offsets[key] = CommittedOffset(name, is_flushed=self.is_flushed)
        return self.offsets[key]

    def planned(self, generation: int, plan: dict[str, tuple[int, ...]]) -> None:
        """The leader of `generation` is about to send its assignment."""
        self.plans[generation] = plan

    def asked_to_join(self) -> KnownGeneration:
        """A member is about to send JoinGroup. Returns the newest generation that any member knows now."""
        return KnownGeneration(self.lives, self.generation)

    def assigned(
        self,
        generation: int,
        topic: str,
        member: str,
        partitions: tuple[int, ...],
        *,
        known: KnownGeneration,
        is_planned: bool,
    ) -> None:
        """A member received `partitions`. No other member may ever receive them in that generation.

        `known` is from the moment when the member sent JoinGroup. Responses to two members may arrive in either order,
        so an older generation than the newest at arrival is no violation.
        """
        if generation < known.generation and known.life == self.lives and self._may_have_ended():
            self._begin_anew()
            known = self.asked_to_join()
        plan = self.plans.get(generation, {})
        if is_planned and plan.get(member) != partitions:
            raise ViolationError(
                "members get what the leader gave them",
                f"{self.group} generation {generation}: {member} got {partitions}, planned {plan}",
            )
        if known.life != self.lives:
            return  # from this life or the one before: the generation does not show which
        for partition in partitions:
            owner = self.owners.setdefault((generation, topic, partition), member)
            if owner != member:
                raise ViolationError(
                    "one owner per partition and generation",
                    f"{self.group} generation {generation}: {topic}-{partition} belongs to {owner} and to {member}",
                )
        if generation < known.generation:
            raise ViolationError(
                "generations never go back", f"{self.group}: {member} joined {generation} after {known.generation}"
            )
        self.generation = max(self.generation, generation)

    def _may_have_ended(self) -> bool:
        """Whether the group may have ended: a group without members and committed offsets ends at the next check, and
        starts again with generation 1."""
        return all(offset.known == NOTHING or offset.is_unsure for offset in self.offsets.values())

    def _begin_anew(self) -> None:
        self.lives += 1
        self.generation = -1
        self.owners.clear()

    def power_lost(self) -> None:
        for offset in self.offsets.values():
            offset.power_lost()
        if not self.is_flushed:
            # an older generation may return with its plan; a newer one may be planned again
            self.may_be_forgotten = True
            self._begin_anew()
