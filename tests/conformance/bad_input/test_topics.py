"""Section "Topics" of the table of bad input."""

from __future__ import annotations

from collections.abc import Callable

from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.wire import RawConnection
from tests.support.wire_topics import create, exists, topic

NewName = Callable[[str], str]


def test_249_characters_are_accepted(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("long").ljust(249, "x")
    assert create(raw, topic(name, -1, -1)) == [0]
    assert exists(raw, name)


def test_a_good_topic_beside_a_bad_one_is_created(raw: RawConnection, new_name: NewName) -> None:
    good = new_name("topic")
    assert create(raw, topic(good), topic("a/b")) == [0, 17]
    assert exists(raw, good)


def test_an_auto_created_name_that_collides_never_comes(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("a")
    assert create(raw, topic(name + ".b")) == [0]
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name + "_b"),), allow_auto_topic_creation=True)
    assert {raw.ask(request, 9).topics[0].error_code for _ in range(20)} == {3}
