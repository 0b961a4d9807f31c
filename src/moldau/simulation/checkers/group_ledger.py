"""What the members of groups were promised: committed offsets that do not go back, one owner per generation."""

from __future__ import annotations

import msgspec

from moldau.simulation.violation import ViolationError

NOTHING = -1


class Attempt(msgspec.Struct):
    """One OffsetCommit of one partition. `is_over`: its answer came, or never will."""

    offset: int
    is_over: bool = False


class CommittedOffset:
    """What the committed offset of one partition of one group may be.

    `known` is the last that was acknowledged or read. An attempt whose answer never came stays possible until a commit
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
        """A commit is about to be sent: gives it, and the attempts that it outdates once it is acknowledged."""
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
        """The broker said that it did not do it."""
        attempt.is_over = True
        self.attempts = [other for other in self.attempts if other is not attempt]

    def read(self, offset: int) -> None:
        """OffsetFetch gave `offset`."""
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
        """A crash of the machine: without a flush any earlier value may be back."""
        if not self.is_flushed:
            self.is_unsure = True


class KnownGeneration(msgspec.Struct, frozen=True):
    """The newest generation that any member of a group had been given, in which life of the group."""

    life: int
    generation: int


class GroupLedger:
    """One group: its offsets, and who owned what in which generation."""

    def __init__(self, group: str, *, is_flushed: bool) -> None:
        self.group = group
        self.is_flushed = is_flushed
        self.offsets: dict[tuple[str, int], CommittedOffset] = {}
        self.owners: dict[tuple[int, str, int], str] = {}
        self.plans: dict[int, dict[str, tuple[int, ...]]] = {}
        self.generation = -1
        self.lives = 1
        """How often the group may have begun with generation 1: it ends without members and positions."""
        self.may_be_forgotten = False
        """A crash of the machine may have taken the whole group away."""

    def offset(self, topic: str, partition: int) -> CommittedOffset:
        key = (topic, partition)
        if key not in self.offsets:
            name = f"{self.group} {topic}-{partition}"
            self.offsets[key] = CommittedOffset(name, is_flushed=self.is_flushed)
        return self.offsets[key]

    def planned(self, generation: int, plan: dict[str, tuple[int, ...]]) -> None:
        """The leader of `generation` is about to hand in its assignment."""
        self.plans[generation] = plan

    def asked_to_join(self) -> KnownGeneration:
        """A member is about to send JoinGroup: gives what any member knows by now."""
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
        """A member was given `partitions`: nobody else may ever be given them in that generation.

        `known` is of the moment when the member asked to join. Answers to two members may arrive in either order, so
        the newest generation at the moment of arrival says nothing about an older one.
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
            return  # an answer of the life before, or of this one: its generation cannot tell
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
        """A group without members and positions ends at the next check, and begins with generation 1 again."""
        return all(offset.known == NOTHING or offset.is_unsure for offset in self.offsets.values())

    def _begin_anew(self) -> None:
        self.lives += 1
        self.generation = -1
        self.owners.clear()

    def power_lost(self) -> None:
        for offset in self.offsets.values():
            offset.power_lost()
        if not self.is_flushed:
            # an older generation may be back, and its plan with it; a newer one may be planned once more
            self.may_be_forgotten = True
            self._begin_anew()
