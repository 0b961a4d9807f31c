"""A whole story: machines, controller, network, clients, trouble, and the final checks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from moldau.simulation.loop import VirtualLoop, virtual_loop
from moldau.simulation.replication.clients import Producer, Reader
from moldau.simulation.replication.controller import Controller
from moldau.simulation.replication.faults import Faults
from moldau.simulation.replication.machine import ReplicaMachine
from moldau.simulation.replication.story import Story
from moldau.simulation.seeds import SeedOutcome, how_it_ended
from moldau.simulation.violation import ViolationError

DEFAULT_SECONDS = 12.0
PATIENCE_S = 30.0
"""After the trouble, the virtual time within which everything must be whole, or at least the shortest replica must
grow."""
LOOK_EVERY_S = 0.01


class Outcome(SeedOutcome, frozen=True, kw_only=True):
    """The outcome of one seed."""

    events: int
    truncations: int
    elections: int
    unclean_elections: int
    is_loss_allowed: bool


class World:
    """See the module. All values are drawn from `seed`."""

    def __init__(self, seed: int, loop: VirtualLoop, write_line: Callable[[str], None] | None = None) -> None:
        self.story = story = Story(seed, loop, write_line)
        self.trace, self.ledger = story.trace, story.ledger
        self.controller = Controller(
            story,
            on_change=self._changed,
            on_registered=self._registered,
        )
        self.machines = [
            ReplicaMachine(story, broker_id, self.may_fail, self._check_flushed) for broker_id in story.replicas
        ]
        self._known_isr = story.replicas
        self._has_last_known_lost_power = False
        self.producers = [Producer(story, f"producer-{index}", acks) for index, acks in enumerate((-1, -1, 1, 1))]
        self.readers = [Reader(story, f"reader-{index}") for index in range(2)]
        clients = [*(producer.name for producer in self.producers), *(reader.name for reader in self.readers)]
        self.faults = Faults(story, self.machines, self.controller, clients, self.may_fail)

    def may_fail(self, machine: ReplicaMachine, *, is_power_lost: bool) -> bool:
        """Whether the machine may fail like this, because acknowledged records must survive the failure too. They must
        survive as long as one of the replicas that have them is left. A killed broker also counts as failed, because
        the controller cannot tell the difference (KIP-966). If all have failed, the last known leader is elected with
        its records, so none may have lost its power."""
        if self.story.allows_unclean_election or self.story.replication_settings.waits_for_flush:
            return True
        others = [one for one in self.controller.replicas_with_everything() if one != machine.broker_id]
        is_one_left = not all(self.machines[one].has_failed for one in others)
        may_lead = (machine.broker_id, *others, *self.controller.partition.last_known_elr)
        has_lost_power = self._has_last_known_lost_power or any(self.machines[one].has_lost_power for one in may_lead)
        return is_one_left or not (is_power_lost or has_lost_power)

    def _registered(self, broker_id: int) -> None:
        """The earlier state of the broker no longer counts, unless the controller remembers it as the last known
        leader, which is elected even after an unclean restart (KIP-966)."""
        machine = self.machines[broker_id]
        if machine.has_lost_power and broker_id in self.controller.partition.last_known_elr:
            self._has_last_known_lost_power = True
        machine.registered()

    def _changed(self) -> None:
        partition = self.controller.partition
        if not partition.last_known_elr:
            self._has_last_known_lost_power = False
        joined = [replica for replica in partition.isr if replica not in self._known_isr]
        self._known_isr = partition.isr
        self._check_promise()
        for replica in joined:
            broker = self.machines[replica].broker
            if broker is not None and broker.broker_epoch == self.controller.brokers[replica].epoch:
                self.ledger.joined(broker.name, broker.log)
        self.faults.replicas_joined(joined, partition.leader)

    def _check_promise(self) -> None:
        """Decides whether acknowledged records may be lost from now on. `min.insync.replicas` of 2 survives only one
        failure: one of three in-sync replicas leaves without becoming eligible, because two remain; then both of these
        fail. A broker counts as failed until it has registered again. With `min.insync.replicas` of 1 one failure is
        enough."""
        if self.controller.unclean_elections:
            self.ledger.allow_loss()
        kept = self.controller.replicas_with_everything()
        is_kept = self.story.replication_settings.waits_for_flush or not all(
            self.machines[one].has_lost_power for one in kept
        )
        if is_kept or self.ledger.is_loss_allowed:
            return
        failures = sum(machine.has_failed for machine in self.machines)
        is_promised = failures < self.story.replication_settings.min_insync_replicas
        if is_promised and not self.story.allows_unclean_election:
            self.ledger.fail("a replica is left that has everything", f"{kept}: {self.controller.partition}")
        self.ledger.allow_loss()

    def _check_flushed(self, end_offset: int) -> None:
        """With `flush.messages=1`, acknowledged records must be on the disk of each in-sync replica."""
        if not self.story.replication_settings.waits_for_flush or self.ledger.is_loss_allowed:
            return
        for replica in self.controller.partition.isr:
            broker = self.machines[replica].broker
            if broker is None or broker.broker_epoch < 0:
                continue
            flushed_offset = broker.log.recovery_point
            if flushed_offset < end_offset:
                self.ledger.fail(
                    "what is acknowledged is on the disk", f"{broker.name}: {flushed_offset} of {end_offset}"
                )

    async def run(self, seconds: float) -> None:
        """Runs the story. Raises ViolationError."""
        for machine in self.machines:
            machine.start()
        self.faults.begin()
        await asyncio.sleep(seconds)
        self.trace.tell("the trouble ends")
        self.faults.end()
        self.story.network.mend()
        self.story.calls.loss_share = 0.0
        for producer in self.producers:
            producer.stop()
        for machine in self.machines:
            if machine.broker is not None:
                machine.broker.disk.plan = None
                self.story.loop.resume(machine.broker.process)
            machine.start_if_down()
        await self._until("every replica is in sync again", self._is_whole)
        last = Producer(self.story, "last producer", -1)
        await self._until("a producer succeeds again", lambda: last.acknowledged > 0)
        last.stop()
        await self._until("every replica is in sync again", lambda: last.is_idle and self._is_whole())
        end_offset = self.machines[0].broker.log.log_end_offset if self.machines[0].broker is not None else 0
        await self._until("readers come to the end", lambda: all(one.offset == end_offset for one in self.readers))
        running = [machine.broker for machine in self.machines if machine.broker is not None]
        self.ledger.check_end(
            {broker.name: broker.log for broker in running},
            {broker.name: broker.replica.high_watermark for broker in running},
        )

    async def _until(self, rule: str, is_done: Callable[[], bool]) -> None:
        """The time limit starts again while the shortest log grows: a follower that flushes each of its small fetches
        needs a minute for records that acks=1 wrote without flushes. Producers write little by then, so growth ends."""
        shortest, end_s = -1, 0.0
        while not is_done():
            if self.story.loop.time() > end_s:
                if self._shortest_log() <= shortest:
                    replicas = [f"{one.host}: {one.broker.replica.position}" for one in self.machines if one.broker]
                    raise ViolationError(rule, f"not within {PATIENCE_S} s: {self.controller.partition} {replicas}")
                shortest, end_s = self._shortest_log(), self.story.loop.time() + PATIENCE_S
            await asyncio.sleep(LOOK_EVERY_S)

    def _shortest_log(self) -> int:
        return min(0 if one.broker is None else one.broker.log.log_end_offset for one in self.machines)

    def _is_whole(self) -> bool:
        """Whether all replicas are in sync, no batch is in flight, and every replica's high watermark is its end."""
        if len(self.controller.partition.isr) < len(self.story.replicas):
            return False
        if not all(producer.is_idle for producer in self.producers):
            return False
        ends = set()
        for machine in self.machines:
            if machine.broker is None:
                return False
            position = machine.broker.replica.position
            if position.high_watermark != position.log_end_offset:
                return False
            ends.add(position.log_end_offset)
        return len(ends) == 1


def run_seed(
    seed: int, *, seconds: float = DEFAULT_SECONDS, write_line: Callable[[str], None] | None = None
) -> Outcome:
    """Runs the whole story of `seed`. Deterministic: the same code and seed give the same digest."""
    began = time.perf_counter()
    with virtual_loop() as loop:
        world = World(seed, loop, write_line)
        violation = loop.run_until_complete(world.story.first_violation(world.run(seconds)))
    return Outcome(
        seed=seed,
        **how_it_ended(world.trace, violation),
        events=world.trace.count,
        truncations=world.ledger.truncations,
        elections=world.controller.partition.leader_epoch,
        acknowledged=len(world.ledger.acknowledged),
        unclean_elections=world.controller.unclean_elections,
        is_loss_allowed=world.ledger.is_loss_allowed,
        elapsed_s=time.perf_counter() - began,
    )
