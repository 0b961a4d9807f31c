"""The host of log-backed machines: folding, parking, failing, stopping, timers."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from moldau.core.coordination.host import CoordinatorHost, LoadedRecord, LoadedTransactionEnd
from moldau.core.coordination.machine import NO_REQUEST_ID, Decision, Now, Timer
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.errors import KafkaError, MoldauError, StorageFullError, kafka_error
from moldau.types import Offset, ProducerEpoch, ProducerId, TopicPartition, whole
from moldau.wire.records.control import EndTransactionMarker

SHARD = TopicPartition("__counters", 3)


class Add(msgspec.Struct, frozen=True):
    name: str
    amount: int


class Expire(msgspec.Struct, frozen=True):
    name: str


class Wait(msgspec.Struct, frozen=True):
    """Parked until the counter grows."""

    name: str


Request = Add | Expire | Wait


class Counted(msgspec.Struct, frozen=True):
    name: str
    value: int


class Counters(msgspec.Struct):
    values: dict[str, int]
    ended: list[tuple[int, bool]]
    waiting: dict[str, list[int]]


class CounterMachine:
    """Counters that grow; each expires 100 ms after its last addition."""

    def new_state(self) -> Counters:
        return Counters({}, [], {})

    def decide(self, state: Counters, request_id: int, request: Request, now: Now) -> Decision[Request, int, Counted]:
        if isinstance(request, Expire):
            gone = (Counted(request.name, 0),) if state.values.get(request.name) else ()
            return Decision(records=gone, replies=((request_id, 0),))
        if isinstance(request, Wait):
            state.waiting.setdefault(request.name, []).append(request_id)
            return Decision()
        if request.amount < 0:
            raise kafka_error("INVALID_REQUEST")
        value = state.values.get(request.name, 0)
        if request.amount == 0:
            return Decision(replies=((request_id, value),), timers=(Timer(request.name, None),))
        waiting = state.waiting.pop(request.name, [])
        return Decision(
            records=(Counted(request.name, value + request.amount),),
            replies=((request_id, value + request.amount), *((waiter, -request.amount) for waiter in waiting)),
            timers=(Timer(request.name, now.steady_ms + 100, Expire(request.name)),),
        )

    def decide_loaded(self, state: Counters, image: MetadataImage, now: Now) -> Decision[Request, int, Counted]:
        return Decision(timers=tuple(Timer(name, now.steady_ms + 100, Expire(name)) for name in sorted(state.values)))

    def decide_metadata(
        self, state: Counters, image: MetadataImage, delta: MetadataDelta, now: Now
    ) -> Decision[Request, int, Counted]:
        return Decision()

    def apply(
        self, state: Counters, offset: Offset, producer_id: ProducerId, producer_epoch: ProducerEpoch, record: Counted
    ) -> None:
        if record.value == 666:
            raise ValueError("an impossible count")
        state.values[record.name] = record.value

    def apply_end_transaction(
        self, state: Counters, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> None:
        state.ended.append((producer_id, committed))


Host = CoordinatorHost[Counters, Request, int, Counted]


def new_host() -> Host:
    return CoordinatorHost(CounterMachine(), SHARD)


class Driver:
    """Does the work of a shell role, with a list as the log."""

    def __init__(self) -> None:
        self.host = new_host()
        self.log: list[Counted] = []
        self.replies: list[tuple[int, int | MoldauError]] = []
        self.is_full = False

    def submit(self, request_id: int, request: Request, now_ms: int = 0, timer: Timer[Request] | None = None) -> None:
        host, now = self.host, Now(now_ms, now_ms)
        try:
            decision = host.machine.decide(host.state, request_id, request, now)
        except KafkaError as error:
            self.replies.append((request_id, error))
            return
        assert isinstance(decision, Decision)
        replies = host.take(request_id, decision, now, timer)
        if replies is not None:
            self.replies.extend(replies)
            return
        if self.is_full:
            self.replies.extend(host.append_failed(StorageFullError("full")))
            return
        self.log.extend(decision.records)
        self.replies.extend(whole(host.applying(len(self.log) - 1)))

    def commit(self) -> None:
        self.replies.extend(self.host.committed(len(self.log)))

    def fire(self, now_ms: int) -> int:
        count = 0
        while (timer := self.host.due(now_ms)) is not None:
            count += 1
            assert timer.request is not None
            self.submit(NO_REQUEST_ID, timer.request, now_ms, timer)
        return count


@given(
    st.lists(
        st.one_of(
            st.builds(Add, st.sampled_from("abc"), st.integers(-1, 3)),
            st.builds(Wait, st.sampled_from("abc")),
            st.just("commit"),
            st.just("full"),
            st.integers(0, 300),
        )
    )
)
def test_folding_the_log_gives_the_state_and_every_request_is_answered_once(steps: list[Request | str | int]) -> None:
    driver = Driver()
    now_ms = 0
    asked: list[int] = []
    for step in steps:
        if step == "commit":
            driver.commit()
        elif step == "full":
            driver.is_full = not driver.is_full
        elif isinstance(step, int):
            now_ms += step
            driver.fire(now_ms)
        elif not isinstance(step, str):
            asked.append(len(asked))
            driver.submit(asked[-1], step, now_ms)
    driver.commit()
    folded = new_host()
    folded.load(LoadedRecord(Offset(offset), record) for offset, record in enumerate(driver.log))
    assert folded.state.values == driver.host.state.values
    waiting = [request_id for ids in driver.host.state.waiting.values() for request_id in ids]
    assert sorted([request_id for request_id, _ in driver.replies] + waiting) == asked
    assert folded.end_offset == len(driver.log)


def test_a_reply_waits_until_its_records_are_committed() -> None:
    driver = Driver()
    driver.submit(1, Add("a", 5))
    assert driver.replies == []
    assert driver.host.state.values == {"a": 5}
    driver.commit()
    assert driver.replies == [(1, 5)]


def test_a_read_of_uncommitted_state_waits_for_it_too() -> None:
    driver = Driver()
    driver.submit(1, Add("a", 5))
    driver.submit(2, Add("a", 0))
    assert driver.replies == []
    driver.commit()
    assert driver.replies == [(1, 5), (2, 5)]
    driver.submit(3, Add("a", 0))
    assert driver.replies[-1] == (3, 5)


def test_a_failed_append_answers_with_the_error_and_leaves_the_state() -> None:
    driver = Driver()
    driver.submit(1, Wait("a"))
    driver.is_full = True
    driver.submit(2, Add("a", 5))
    assert [(request_id, type(reply)) for request_id, reply in driver.replies] == [
        (2, StorageFullError),
        (1, StorageFullError),
    ]
    assert driver.host.state.values == {}
    driver.is_full = False
    driver.submit(3, Add("a", 2))
    driver.commit()
    assert driver.replies[-1] == (3, 2)


def test_a_refused_request_is_answered_at_once_and_changes_nothing() -> None:
    driver = Driver()
    driver.submit(1, Add("a", -1))
    assert [reply.code for _, reply in driver.replies if isinstance(reply, KafkaError)] == [42]
    assert driver.log == []


def test_a_parked_request_is_answered_by_a_later_decision() -> None:
    driver = Driver()
    driver.submit(1, Wait("a"))
    driver.submit(2, Add("a", 4))
    driver.commit()
    assert driver.replies == [(2, 4), (1, -4)]


def test_a_record_that_cannot_be_applied_stops_the_shard_and_names_its_address() -> None:
    host = new_host()
    records = [Counted("a", 1), Counted("a", 666), Counted("a", 2)]
    host.load(LoadedRecord(Offset(offset + 40), record) for offset, record in enumerate(records))
    assert host.stopped is not None
    assert "__counters-3 stopped at offset 41: Counted" in host.stopped
    assert host.state.values == {"a": 1}
    assert host.stopped_error().code == 15
    assert host.next_deadline_ms() is None


def test_an_own_record_that_cannot_be_applied_stops_the_shard_and_answers_waiters() -> None:
    driver = Driver()
    driver.submit(1, Add("b", 1))
    driver.submit(2, Add("a", 666))
    assert [request_id for request_id, _ in driver.replies] == [2, 1]
    assert "offset 1" in (driver.host.stopped or "")
    assert driver.fire(10_000) == 0


def test_a_timer_fires_as_a_request_and_nobody_gets_its_reply() -> None:
    driver = Driver()
    driver.submit(1, Add("a", 5), now_ms=1_000)
    assert driver.host.next_deadline_ms() == 1_100
    assert driver.fire(1_099) == 0
    assert driver.fire(1_100) == 1
    driver.commit()
    assert driver.host.state.values == {"a": 0}
    assert driver.replies == [(1, 5)]
    assert driver.host.next_deadline_ms() is None


def test_arming_a_key_again_replaces_its_timer_and_none_cancels_it() -> None:
    driver = Driver()
    driver.submit(1, Add("a", 1), now_ms=0)
    driver.submit(2, Add("a", 1), now_ms=50)
    assert driver.host.next_deadline_ms() == 150
    driver.commit()
    driver.submit(3, Add("a", 0), now_ms=60)
    assert driver.host.next_deadline_ms() is None


def test_timers_fire_in_the_order_of_their_deadlines_then_of_their_arming() -> None:
    driver = Driver()
    for request_id, (name, now_ms) in enumerate([("c", 10), ("b", 10), ("a", 5)]):
        driver.submit(request_id, Add(name, 1), now_ms)
    assert driver.fire(1_000) == 3
    assert [record.name for record in driver.log[3:]] == ["a", "c", "b"]


def test_a_firing_whose_append_fails_is_tried_again() -> None:
    driver = Driver()
    driver.submit(1, Add("a", 5), now_ms=0)
    driver.is_full = True
    assert driver.fire(100) == 1
    assert driver.host.state.values == {"a": 5}
    assert driver.host.next_deadline_ms() == 600
    driver.is_full = False
    assert driver.fire(600) == 1
    assert driver.host.state.values == {"a": 0}


def test_re_arming_for_ever_does_not_grow_the_heap() -> None:
    driver = Driver()
    driver.submit(0, Add("a", 1_000))
    for now_ms in range(2_000):
        driver.submit(now_ms, Add("a", 1), now_ms)
        driver.commit()
    assert len(driver.host._heap) < 200
    assert driver.host.next_deadline_ms() == 2_099


def test_after_loading_the_machine_arms_the_timers_of_what_was_loaded() -> None:
    host = new_host()
    host.load([LoadedRecord(Offset(7), Counted("a", 1))])
    now = Now(50, 50)
    assert host.take(NO_REQUEST_ID, host.machine.decide_loaded(host.state, MetadataImage(), now), now) == ()
    assert host.next_deadline_ms() == 150
    assert (host.end_offset, host.committed_offset) == (8, 8)


def test_the_end_of_a_transaction_reaches_the_machine() -> None:
    host = new_host()
    host.load([LoadedTransactionEnd(Offset(0), ProducerId(9), ProducerEpoch(1), True)])
    assert host.state.ended == [(9, True)]


def test_losing_the_log_answers_everybody_who_waits_for_a_commit() -> None:
    driver = Driver()
    driver.submit(1, Add("a", 1))
    driver.submit(2, Add("b", 1))
    error = kafka_error("NOT_COORDINATOR")
    assert driver.host.drop(error) == ((1, error), (2, error))
    driver.commit()
    assert driver.replies == []


def test_the_reply_to_a_timer_is_never_given_out() -> None:
    driver = Driver()
    driver.submit(NO_REQUEST_ID, Expire("a"))
    assert driver.replies == []


def test_records_and_marker_of_a_decision_reach_the_machine_with_their_producer() -> None:
    host, now = new_host(), Now(0, 0)
    of_producer = {"producer_id": ProducerId(9), "producer_epoch": ProducerEpoch(1)}
    for request_id, decision in enumerate(
        (
            Decision[Request, int, Counted](records=(Counted("a", 1),), replies=((0, 1),), **of_producer),
            Decision[Request, int, Counted](marker=EndTransactionMarker(False, 3), replies=((1, 2),), **of_producer),
        )
    ):
        assert host.take(request_id, decision, now) is None
        assert whole(host.applying(request_id)) == ()
    assert (host.state.values, host.state.ended, host.end_offset) == ({"a": 1}, [(9, False)], 2)
    assert host.committed(2) == ((0, 1), (1, 2))
