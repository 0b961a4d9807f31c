"""Finds pipelines by their groups: named `moldau.…`, or with commit metadata of a pipeline.

A pipeline is not a member of its group, so the state of the group does not show whether it runs: moving offsets do.
Clients write commit metadata, so no address is taken from it. A board's address is only its port, and is linked only
for a run on this machine.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

import msgspec

from moldau.products.console.cluster import GroupFacts, LagRow, TopicFacts, total
from moldau.products.pipelines.core.commit_metadata import DEAD_LETTERS_SUFFIX, GROUP_PREFIX
from moldau.products.service.look.history import Series
from moldau.products.service.look.plan import Box, Edge
from moldau.products.service.look.words import show_count, show_duration, show_rate, visible

ALIVE_S = 60
"""A pipeline that committed within this time is shown as reading."""
MAX_DRAWN_TOPICS = 20


class TopicLag(msgspec.Struct, frozen=True):
    """The lag of a group on one topic."""

    topic: str
    partitions: int
    lag: int | None
    deleted: int


class PipelineFacts(msgspec.Struct, frozen=True):
    """`spec`: the name of its pipeline file, which may have several queries; `query`: its name there, empty for a
    single query. `dead_letter_topics`: the topics of its dead letters. `board_port`: the port of the run's board,
    `board_tls`: whether it uses TLS, `board_host`: its machine, None for this one."""

    name: str
    spec: str
    query: str
    group: GroupFacts
    topics: tuple[TopicLag, ...]
    dead_letter_topics: tuple[TopicFacts, ...]
    board_port: int | None
    board_host: str | None
    board_tls: bool

    @property
    def dead_letters(self) -> int | None:
        """The number of records in those topics; 0 without such a topic."""
        return total(topic.records for topic in self.dead_letter_topics) if self.dead_letter_topics else 0


class Standing(msgspec.Struct, frozen=True):
    """The state of a pipeline in words; `kind`: the badge. `seen_s`: seconds since its offsets moved; None if they did
    not move while the console sampled them."""

    words: str
    kind: str
    seen_s: int | None


def is_pipeline(group: GroupFacts) -> bool:
    return group.group_id.startswith(GROUP_PREFIX) or group.commit_metadata.pipeline is not None


def pipelines_of(groups: Sequence[GroupFacts], topics: Sequence[TopicFacts]) -> list[PipelineFacts]:
    """The groups of pipelines: one for each query, sorted by pipeline file."""
    by_name = {topic.name: topic for topic in topics}
    here = socket.gethostname()
    found = [_facts(group, by_name, here) for group in groups if is_pipeline(group)]
    return sorted(found, key=lambda pipeline: (pipeline.spec, pipeline.query, pipeline.group.group_id))


def _facts(group: GroupFacts, topics: dict[str, TopicFacts], here: str) -> PipelineFacts:
    metadata = group.commit_metadata.pipeline
    name = metadata.pipeline if metadata is not None else group.group_id.removeprefix(GROUP_PREFIX) or group.group_id
    named_spec = metadata.spec if metadata is not None else None
    spec = named_spec if named_spec is not None and _is_of(name, named_spec) else name
    named = metadata.dead_letters if metadata is not None else ()
    found = [topics[each] for each in (named or _dead_letters_by_name(name, topics)) if each in topics]
    return PipelineFacts(
        name=name,
        spec=spec,
        query=name.removeprefix(spec).removeprefix("."),
        group=group,
        topics=_topics(group),
        dead_letter_topics=tuple(found),
        board_port=metadata.board_port if metadata is not None else None,
        board_host=metadata.host or "another machine" if metadata is not None and metadata.host != here else None,
        board_tls=metadata is not None and metadata.board_tls,
    )


def _is_of(query: str, spec: str) -> bool:
    """Whether the query belongs to the pipeline file: any client can write commit metadata."""
    return query == spec or query.startswith(f"{spec}.")


def _dead_letters_by_name(name: str, topics: dict[str, TopicFacts]) -> list[str]:
    """The query `shop.lake` of the pipeline file `shop` uses the topic `shop.dead-letters`, like the file itself."""
    while name and name + DEAD_LETTERS_SUFFIX not in topics:
        name = name.rpartition(".")[0]
    return [name + DEAD_LETTERS_SUFFIX] if name else []


def _topics(group: GroupFacts) -> tuple[TopicLag, ...]:
    rows: dict[str, list[LagRow]] = {}
    for row in group.rows:
        rows.setdefault(row.topic, []).append(row)
    return tuple(
        TopicLag(name, len(own), total(row.lag for row in own), sum(row.deleted for row in own))
        for name, own in rows.items()
    )


def standing(pipeline: PipelineFacts, series: Series) -> Standing:
    """`series`: samples of the committed offsets of its group."""
    seen_s = None if series.changed_s is None else int(series.changed_s)
    lag = pipeline.group.lag
    if not lag and not pipeline.group.is_lag_known:
        return Standing("lag not known", "busy", seen_s)
    if lag is None:
        return Standing("no offsets", "idle", seen_s)
    is_alive = seen_s is not None and seen_s <= ALIVE_S
    if lag == 0:
        # without a commit it is unknown whether the pipeline waits for records or was stopped
        return Standing("caught up", "good", seen_s) if is_alive else Standing("nothing to read", "idle", seen_s)
    if is_alive:
        return Standing("reading", "good", seen_s)
    waited_s = int(series.span_s) if seen_s is None else seen_s
    if waited_s <= ALIVE_S:
        return Standing("no new commit yet", "idle", seen_s)
    return Standing(f"no commit for {show_duration(waited_s)}", "busy", seen_s)


def picture_of(
    pipeline: PipelineFacts, rates: dict[str, float | None], dead_letter_rates: dict[str, float | None]
) -> tuple[list[Box], list[Edge]]:
    """The topics that the pipeline reads, the pipeline, and its dead letters, with rates on the lines."""
    read = pipeline.topics[:MAX_DRAWN_TOPICS]
    boxes = [Box(visible(each.topic), "source", f"lag {show_count(each.lag)}") for each in read]
    middle = len(boxes)
    boxes.append(Box(visible(pipeline.name), "flow", f"lag {show_count(pipeline.group.lag)}"))
    edges = [Edge(place, middle, f"{show_rate(rates.get(each.topic))}/s") for place, each in enumerate(read)]
    for topic in pipeline.dead_letter_topics:
        edges.append(Edge(middle, len(boxes), f"{show_rate(dead_letter_rates.get(topic.name))}/s"))
        note = f"{show_count(topic.records)} dead letter{'' if topic.records == 1 else 's'}"
        boxes.append(Box(visible(topic.name), "target", note, bool(topic.records)))
    return boxes, edges
