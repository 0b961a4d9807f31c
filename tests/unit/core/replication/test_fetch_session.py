"""Fetch sessions by their rules (KIP-227); the expected results are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.core.replication.fetch_session import (
    EVICTION_MS,
    MAX_EPOCH,
    FetchSessions,
    SessionAnswer,
    next_epoch,
)
from moldau.telemetry import BOUND_REACHED, Telemetry
from moldau.wire.protocol.fast_fetch import FetchEntry, FetchResult

LARGE = 1 << 30


def sessions(limit: int = 1000, memory_bytes: int = LARGE) -> FetchSessions:
    ids = itertools.count(100)
    return FetchSessions(limit, memory_bytes, lambda bound: next(ids), Telemetry())


def entry(partition: int, offset: int = 0, topic: bytes = b"t") -> FetchEntry:
    return (topic, partition, -1, offset, -1, -1, 1 << 20)


def result(partition: int, high_watermark: int = 5, *, start: int = 0, error: int = 0, records: bytes = b"",
           diverging: tuple[int, int] | None = None, topic: bytes = b"t") -> FetchResult:  # fmt: skip
    return (topic, partition, error, high_watermark, high_watermark, start, diverging, records, None)


def begin(
    cache: FetchSessions,
    session_id: int,
    epoch: int,
    entries: tuple[FetchEntry, ...] = (),
    forget: tuple[int, ...] = (),
    *,
    ids: bool = False,
    replica: bool = False,
    now_ms: int = 0,
) -> SessionAnswer | int | None:
    forgotten = [(b"t", partition) for partition in forget]
    return cache.begin(
        session_id, epoch, list(entries), forgotten, uses_topic_ids=ids, is_replica=replica, now_ms=now_ms
    )


def opened(cache: FetchSessions, partitions: int, *, now_ms: int = 0, ids: bool = False, replica: bool = False) -> int:
    """The id of a new session of that many partitions; 0 if there is no room."""
    answer = begin(
        cache, 0, 0, tuple(entry(number) for number in range(partitions)), ids=ids, replica=replica, now_ms=now_ms
    )
    assert isinstance(answer, SessionAnswer)
    error, session_id, told = answer.finish([result(number) for number in range(partitions)], now_ms)
    assert (error, len(told)) == (0, partitions)
    return session_id


def asked(answer: SessionAnswer | int | None) -> list[int]:
    assert isinstance(answer, SessionAnswer)
    return [item[1] for item in answer.entries]


def told(answer: SessionAnswer | int | None, *results: FetchResult) -> list[int]:
    assert isinstance(answer, SessionAnswer)
    error, _, sent = answer.finish(list(results), 0)
    assert error == 0
    return [item[1] for item in sent]


def test_a_full_fetch_opens_a_session_and_the_next_request_asks_for_all_of_it() -> None:
    cache = sessions()
    session_id = opened(cache, 3)
    assert session_id > 0
    assert asked(begin(cache, session_id, 1)) == [0, 1, 2]
    assert (cache.count, cache.partitions) == (1, 3)


def test_an_incremental_answer_leaves_out_what_has_no_news() -> None:
    cache = sessions()
    session_id = opened(cache, 4)
    answer = begin(cache, session_id, 1)
    assert told(answer, result(0), result(1, 6), result(2, start=1), result(3)) == [1, 2]
    answer = begin(cache, session_id, 2)
    assert told(answer, result(0), result(1, 6), result(2, start=1), result(3, records=b"r")) == [3]


def test_an_error_is_told_each_time_and_its_end_once() -> None:
    cache = sessions()
    session_id = opened(cache, 1)
    assert told(begin(cache, session_id, 1), result(0, -1, start=-1, error=3)) == [0]
    assert told(begin(cache, session_id, 2), result(0, -1, start=-1, error=3)) == [0]
    assert told(begin(cache, session_id, 3), result(0)) == [0]
    assert told(begin(cache, session_id, 4), result(0)) == []


def test_the_high_watermark_is_sent_after_the_truncation_of_the_first_answer() -> None:
    """A follower that must truncate its log skips the rest of that response."""
    cache = sessions()
    answer = begin(cache, 0, 0, (entry(0), entry(1)), replica=True)
    assert isinstance(answer, SessionAnswer)
    _, session_id, _ = answer.finish([result(0, diverging=(0, 2)), result(1)], 0)
    assert told(begin(cache, session_id, 1), result(0), result(1)) == [0]
    assert told(begin(cache, session_id, 2), result(0), result(1)) == []


def test_a_diverging_epoch_is_told_each_time() -> None:
    cache = sessions()
    session_id = opened(cache, 1)
    assert told(begin(cache, session_id, 1), result(0, diverging=(0, 2))) == [0]
    assert told(begin(cache, session_id, 2), result(0)) == [0]
    assert told(begin(cache, session_id, 3), result(0)) == []


def test_a_partition_new_to_the_session_is_told_even_without_news() -> None:
    cache = sessions()
    session_id = opened(cache, 1)
    answer = begin(cache, session_id, 1, (entry(7),))
    assert asked(answer) == [0, 7]
    assert told(answer, result(0), result(7)) == [7]


def test_a_new_position_replaces_the_old_in_its_place() -> None:
    cache = sessions()
    session_id = opened(cache, 2)
    answer = begin(cache, session_id, 1, (entry(0, 44),))
    assert isinstance(answer, SessionAnswer)
    assert [item[1:4:2] for item in answer.entries] == [(0, 44), (1, 0)]


def test_who_gave_records_goes_to_the_end() -> None:
    cache = sessions()
    session_id = opened(cache, 3)
    assert told(begin(cache, session_id, 1), result(0, records=b"r"), result(1), result(2)) == [0]
    answer = begin(cache, session_id, 2)
    assert asked(answer) == [1, 2, 0]
    assert told(answer, result(1, records=b"r"), result(2), result(0)) == [1]
    assert asked(begin(cache, session_id, 3)) == [2, 0, 1]


def test_forgotten_partitions_are_left_out_and_what_is_not_there_is_passed_over() -> None:
    cache = sessions()
    session_id = opened(cache, 3)
    assert asked(begin(cache, session_id, 1, forget=(1, 9))) == [0, 2]
    assert asked(begin(cache, session_id, 2, (entry(5),), forget=(5,))) == [0, 2], "forgotten in the same request"
    assert cache.partitions == 2


def test_a_session_that_forgets_everything_is_closed() -> None:
    cache = sessions()
    session_id = opened(cache, 2)
    assert begin(cache, session_id, 1, forget=(0, 1)) is None
    assert begin(cache, session_id, 2) == 70
    assert (cache.count, cache.partitions, cache.memory_bytes) == (0, 0, 0)


def test_a_session_without_partitions_lives_for_one_request() -> None:
    cache = sessions()
    session_id = opened(cache, 0)
    assert session_id > 0
    assert begin(cache, session_id, 1) is None
    assert begin(cache, session_id, 2) == 70


def test_ids_and_epochs_that_are_wrong_change_nothing() -> None:
    cache = sessions()
    session_id = opened(cache, 1)
    assert begin(cache, session_id + 1, 1) == 70
    assert begin(cache, 0, 1) == 70
    for epoch in (2, 9, -2):
        assert begin(cache, session_id, epoch, (entry(5),)) == 71
    assert asked(begin(cache, session_id, 1)) == [0]
    assert begin(cache, session_id, 1) == 71, "an epoch counts once"


def test_a_session_keeps_to_names_or_to_ids() -> None:
    cache = sessions()
    by_name, by_id = opened(cache, 1), opened(cache, 1, ids=True)
    assert begin(cache, by_name, 1, ids=True) == 106
    assert begin(cache, by_id, 1) == 106
    assert asked(begin(cache, by_name, 1)) == [0]


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_closes_the_session_that_it_names(epoch: int) -> None:
    cache = sessions()
    session_id = opened(cache, 1)
    answer = begin(cache, session_id, epoch, (entry(0),))
    assert (answer is None) == (epoch == -1)
    assert begin(cache, session_id, 1) == 70
    assert begin(cache, 777, epoch) is None or epoch == 0


def test_a_request_overtaken_by_another_gets_71() -> None:
    cache = sessions()
    session_id = opened(cache, 1)
    waiting = begin(cache, session_id, 1)
    assert isinstance(begin(cache, session_id, 2), SessionAnswer)
    assert isinstance(waiting, SessionAnswer)
    assert waiting.finish([result(0, 9)], 0) == (71, session_id, [])


def test_a_request_whose_session_was_closed_meanwhile_is_answered() -> None:
    cache = sessions()
    session_id = opened(cache, 1)
    waiting = begin(cache, session_id, 1)
    assert begin(cache, session_id, -1) is None
    assert told(waiting, result(0, 9)) == [0]


def test_epochs_wrap_to_1() -> None:
    assert next_epoch(1) == 2
    assert next_epoch(MAX_EPOCH) == 1


# -- which sessions are kept


def test_a_full_cache_opens_no_session_for_a_newcomer() -> None:
    cache = sessions(limit=2)
    first, second = opened(cache, 1), opened(cache, 1)
    assert opened(cache, 50, now_ms=EVICTION_MS) == 0
    assert asked(begin(cache, first, 1)) == asked(begin(cache, second, 1)) == [0]
    assert cache.evictions == 0


def test_a_cache_of_no_slots_keeps_none() -> None:
    assert opened(sessions(limit=0), 1) == 0


def test_the_session_that_was_not_used_for_two_minutes_goes_first() -> None:
    cache = sessions(limit=2)
    first, second = opened(cache, 1), opened(cache, 9)
    assert asked(begin(cache, first, 1, now_ms=1)) == [0]
    assert opened(cache, 1, now_ms=EVICTION_MS) == 0
    assert opened(cache, 1, now_ms=EVICTION_MS + 1) > 0
    assert begin(cache, second, 1, now_ms=EVICTION_MS + 1) == 70
    assert isinstance(begin(cache, first, 2, now_ms=EVICTION_MS + 1), SessionAnswer)
    assert cache.evictions == 1


def test_a_session_in_use_goes_for_a_larger_one_once_it_is_old() -> None:
    cache = sessions(limit=2)
    small, large = opened(cache, 2), opened(cache, 5)
    late = EVICTION_MS + 1
    for session_id in (small, large):
        assert isinstance(begin(cache, session_id, 1, now_ms=late), SessionAnswer)
    assert opened(cache, 2, now_ms=late) == 0, "as large is not larger"
    new = opened(cache, 3, now_ms=late)
    assert new > 0
    assert begin(cache, small, 2, now_ms=late) == 70
    assert isinstance(begin(cache, large, 2, now_ms=late), SessionAnswer)
    assert opened(cache, 4, now_ms=late) == 0, "the smallest is too young now"


def test_a_replica_takes_the_place_of_a_consumer_at_once() -> None:
    cache = sessions(limit=2)
    consumer = opened(cache, 1)
    first = opened(cache, 1, replica=True)
    assert opened(cache, 1, replica=True) > 0
    assert begin(cache, consumer, 1) == 70
    assert isinstance(begin(cache, first, 1, replica=True), SessionAnswer)
    assert opened(cache, 1) == 0


def test_the_memory_of_all_sessions_is_bounded() -> None:
    cache = sessions(memory_bytes=50_000)
    first = opened(cache, 50)
    assert opened(cache, 100) == 0
    assert cache.telemetry.value(BOUND_REACHED, "moldau.fetch.session.memory.bytes") == 1
    assert isinstance(begin(cache, first, 1, tuple(entry(number) for number in range(60))), SessionAnswer)
    assert begin(cache, first, 2, tuple(entry(number) for number in range(60, 200))) == 70
    assert (cache.count, cache.partitions, cache.memory_bytes) == (0, 0, 0)
    assert opened(cache, 100) > 0


def test_long_names_weigh_what_they_are() -> None:
    cache = sessions(memory_bytes=50_000)
    answer = begin(cache, 0, 0, (entry(0, topic=b"n" * 30_000), entry(1, topic=b"n" * 30_000)))
    assert isinstance(answer, SessionAnswer)
    assert answer.finish([result(0), result(1)], 0)[1] == 0


class Sessions(RuleBasedStateMachine):
    """The cache's counts equal its contents after any request; a model knows each session's partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = sessions(limit=3, memory_bytes=12_000)
        self.now_ms = 0
        self.known: dict[int, tuple[int, dict[int, int]]] = {}

    @initialize()
    def start(self) -> None:
        self.open([0])

    @rule(partitions=st.lists(st.integers(0, 12), unique=True))
    def open(self, partitions: list[int]) -> None:
        answer = begin(self.cache, 0, 0, tuple(entry(number) for number in partitions), now_ms=self.now_ms)
        assert isinstance(answer, SessionAnswer)
        _, session_id, _ = answer.finish([result(number) for number in partitions], self.now_ms)
        if session_id:
            self.known[session_id] = (1, dict.fromkeys(partitions, 0))

    @rule(
        which=st.integers(0, 5),
        moved=st.dictionaries(st.integers(0, 14), st.integers(0, 9)),
        forgotten=st.lists(st.integers(0, 14)),
        giving=st.integers(0, 14),
    )
    def ask(self, which: int, moved: dict[int, int], forgotten: list[int], giving: int) -> None:
        if not self.known:
            return
        session_id = list(self.known)[which % len(self.known)]
        epoch, partitions = self.known[session_id]
        entries = tuple(entry(number, offset) for number, offset in moved.items())
        answer = begin(self.cache, session_id, epoch, entries, tuple(forgotten), now_ms=self.now_ms)
        if not isinstance(answer, SessionAnswer):
            del self.known[session_id]
            assert answer in (None, 70)
            return
        partitions.update(moved)
        for number in forgotten:
            partitions.pop(number, None)
        assert [(item[1], item[3]) for item in answer.entries] == list(partitions.items())
        results = [result(item[1], records=b"r" if item[1] == giving else b"") for item in answer.entries]
        error, same_id, sent = answer.finish(results, self.now_ms)
        assert (error, same_id) == (0, session_id)
        if giving in partitions:
            assert giving in [item[1] for item in sent]
            partitions[giving] = partitions.pop(giving)
        self.known[session_id] = (epoch + 1, partitions)

    @rule(which=st.integers(0, 5))
    def close(self, which: int) -> None:
        if self.known:
            session_id = list(self.known)[which % len(self.known)]
            assert begin(self.cache, session_id, -1) is None
            del self.known[session_id]
            assert begin(self.cache, session_id, 1) == 70

    @rule(milliseconds=st.sampled_from([1, 60_000, EVICTION_MS + 1]))
    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @invariant()
    def what_is_counted_is_what_is_held(self) -> None:
        cache = self.cache
        held = list(cache._sessions.values())
        assert len(held) <= cache.limit
        assert cache.partitions == sum(len(session.partitions) for session in held)
        assert cache.memory_bytes == sum(session.memory_bytes for session in held) <= cache.memory_limit_bytes
        assert cache._by_all == sorted(session.evictable_key for session in held if session.is_evictable_by_all)
        assert cache._by_replicas == sorted(
            session.evictable_key for session in held if session.is_evictable_by_replicas
        )


TestSessions = Sessions.TestCase
TestSessions.settings = hypothesis_settings(max_examples=100, stateful_step_count=30, deadline=None, derandomize=True)
