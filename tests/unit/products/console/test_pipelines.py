"""Pipelines as the console finds them in groups and topics."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.client.protocol.access import ClusterAccess
from moldau.products import console
from moldau.products.console.browse import Browser, Found
from moldau.products.console.cluster import Cluster as ConsoleCluster
from moldau.products.console.cluster import GroupFacts, LagRow, PartitionFacts, TopicFacts
from moldau.products.console.core.browsing import Question
from moldau.products.console.core.pipeline_groups import choose_groups
from moldau.products.console.dead_letters import MAX_DEAD_LETTERS, DeadLettersWatch
from moldau.products.console.pipelines import PipelineFacts, picture_of, pipelines_of, standing
from moldau.products.pipelines.core.commit_metadata import CommitMetadata, PipelineMetadata
from moldau.products.service.look.history import Series
from moldau.products.service.look.pages import templates_in
from moldau.testing import Cluster


def group(group_id: str, *rows: tuple[str, int, int], note: PipelineMetadata | None = None) -> GroupFacts:
    """`rows`: topic, committed offset, end."""
    lags = tuple(LagRow(topic, number, at, 0, end, None) for number, (topic, at, end) in enumerate(rows))
    return GroupFacts(group_id, "Empty", "–", (), lags, CommitMetadata(1, note))


def topic(name: str, records: int | None) -> TopicFacts:
    return TopicFacts(name, (PartitionFacts(0, 1, (1,), (1,), 0, records),))


def series(*samples: tuple[float, float]) -> Series:
    found = Series()
    for now_s, value in samples:
        found.add(now_s, value)
    return found


def test_a_pipeline_is_a_group_of_that_name_or_with_commit_metadata_of_a_pipeline() -> None:
    own = group("own-name", note=PipelineMetadata("audit"))
    found = pipelines_of([group("moldau.shop"), group("readers"), own, group("moldau."), group("moldau")], [])
    assert [each.name for each in found] == ["audit", "moldau.", "shop"]


def test_the_lag_is_summed_by_topic() -> None:
    [found] = pipelines_of([group("moldau.shop", ("a", 1, 5), ("b", 2, 2), ("a", 3, 4))], [])
    assert [(each.topic, each.partitions, each.lag) for each in found.topics] == [("a", 2, 5), ("b", 1, 0)]
    assert found.group.lag == 5


def test_a_pipeline_is_not_caught_up_while_the_end_of_a_partition_is_unknown() -> None:
    known = group("moldau.shop", ("a", 5, 5))
    unknown = GroupFacts("moldau.shop", "Empty", "–", (), (*known.rows, LagRow("a", 1, 900, 0, None, None)))
    states = [standing(each, series()).words for each in pipelines_of([known, unknown], [])]
    assert states == ["nothing to read", "lag not known"]


def test_a_pipeline_of_which_no_partition_answers_has_offsets_all_the_same() -> None:
    silent = GroupFacts("moldau.shop", "Empty", "–", (), (LagRow("a", 0, 900, 0, None, None),))
    states = [standing(each, series()) for each in pipelines_of([group("moldau.bare"), silent], [])]
    assert [(each.words, each.kind) for each in states] == [("no offsets", "idle"), ("lag not known", "busy")]


@pytest.mark.parametrize(
    ("pipeline", "letters"),
    [("shop", 3), ("shop.lake", 3), ("shop.lake.two", 3), ("shopping", 0), ("other.shop", 0)],
)
def test_a_query_keeps_its_dead_letters_where_its_pipeline_file_does(pipeline: str, letters: int) -> None:
    topics = [topic("shop.dead-letters", 3), topic(".dead-letters", 9), topic("lake.dead-letters", 9)]
    [found] = pipelines_of([group(f"moldau.{pipeline}")], topics)
    assert found.dead_letters == letters


def test_dead_letters_are_the_existing_ones_of_the_commit_metadata() -> None:
    note = PipelineMetadata("shop", dead_letters=("refused", "gone", "unknown-size"))
    topics = [topic("shop.dead-letters", 3), topic("refused", 4), topic("unknown-size", None)]
    [found] = pipelines_of([group("moldau.shop", note=note)], topics)
    assert [each.name for each in found.dead_letter_topics] == ["refused", "unknown-size"]
    assert found.dead_letters == 4


def test_a_board_is_linked_where_it_is_on_this_machine() -> None:
    here = PipelineMetadata("shop", socket.gethostname(), 9700)
    elsewhere = PipelineMetadata("shop", "worker-7", 9700)
    nowhere = PipelineMetadata("shop", None, 9700)
    secured = PipelineMetadata("shop", socket.gethostname(), 9700, board_tls=True)
    found = pipelines_of([group("moldau.x", note=each) for each in (here, elsewhere, nowhere, secured)], [])
    assert [each.board_host for each in found] == [None, "worker-7", "another machine", None]
    templates = templates_in(Path(console.__file__).parent / "templates")
    templates.filters.update(when=str, path=str)
    macros = templates.get_template("macros.html").module
    links = [re.findall('href="([^"]*)"', macros.board(each)) for each in found]  # type: ignore[attr-defined]
    assert links == [["http://127.0.0.1:9700/"], [], [], ["https://127.0.0.1:9700/"]]


def test_the_state_of_a_pipeline_follows_from_its_lag_and_its_commits() -> None:
    [behind] = pipelines_of([group("moldau.shop", ("a", 1, 5))], [])
    [done] = pipelines_of([group("moldau.shop", ("a", 5, 5))], [])
    [unknown] = pipelines_of([group("moldau.shop")], [])

    def told(pipeline: PipelineFacts, *samples: tuple[float, float]) -> tuple[str, int | None]:
        stands = standing(pipeline, series(*samples))
        return stands.words, stands.seen_s

    assert told(unknown) == ("no offsets", None)
    assert told(done, (0, 4), (4, 5), (8, 5)) == ("caught up", 4)
    assert told(done, (0, 4), (4, 5), (80, 5)) == ("nothing to read", 76)
    assert told(behind) == ("no new commit yet", None)
    assert told(behind, (0, 1), (4, 1)) == ("no new commit yet", None)
    assert told(behind, (0, 1), (80, 1)) == ("no commit for 1 min 20 s", None)
    assert told(behind, (0, 0), (4, 1), (8, 1)) == ("reading", 4)
    assert told(behind, (0, 0), (4, 1), (80, 1)) == ("no commit for 1 min 16 s", 76)


def test_a_pipeline_that_may_have_been_stopped_is_not_green() -> None:
    [done] = pipelines_of([group("moldau.shop", ("a", 5, 5))], [])
    assert standing(done, series((0, 5), (100, 5))).kind == "idle"
    assert standing(done, series((0, 4), (4, 5), (8, 5))).kind == "good"


def test_the_queries_of_a_page_are_one_pipeline() -> None:
    groups = [
        group("moldau.shop.lake", note=PipelineMetadata("shop.lake", spec="shop")),
        group("moldau.shop.db", note=PipelineMetadata("shop.db", spec="shop")),
        group("moldau.shop.eu", note=PipelineMetadata("shop.eu", spec="shop.eu")),
        group("forged", note=PipelineMetadata("other", spec="shop")),
        group("moldau.old.lake", note=PipelineMetadata("old.lake")),
    ]
    found = [(each.spec, each.query) for each in pipelines_of(groups, [])]
    assert found == [("old.lake", ""), ("other", ""), ("shop", "db"), ("shop", "lake"), ("shop.eu", "")]


def test_the_picture_has_rates_on_its_lines_and_marks_dead_letters() -> None:
    [found] = pipelines_of([group("moldau.shop", ("a", 1, 5), ("b", 2, 2))], [topic("shop.dead-letters", 2)])
    boxes, edges = picture_of(found, {"a": 12.0}, {"shop.dead-letters": None})
    assert [(box.name, box.note) for box in boxes] == [
        ("a", "lag 4"), ("b", "lag 0"), ("shop", "lag 4"), ("shop.dead-letters", "2 dead letters")
    ]  # fmt: skip
    assert [box.is_in_trouble for box in boxes] == [False, False, False, True]
    assert [(edge.start, edge.end, edge.note) for edge in edges] == [(0, 2, "12/s"), (1, 2, "–/s"), (2, 3, "–/s")]


def test_neither_pipelines_nor_other_groups_take_all_places() -> None:
    pipelines, others = [f"moldau.{number}" for number in range(9)], [f"z{number}" for number in range(9)]
    assert choose_groups([*pipelines, *others], 6) == {*pipelines[:3], *others[:3]}
    assert choose_groups([*pipelines, *others[:1]], 6) == {*pipelines[:5], others[0]}
    assert choose_groups([*pipelines[:1], *others], 6) == {pipelines[0], *others[:5]}
    assert choose_groups(others[:2], 6) == {*others[:2]}


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("shop.dead-letters", partitions=1)
        yield cluster


def produce(broker: Cluster, *reasons: bytes | None, **more: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for reason in reasons:
        headers = {} if reason is None else {"moldau.reason": reason, **more}
        producer.produce("shop.dead-letters", b"x", headers=list(headers.items()))
    assert producer.flush(30) == 0


def test_the_newest_dead_letters_are_read_again_only_when_there_are_more(broker: Cluster) -> None:
    page = ConsoleCluster(ClusterAccess(broker.bootstrap_servers))
    asked: list[str] = []

    def find(topic: TopicFacts, question: Question) -> Found:
        asked.append(topic.name)
        browser = Browser(ClusterAccess(broker.bootstrap_servers), topic)
        try:
            return browser.find(question)
        finally:
            browser.close()

    watch = DeadLettersWatch(find)

    def newest() -> list[tuple[str, str]]:
        topics = [topic for topic in page.overview().topics if topic.name == "shop.dead-letters"]
        return [(letter.reason, letter.origin) for letter in watch.newest(page.with_offsets(topics))]

    assert (newest(), asked) == ([], [])
    origin = {"moldau_topic": b"orders", "moldau_partition": b"1", "moldau_offset": b"7"}
    produce(broker, b"first", **{name.replace("_", "."): value for name, value in origin.items()})
    assert newest() == [("first", "orders-1 @ 7")]
    produce(broker, None, b"\xff\xfe\x00<b>", b"x" * 100_000)
    letters = newest()
    assert [reason[:8] for reason, _ in letters] == ["xxxxxxxx", "��\\x00<b"[:8], "", "first"]
    assert len(letters[0][0]) == 400
    assert newest() == letters
    assert len(asked) == 2
    produce(broker, *[b"many"] * 20)
    assert newest() == [("many", "")] * MAX_DEAD_LETTERS
    page.close()
