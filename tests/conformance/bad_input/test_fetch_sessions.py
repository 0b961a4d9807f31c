"""Fetch sessions (KIP-227) on a socket: the row "fetch session", section "Fetch, offsets" of the table of bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.wire import RawConnection
from tests.support.wire_produce import batch, produce

NewTopic = Callable[..., str]


@pytest.fixture
def served_topic(raw: RawConnection, new_topic: NewTopic) -> NewTopic:
    """Creates a topic that can be fetched: `served_topic(partitions=2)` gives its name."""

    def create(partitions: int = 1) -> str:
        topic = new_topic(partitions=partitions)
        Reader(raw, topic, 13).wait_served(*range(partitions))
        return topic

    return create


class Reader:
    """Fetches partitions of one topic; gives (error code, session id, [(partition, error code, bytes of records)])."""

    def __init__(self, raw: RawConnection, topic: str, version: int = 12) -> None:
        self.raw = raw
        self.version = version
        self.named: dict[str, Any] = {"topic": topic}
        if version >= 13:
            answer = raw.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12)
            self.named = {"topic_id": answer.topics[0].topic_id}

    def request(self, *positions: tuple[int, int], forget: tuple[int, ...] = (), **fields: Any) -> FetchRequest:
        rows = tuple(FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=1 << 20) for p, o in positions)
        return FetchRequest(
            topics=(FetchTopic(partitions=rows, **self.named),) if rows else (),
            forgotten_topics_data=(ForgottenTopic(partitions=forget, **self.named),) if forget else (),
            **{"max_wait_ms": 0, "min_bytes": 1, **fields},
        )

    def ask(self, *positions: tuple[int, int], **fields: Any) -> tuple[int, int, list[tuple[int, int, bool]]]:
        answer = self.raw.ask(self.request(*positions, **fields), self.version)
        told = [(p.partition_index, p.error_code, bool(p.records)) for t in answer.responses for p in t.partitions]
        return answer.error_code, answer.session_id, told

    def open(self, *positions: tuple[int, int], **fields: Any) -> int:
        error, session_id, told = self.ask(*positions, session_epoch=0, **fields)
        assert error == 0
        assert session_id > 0
        assert len(told) == len(positions)
        return session_id

    def wait_served(self, *partitions: int) -> None:
        """A broker may need a moment to serve a new topic."""
        for _ in range(1_000):
            told = self.ask(*[(partition, 0) for partition in partitions], session_epoch=-1)[2]
            if not any(code for _, code, _ in told):
                return
        raise AssertionError("the topic is not served")


@pytest.mark.parametrize("version", [7, 11, 12, 13, 17])
def test_a_session_tells_only_what_is_new(raw: RawConnection, served_topic: NewTopic, version: int) -> None:
    topic = served_topic(partitions=4)
    reader = Reader(raw, topic, version)
    session_id = reader.open((0, 0), (1, 0), (2, 0), (3, 0))
    assert reader.ask(session_id=session_id, session_epoch=1) == (0, session_id, [])
    for partition in (1, 3):
        assert produce(raw, topic, batch(b"a"), partition=partition)[0] == 0
    news = reader.ask(session_id=session_id, session_epoch=2)
    assert news == (0, session_id, [(1, 0, True), (3, 0, True)])
    assert reader.ask((3, 1), session_id=session_id, session_epoch=3) == (0, session_id, [(1, 0, True)])
    assert reader.ask(forget=(1, 9), session_id=session_id, session_epoch=4) == (0, session_id, [])
    assert reader.ask((77, 0), session_id=session_id, session_epoch=5)[2] == [(77, 3, False)]
    assert reader.ask(session_id=session_id, session_epoch=6)[2] == [(77, 3, False)]
    assert reader.ask((77, 0), forget=(77,), session_id=session_id, session_epoch=7)[2] == []
    assert reader.ask((2, 0), (2, 5), session_id=session_id, session_epoch=8)[2] == [(2, 1, False)]
    assert reader.ask((2, 0), session_id=session_id, session_epoch=9)[2] == [(2, 0, False)]
    assert reader.ask(forget=(0, 1, 2, 3), session_id=session_id, session_epoch=10) == (0, 0, [])
    assert reader.ask(session_id=session_id, session_epoch=11)[0] == 70


def test_epochs_that_are_wrong(raw: RawConnection, served_topic: NewTopic, is_moldau: bool) -> None:
    reader = Reader(raw, served_topic())
    session_id = reader.open((0, 0))
    assert reader.ask(session_id=session_id, session_epoch=1) == (0, session_id, [])
    for epoch in (1, 3, 2**31 - 1, -2, -(2**31)):
        assert reader.ask(session_id=session_id, session_epoch=epoch) == (71, 0, [])
    assert reader.ask(session_id=session_id, session_epoch=2) == (0, session_id, [])
    assert reader.ask(session_id=session_id ^ 1, session_epoch=1) == (70, 0, [])
    if is_moldau:
        assert reader.ask(session_id=-session_id, session_epoch=1) == (70, 0, [])


def test_a_full_fetch_closes_the_session_that_it_names(raw: RawConnection, served_topic: NewTopic) -> None:
    reader = Reader(raw, served_topic())
    first = reader.open((0, 0))
    second = reader.open((0, 0), session_id=first)
    assert second != first
    assert reader.ask(session_id=first, session_epoch=1)[0] == 70
    assert reader.ask((0, 0), session_id=second, session_epoch=-1) == (0, 0, [(0, 0, False)])
    assert reader.ask(session_id=second, session_epoch=1)[0] == 70
    assert reader.ask(session_id=12345, session_epoch=-1) == (0, 0, [])


def test_a_session_of_names_is_not_one_of_ids(raw: RawConnection, served_topic: NewTopic) -> None:
    topic = served_topic()
    by_name, by_id = Reader(raw, topic), Reader(raw, topic, 13)
    names, ids = by_name.open((0, 0)), by_id.open((0, 0))
    assert by_id.ask(session_id=names, session_epoch=1) == (106, 0, [])
    assert by_name.ask(session_id=ids, session_epoch=1) == (106, 0, [])
    assert by_name.ask(session_id=names, session_epoch=1) == (0, names, [])


def test_partitions_take_turns(raw: RawConnection, served_topic: NewTopic) -> None:
    topic = served_topic(partitions=3)
    for partition in range(3):
        assert produce(raw, topic, batch(b"a" * 500), partition=partition)[0] == 0
    reader = Reader(raw, topic)
    error, session_id, told = reader.ask((0, 0), (1, 0), (2, 0), session_epoch=0, max_bytes=100)
    assert (error, told) == (0, [(0, 0, True), (1, 0, False), (2, 0, False)])
    served = [reader.ask(session_id=session_id, session_epoch=epoch, max_bytes=100)[2] for epoch in range(1, 6)]
    assert served == [[(partition, 0, True)] for partition in (0, 1, 2, 0, 1)]


def test_a_waiting_fetch_whose_session_is_closed_or_moved_on(
    raw: RawConnection, connect: Callable[[], RawConnection], served_topic: NewTopic
) -> None:
    topic = served_topic()
    other = connect()
    reader, meddler = Reader(raw, topic), Reader(other, topic)
    for epoch, code in ((-1, 0), (2, 71)):
        end = produce(other, topic, batch(b"a"))[1] + 1
        session_id = reader.open((0, end))
        request = reader.request(session_id=session_id, session_epoch=1, max_wait_ms=10_000)
        waiting = raw.start(request, 12)
        while True:
            # the waiting request has arrived once its epoch is taken
            error, _, _ = meddler.ask(session_id=session_id, session_epoch=epoch)
            if error == 0 or epoch == -1:
                break
        assert produce(other, topic, batch(b"b"))[0] == 0
        answer = raw.finish(request, 12, waiting)
        assert answer.error_code in ((0, 70) if epoch == -1 else (code,))
    raw.assert_alive()


def test_a_session_of_topics_that_do_not_exist(raw: RawConnection) -> None:
    reader = Reader(raw, "no-such-topic")
    session_id = reader.open((0, 0), (-1, 0))
    for epoch in (1, 2):
        assert reader.ask(session_id=session_id, session_epoch=epoch)[2] == [(0, 3, False), (-1, 3, False)]


def test_what_is_refused_leaves_the_session_as_it_is(
    raw: RawConnection, served_topic: NewTopic, is_moldau: bool
) -> None:
    reader = Reader(raw, served_topic())
    session_id = reader.open((0, 0))
    if is_moldau:
        for bad in ({"isolation_level": 2}, {"isolation_level": -1}, {"max_bytes": -1}):
            assert reader.ask(session_id=session_id, session_epoch=1, **bad) == (42, 0, [])
    assert reader.ask(session_id=session_id, session_epoch=1) == (0, session_id, [])


def test_what_is_unknown_stands_behind_what_is_read(raw: RawConnection, served_topic: NewTopic) -> None:
    reader = Reader(raw, served_topic())
    told = [(0, 0, False), (77, 3, False)]
    assert reader.ask((77, 0), (0, 0), session_epoch=-1)[2] == told
    error, session_id, full = reader.ask((77, 0), (0, 0), session_epoch=0)
    assert (error, full) == (0, told)
    assert reader.ask(session_id=session_id, session_epoch=1)[2] == told[1:]
