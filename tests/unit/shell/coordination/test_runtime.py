"""A toy machine on the real runtime, over a real log on a disk in memory: load, submit, failures, timers, the end."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import pairwise
from typing import Any

import pytest

from moldau.core.log.files.transaction_index import AbortedTransaction
from moldau.core.metadata.image import MetadataDelta, MetadataImage, TopicImage
from moldau.errors import InvariantError, KafkaError, ProtocolError, kafka_error
from moldau.shell.coordination.runtime import MAX_QUEUED
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.network.pauses import TURN_THINGS
from moldau.types import ZERO_UUID
from moldau.wire.records.batch import iterate_batches, write_crc
from tests.support.toy_machine import (
    LIMIT,
    Break,
    End,
    Entry,
    Get,
    Owner,
    Put,
    PutMany,
    Request,
    WaitFor,
)

pytestmark = pytest.mark.asyncio

KEYS = tuple(f"k{number}" for number in range(5 * TURN_THINGS))
LOG = "__store-0/00000000000000000000.log"


async def started(**settings: int) -> Owner:
    owner = Owner(MemoryDisk(), ManualClock(), **settings)
    await owner.load()
    return owner


def at_once(owner: Owner, request: Request) -> str:
    answer = owner.runtime.submit(request)
    assert isinstance(answer, str)
    return answer


def later(owner: Owner, request: Request) -> asyncio.Future[str]:
    answer = owner.runtime.submit(request)
    assert isinstance(answer, asyncio.Future)
    return answer


def code_of(owner: Owner, request: Request) -> int:
    with pytest.raises(KafkaError) as caught:
        owner.runtime.submit(request)
    return caught.value.code


async def turn() -> None:
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await done


def deletion_of(name: str) -> MetadataDelta:
    delta = MetadataDelta()
    delta.deleted_topics[ZERO_UUID] = TopicImage(name, ZERO_UUID, {})
    return delta


async def test_what_is_committed_at_once_is_answered_at_once_and_the_next_decision_sees_it() -> None:
    owner = await started()
    assert at_once(owner, Put("a", "1")) == ""
    assert at_once(owner, Put("a", "2")) == "1"
    assert at_once(owner, Get("a")) == "2"
    assert await owner.runtime.ask(Get("a")) == "2"


async def test_an_answer_waits_for_the_flush_that_it_rests_on() -> None:
    owner = await started(flush_messages=1)
    first, read = later(owner, Put("a", "1")), later(owner, Get("a"))
    await turn()
    assert not first.done()
    assert not read.done()
    owner.flush()
    assert (await first, await read) == ("", "1")
    assert at_once(owner, Get("a")) == "1"


async def test_a_parked_request_is_answered_by_a_later_decision() -> None:
    owner = await started()
    waiting = later(owner, WaitFor("a"))
    assert at_once(owner, Put("a", "1")) == ""
    assert await waiting == "1"
    assert owner.runtime.waiting_count == 0


async def test_folding_the_log_gives_the_state_whatever_was_refused_expired_and_aborted() -> None:
    for seed in range(20):
        random = SeededRandom(seed)
        owner = await started(segment_bytes=2_000)
        for number in range(120):
            key, producer_id = f"k{random.random_below(6)}", random.random_below(3)
            requests: tuple[Request, ...] = (
                Put(key, str(number)),
                Put(key, str(number), ttl_ms=50),
                Put(key, "x" * (LIMIT + 1)),
                Put("unwritable", "1"),
                Put(key, str(number), producer_id=producer_id),
                End(producer_id, is_commit=bool(number % 3)),
            )
            request = requests[random.random_below(len(requests))]
            if random.random_below(8) == 0:
                owner.disk.fail(Fault("append", "full", "__store-0", 1))
            with contextlib.suppress(KafkaError, ProtocolError):
                owner.runtime.submit(request)
            owner.disk.heal()
            owner.clock.advance(random.random_below(40))
            owner.runtime.fire()
        again = await owner.restarted(segment_bytes=2_000)
        assert (again.state.values, again.state.pending) == (owner.state.values, owner.state.pending)
        assert again.partition.last_stable_offset == owner.partition.last_stable_offset
        again.runtime.close(kafka_error("NOT_COORDINATOR"))


# -- failures, from the harmless to the worst


async def test_a_refused_request_changes_nothing() -> None:
    owner = await started()
    assert code_of(owner, Put("a", "x" * (LIMIT + 1))) == 44
    assert owner.partition.log.log_end_offset == 0
    assert at_once(owner, Put("a", "1")) == ""


@pytest.mark.parametrize("fault", [Fault("append", "full", "__store-0", 1), None])
async def test_an_append_that_is_refused_answers_everybody_and_is_taken_back(fault: Fault | None) -> None:
    owner = await started(segment_bytes=150)
    waiting = later(owner, WaitFor("a"))
    if fault is not None:
        owner.disk.fail(fault)
    assert code_of(owner, Put("a", "x" * (LIMIT if fault is None else 1))) == (18 if fault is None else 56)
    with pytest.raises(KafkaError):
        await waiting
    assert (owner.state.values, owner.state.not_written) == ({}, ["a"])
    assert at_once(owner, Put("a", "1")) == ""


async def test_our_own_mistake_is_logged_and_the_machine_lives_on() -> None:
    owner = await started()
    assert code_of(owner, Break(IndexError())) == -1
    assert code_of(owner, Put("forgotten", "1")) == -1
    assert owner.told == ["IndexError", "ZeroDivisionError"]
    assert owner.state.not_written == ["forgotten"]
    assert at_once(owner, Put("a", "1")) == ""


async def test_a_broken_invariant_is_raised() -> None:
    owner = await started()
    with pytest.raises(InvariantError):
        owner.runtime.submit(Break(InvariantError("broken")))


async def test_a_record_that_cannot_be_applied_stops_the_shard() -> None:
    owner = await started()
    assert code_of(owner, Put("a", "impossible")) == 15
    assert code_of(owner, Get("a")) == 15
    assert [reason for reason in owner.told if "__store-0 stopped at offset 0: Entry" in reason] == owner.told
    again = await owner.restarted()
    assert code_of(again, Get("a")) == 15


async def test_a_log_whose_file_is_gone_stops_the_shard_and_says_so() -> None:
    async def replay(fold: Any) -> None:
        raise kafka_error("KAFKA_STORAGE_ERROR", "the file is gone")

    owner = Owner(MemoryDisk(), ManualClock())
    await owner.runtime.load(replay, MetadataImage(), "values")
    assert owner.runtime.loading is None
    assert code_of(owner, Get("a")) == 15
    assert owner.told == ["__store-0 cannot be loaded, its values are not served: the file is gone"]


async def test_a_log_that_cannot_be_read_stops_the_shard_and_names_the_place() -> None:
    owner = await started()
    at_once(owner, Put("a", "1"))
    content = bytearray(owner.disk.read_file(LOG))
    [(position, header)] = iterate_batches(content)
    content[-3] = 0x7F  # the length of the value
    write_crc(content, position, header.size)
    owner.disk.open(LOG).write_at(0, content)
    again = await owner.restarted()
    assert code_of(again, Get("a")) == 15
    [reason] = again.told
    assert reason.startswith("__store-0 cannot be loaded, its values are not served: ")


async def test_a_failed_device_answers_everybody_and_closes_the_shard() -> None:
    owner = await started(flush_messages=1)
    waiting = later(owner, Put("a", "1"))
    owner.disk.fail(Fault("append", "io", "__store-0", 1))
    assert code_of(owner, Put("b", "1")) == 56
    with pytest.raises(KafkaError) as caught:
        await waiting
    assert caught.value.code == 16
    assert code_of(owner, Get("a")) == 16


# -- timers


async def test_a_timer_fires_as_a_decision_of_its_own_and_is_taken_back_by_a_later_one() -> None:
    owner = await started()
    at_once(owner, Put("a", "1", ttl_ms=50))
    at_once(owner, Put("b", "1", ttl_ms=50))
    at_once(owner, Put("b", "2"))
    owner.clock.advance(50)
    owner.runtime.fire()
    owner.runtime.fire()
    assert owner.state.values == {"b": "2"}
    assert owner.applied[-1] == ((Entry("a", None),), ())
    owner.runtime.close(kafka_error("NOT_COORDINATOR"))


async def test_what_is_due_at_once_is_decided_in_several_turns_of_the_loop() -> None:
    owner = await started()
    for key in KEYS[:3]:
        at_once(owner, Put(key, "1", ttl_ms=10))
    owner.clock.advance(10)
    owner.runtime.fire()
    sizes = [len(owner.state.values)]
    while owner.state.values:
        await turn()
        sizes.append(len(owner.state.values))
    assert sizes[0] == 2
    assert all(before - after <= 1 for before, after in pairwise(sizes))


async def test_a_timer_whose_append_fails_is_tried_again() -> None:
    owner = await started()
    at_once(owner, Put("a", "1", ttl_ms=50))
    owner.clock.advance(50)
    owner.disk.fail(Fault("append", "full", "__store-0", 1))
    owner.runtime.fire()
    assert owner.state.values == {"a": "1"}
    owner.clock.advance(500)
    owner.runtime.fire()
    assert owner.state.values == {}


# -- long decisions


async def test_while_a_decision_pauses_requests_timers_and_metadata_wait_in_their_order() -> None:
    owner = await started()
    at_once(owner, Put("t", "old"))
    at_once(owner, Put("due", "1", ttl_ms=10))
    long = later(owner, PutMany(KEYS, "1"))
    owner.runtime.metadata_changed(MetadataImage(), deletion_of("t"))
    again, read = later(owner, Put("t", "new")), later(owner, Get(KEYS[-1]))
    owner.clock.advance(10)
    owner.runtime.fire()
    assert (owner.state.values, len(owner.tasks)) == ({"t": "old", "due": "1"}, 1)
    assert (await long, await again, await read) == (str(len(KEYS)), "", "1")
    await owner.tasks[0]
    while "due" in owner.state.values:
        await turn()
    assert [len(records) for records, _ in owner.applied] == [1, 1, len(KEYS), 1, 1, 1]
    assert owner.state.values["t"] == "new"


async def test_more_than_the_queue_holds_are_refused() -> None:
    owner = await started()
    later(owner, PutMany(KEYS, "1"))
    waiting = [later(owner, Get("a")) for _ in range(MAX_QUEUED)]
    assert code_of(owner, Get("a")) == 7
    assert set(await asyncio.gather(*waiting)) == {""}


async def test_what_waited_for_a_long_decision_is_decided_in_several_turns_of_the_loop() -> None:
    owner = await started()
    long = later(owner, PutMany(KEYS, "1"))
    behind = [later(owner, Get("a")) for _ in range(10 * TURN_THINGS)]
    await long
    answered = [sum(one.done() for one in behind)]
    while answered[-1] < len(behind):
        await turn()
        answered.append(sum(one.done() for one in behind))
    assert max(after - before for before, after in pairwise([0, *answered])) <= TURN_THINGS


async def test_a_decision_that_pauses_when_the_shard_is_closed_is_not_written() -> None:
    owner = await started()
    long = later(owner, PutMany(KEYS, "1"))
    behind = later(owner, Put("a", "1"))
    owner.runtime.close(kafka_error("NOT_COORDINATOR"))
    for answer in (long, behind):
        with pytest.raises(KafkaError):
            await answer
    await asyncio.gather(*owner.tasks)
    assert owner.partition.log.log_end_offset == 0


async def test_closing_a_shard_stops_applying_records() -> None:
    owner = await started()
    long = later(owner, PutMany(KEYS, "1"))
    while owner.partition.log.log_end_offset == 0:
        await turn()
    owner.runtime.close(kafka_error("NOT_COORDINATOR"))
    applied = dict(owner.state.values)
    assert len(applied) < len(KEYS)
    with pytest.raises(KafkaError):
        await long
    await asyncio.gather(*owner.tasks)
    assert owner.state.values == applied


# -- transactions


async def test_a_transaction_counts_from_its_marker_on_in_the_state_and_in_the_log() -> None:
    owner = await started()
    at_once(owner, Put("a", "0"))
    at_once(owner, Put("a", "1", producer_id=7))
    at_once(owner, Put("b", "1", producer_id=8))
    assert owner.state.values == {"a": "0"}
    assert owner.partition.last_stable_offset == 1
    assert at_once(owner, End(7, is_commit=True)) == "ended"
    assert owner.partition.last_stable_offset == 2
    again = await owner.restarted()
    assert (again.state.values, again.state.pending) == ({"a": "1"}, {8: {"b": "1"}})
    assert at_once(again, End(8, is_commit=False)) == "ended"
    assert (again.state.values, again.state.pending) == ({"a": "1"}, {})
    assert again.partition.last_stable_offset == again.partition.high_watermark == 5
    headers = [header for _, header in iterate_batches(again.disk.read_file(LOG))]
    described = [(one.producer_id, one.producer_epoch, one.is_transactional, one.is_control) for one in headers]
    assert described == [
        (-1, -1, False, False),
        (7, 4, True, False),
        (8, 4, True, False),
        (7, 4, True, True),
        (8, 4, True, True),
    ]


async def test_a_reader_who_found_no_aborted_transaction_finds_one_that_is_aborted_later() -> None:
    owner = await started()
    at_once(owner, Put("a", "1", producer_id=7))
    assert owner.partition.aborted_transactions(0, 10) == ()
    assert not owner.partition.may_have_aborted
    at_once(owner, End(7, is_commit=False))
    assert owner.partition.may_have_aborted
    assert list(owner.partition.aborted_transactions(0, 10)) == [AbortedTransaction(7, 0, 1, 2)]


# -- loading, metadata, the end


async def test_requests_and_metadata_wait_for_the_load_and_what_it_leads_to() -> None:
    owner = await started()
    for key in ("session-1", "kept", "t"):
        at_once(owner, Put(key, "1"))
    owner.runtime.abort()
    owner.partition.log.release()
    again = Owner(owner.disk, owner.clock)
    asked: list[Any] = [asyncio.ensure_future(again.runtime.ask(Get(key))) for key in ("session-1", "kept", "t")]
    again.runtime.metadata_changed(MetadataImage(), deletion_of("t"))
    await turn()
    assert not any(one.done() for one in asked)
    await again.load()
    assert await asyncio.gather(*asked) == ["", "1", ""]
    assert again.state.values == {"kept": "1"}


async def test_more_requests_than_may_wait_for_the_load_are_refused() -> None:
    owner = Owner(MemoryDisk(), ManualClock())
    asked = [asyncio.ensure_future(owner.runtime.ask(Get("a"))) for _ in range(MAX_QUEUED)]
    one_more = asyncio.ensure_future(owner.runtime.ask(Get("a")))
    await turn()
    assert [one for one in (*asked, one_more) if one.done()] == [one_more]
    error = one_more.exception()
    assert isinstance(error, KafkaError)
    assert error.code == 7
    asked.pop().cancel()  # its client is gone: another request may wait
    await turn()
    asked.append(asyncio.ensure_future(owner.runtime.ask(Get("a"))))
    await owner.load()
    assert set(await asyncio.gather(*asked)) == {""}


async def test_a_close_while_loading_answers_who_waits() -> None:
    owner = Owner(MemoryDisk(), ManualClock())
    asked = asyncio.ensure_future(owner.runtime.ask(Get("a")))
    await turn()
    owner.runtime.close(kafka_error("NOT_COORDINATOR"))
    with pytest.raises(KafkaError) as caught:
        await asked
    assert caught.value.code == 16
    await owner.load()
    assert code_of(owner, Get("a")) == 16


async def test_a_shard_that_is_closed_while_it_loads_folds_nothing_more() -> None:
    """Its replayed state is freed when it is closed, such as the memory of group members."""
    owner = await started()
    await later(owner, PutMany(KEYS, "1"))
    owner.runtime.abort()
    owner.partition.log.release()
    again = Owner(owner.disk, owner.clock)
    loading = asyncio.ensure_future(again.load())
    while not again.state.values:
        await turn()
    again.runtime.close(kafka_error("NOT_COORDINATOR"))
    folded = dict(again.state.values)
    assert len(folded) < len(KEYS)
    await loading
    assert again.state.values == folded


async def test_who_waits_hears_of_a_drop_and_the_machine_lives_on() -> None:
    owner = await started(flush_messages=1)
    waiting = later(owner, Put("a", "1"))
    owner.runtime.drop(kafka_error("KAFKA_STORAGE_ERROR"))
    with pytest.raises(KafkaError):
        await waiting
    read = later(owner, Get("a"))
    owner.flush()
    assert await read == "1"


async def test_after_an_abort_nobody_gets_an_answer() -> None:
    owner = await started(flush_messages=1)
    waiting = later(owner, Put("a", "1"))
    owner.runtime.abort()
    owner.flush()
    assert waiting.cancelled()
