"""A replica's records must be on its disk after a crash: all, or after a loss of power the flushed ones."""

from __future__ import annotations

import pytest

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.log import AppendOrigin
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.simulation.replication.ledger import Ledger
from moldau.simulation.trace import Trace
from moldau.simulation.violation import ViolationError
from moldau.types import METADATA_TOPIC_ID, LeaderEpoch, TopicPartition
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush

NAME = "broker-0"
PARTITION = TopicPartition("t", 0)
NOW_MS = 1_000


class Replica:
    """A log with three batches that the ledger knows; the first is flushed."""

    def __init__(self):
        self.disk = MemoryDisk()
        self.ledger = Ledger(Trace(lambda: 0.0))
        directory = LogDirectory.open(self.disk)
        directory.create_log(PARTITION, METADATA_TOPIC_ID, LogSettings(), now_ms=NOW_MS)
        self.log = directory.logs[PARTITION]
        self.ledger.opened(NAME, self.log, 0)
        for number in range(3):
            batch = bytearray(build_batch([(None, b"value", NOW_MS, ())]))
            self.log.append(batch, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
            self.ledger.appended(NAME, self.log)
            if number == 0:
                flush(self.log, NOW_MS)
                self.ledger.flushed(NAME, self.log)

    def survived(self, *, is_power_lost):
        self.ledger.survived(NAME, self.disk, str(PARTITION), is_power_lost=is_power_lost)


def test_a_killed_process_leaves_all_that_it_appended():
    replica = Replica()
    replica.disk.crash_process()
    replica.survived(is_power_lost=False)
    replica.disk.crash_machine(AlwaysOld())
    with pytest.raises(ViolationError, match="what a replica has survives its crash"):
        replica.survived(is_power_lost=False)


class AlwaysOld(SeededRandom):
    """No unflushed data survives."""

    def __init__(self):
        super().__init__(1)

    def random_below(self, bound):
        return 0


def test_a_loss_of_power_leaves_what_was_flushed():
    replica = Replica()
    replica.disk.crash_machine(AlwaysOld())
    replica.survived(is_power_lost=True)
    replica.disk.remove(f"{PARTITION}/00000000000000000000.log")
    with pytest.raises(ViolationError, match="what a replica has survives its crash"):
        replica.survived(is_power_lost=True)


def test_what_a_replica_cuts_itself_is_no_loss():
    replica = Replica()
    replica.ledger.truncated(NAME, replica.log, 1)
    replica.disk.crash_machine(AlwaysOld())
    replica.survived(is_power_lost=False)
