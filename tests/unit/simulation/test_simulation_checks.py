"""The checks of clients of single kinds: times, places of partitions, sessions, quotas, the kinds themselves."""

from __future__ import annotations

import pytest

from moldau.simulation.checkers.ledger import PartitionLedger, SentTimes, TopicRules, Value
from moldau.simulation.kinds import CHOICES, SHARES, has_kind, random_of, settings_of
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.troubles import CRASHES, Timetable, Troubles
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.questioner import errors_of
from moldau.simulation.workloads.quota_admin import QuotaValue
from moldau.simulation.workloads.time_searcher import check_found
from moldau.simulation.world import World
from moldau.types import Uuid
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartitionResponse
from moldau.wire.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse


def timed(*timestamps, **rules):
    """A partition with one record for each of `timestamps`."""
    known = PartitionLedger("t", Uuid(bytes(16)), 0, TopicRules(**rules), SentTimes())
    for offset, timestamp in enumerate(timestamps):
        value = Value("p", offset, True)
        known.sent.sent(value, timestamp, timestamp)
        known.acknowledged(offset, [value])
    return known


def check_time(known, wanted_ms, offset, timestamp):
    candidates = {at: known.sent.timestamps[value] for at, value in known.values.items()}
    check_found(known, ListOffsetsPartitionResponse(0, 0, timestamp, offset), candidates, wanted_ms)


def test_a_time_leads_to_the_first_record_that_is_as_late():
    known = timed(10, 30, 20, 40)
    check_time(known, 15, 1, 30)
    check_time(known, 31, 3, 40)
    check_time(known, 50, -1, -1)
    for wanted_ms, offset, timestamp in ((15, 2, 20), (15, 0, 10), (31, -1, -1), (15, 1, 20)):
        with pytest.raises(ViolationError, match="a time leads to its first record"):
            check_time(known, wanted_ms, offset, timestamp)


def test_the_latest_time_is_that_of_no_other_record():
    known = timed(10, 40, 20)
    check_time(known, None, 1, 40)
    with pytest.raises(ViolationError, match="a time leads to its first record"):
        check_time(known, None, 2, 20)


def test_in_a_compacted_log_an_earlier_record_may_be_gone_if_something_supersedes_it():
    known = timed(10, 30, 40, is_compacted=True)
    check_time(known, 15, 2, 40)
    seen = dict(known.values)
    superseding = seen | {3: Value("q", 1, True)}
    known.check_whole(superseding, 4)
    check_time(known, 15, 2, 40)
    with pytest.raises(ViolationError, match="readers get the last record of each key"):
        known.check_whole(seen, 3)


def test_quotas_are_what_was_acknowledged():
    quota = QuotaValue("quota", is_flushed=True)
    attempt, outdated = quota.begin(1_000)
    assert quota.sure is None
    quota.acknowledged(attempt, outdated)
    assert quota.sure == 1_000
    with pytest.raises(ViolationError, match="quotas are what was acknowledged"):
        quota.read(5_000)


def test_every_error_of_an_answer_is_found():
    inner = TopicProduceResponse("t", partition_responses=(PartitionProduceResponse(0, 3), PartitionProduceResponse(1)))
    assert errors_of(ProduceResponse(responses=(inner,))) == [3]


def test_each_kind_draws_from_a_stream_of_its_own():
    assert all(0 < share < 1 for share in SHARES.values())
    for kind in SHARES:
        assert any(has_kind(seed, kind) for seed in range(50))
        assert not all(has_kind(seed, kind) for seed in range(50))
    assert len({random_of(1, kind).random() for kind in SHARES}) == len(SHARES)


def test_the_settings_of_a_kind_come_only_with_the_kind():
    for seed in range(30):
        assert ("metadata.log.max.snapshot.interval.ms" in settings_of(seed)) == has_kind(seed, "snapshots")


def test_a_trouble_comes_by_a_timetable_that_only_its_name_and_the_seed_decide():
    loop = VirtualLoop()
    try:
        timetables = Troubles(World(3, loop, settings_of(3))).timetables
    finally:
        loop.close()
    assert len(timetables) > 1
    for timetable in timetables:
        alone = Timetable(timetable.kind, timetable.act, random_of(3, timetable.kind))
        assert (alone.due_s, alone.random.random()) == (timetable.due_s, timetable.random.random())


def test_every_story_has_crashes():
    for seed in range(30):
        loop = VirtualLoop()
        try:
            kinds = {timetable.kind for timetable in Troubles(World(seed, loop, settings_of(seed))).timetables}
        finally:
            loop.close()
        assert kinds & set(CRASHES)


def test_each_setting_is_drawn_from_a_stream_of_its_own():
    drawn = {name: str(random_of(5, f"setting {name}").choice(values)) for name, values in CHOICES.items()}
    assert settings_of(5) | drawn == settings_of(5)
    for name in CHOICES:
        assert len({settings_of(seed)[name] for seed in range(40)}) > 1
