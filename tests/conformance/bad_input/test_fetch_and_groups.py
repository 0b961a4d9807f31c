"""Sections "Fetch, offsets" and "Classic groups" of the table of bad input."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.wire.protocol.messages.fetch import FetchRequest
from tests.support.wire import RawConnection
from tests.support.wire_groups import commit, fetch
from tests.support.wire_produce import batch, produce

NewTopic = Callable[..., str]
NewName = Callable[[str], str]


@pytest.fixture
def filled(raw: RawConnection, new_topic: NewTopic) -> str:
    topic = new_topic()
    assert produce(raw, topic, batch(b"a", b"b", b"c"))[0] == 0
    return topic


def test_fetch_with_another_leader_epoch(raw: RawConnection, filled: str) -> None:
    assert fetch(raw, filled, epoch=-2).error_code == 0
    assert fetch(raw, filled, epoch=0).error_code == 0


@pytest.mark.parametrize("size", [0, 1, 2**31 - 1])
def test_the_first_batch_comes_whole(raw: RawConnection, filled: str, size: int) -> None:
    assert b"abc" not in bytes(fetch(raw, filled, size=size, max_bytes=size).records)
    assert len(bytes(fetch(raw, filled, size=size).records)) > 61


def test_a_fetch_that_need_not_wait_does_not(raw: RawConnection, filled: str) -> None:
    assert fetch(raw, filled, 3, min_bytes=0, wait_ms=2**31 - 1).error_code == 0
    assert fetch(raw, filled, 3, min_bytes=1, wait_ms=-1).error_code == 0
    assert raw.ask(FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1), 12).responses == ()


def test_commits(raw: RawConnection, filled: str, new_name: NewName) -> None:
    group = new_name("group")
    assert commit(raw, group, filled) == 0
    assert commit(raw, group, filled, offset=-1) == 0
    assert commit(raw, group, filled, offset=10**9) == 0
    assert commit(raw, group, filled, metadata="x" * 4096) == 0
