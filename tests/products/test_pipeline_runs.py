"""`moldau pipeline init`, `graph`, `status`, `stop` and `reset`: the commands around a pipeline's runs, without
Spark."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions

from moldau.cli.main import main
from moldau.client.admin.groups import read_committed
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import GroupIdNotFoundError, KafkaError
from moldau.products.pipelines.checkpoints.checkpoint import (
    CheckpointError,
    claim_checkpoint,
    newest_finished_batch,
    write_whole,
)
from moldau.products.pipelines.checkpoints.lease import LEASE_FILE, Lease
from moldau.products.pipelines.core.commit_metadata import (
    CommitMetadata,
    metadata_of,
    pipeline_metadata,
    read_commit_metadata,
)
from moldau.products.pipelines.running.checkpoint_versions import (
    START_FILE,
    ChosenStarts,
    finish_reset,
    forget_unfinished_reset,
    starting_offsets,
)
from moldau.products.pipelines.running.group import GroupError, GroupOffsets
from moldau.products.pipelines.running.query_progress import QueryProgress
from moldau.products.pipelines.spec.spec import PipelineQuery, load_spec
from moldau.spark.source.offsets import StreamOffset, offset_to_dict
from moldau.testing import Cluster
from moldau.transport.access import open_admin
from moldau.types import TopicPartition
from tests.support.talking_process import line_of, running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def spec(cluster: Cluster, tmp_path: Path) -> Path:
    """Has two queries over one topic with three records in partition 0 and one in partition 1."""
    topic = cluster.topic(partitions=2)
    cluster.produce(topic, "a", "b", "c", partition=0)
    cluster.produce(topic, "d", partition=1)
    file = tmp_path / "spec.yaml"
    file.write_text(
        f"""
name: {topic}
bootstrap_servers: {cluster.bootstrap_servers}
sources:
  orders: {{topic: {topic}, format: string}}
flows:
  values: select value from orders
targets:
  lake: {{from: values, path: out}}
  raw: {{from: orders, path: raw}}
checkpoint: state
""",
        encoding="utf-8",
    )
    return file


def finish_batch(spec: Path, query: int, batch: int, ends: dict[str, int]) -> None:
    """The state that a run leaves, as Spark writes it."""
    loaded = load_spec(spec)
    (topic,) = (source.topic for source in loaded.sources().values())
    one = loaded.queries[query]
    claim_checkpoint(one.checkpoint, one.step.facts(), pipeline=one.name)
    for name, text in (("offsets", f"v1\n{{}}\n{json.dumps({topic: ends})}"), ("commits", "v1\n{}")):
        (one.checkpoint / name).mkdir(exist_ok=True)
        (one.checkpoint / name / str(batch)).write_text(text)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["pipeline", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_first_pipeline_can_be_meant_and_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "first.yaml"
    assert told(capsys, "init", str(file))[0] == 0
    assert told(capsys, "check", str(file))[0] == 0
    before = file.read_text("utf-8")
    code, _, error = told(capsys, "init", str(file))
    assert (code, error) == (1, f"moldau pipeline: {file}: File exists\n")
    assert file.read_text("utf-8") == before


def test_a_flow_stands_below_each_source_that_it_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "spec.yaml"
    file.write_text("""
name: p
bootstrap_servers: a:1
sources:
  a: {topic: a, format: string}
  b: {topic: b, format: string}
flows:
  both: select a.value from a join b on a.value = b.value
targets:
  both: {topic: c}
""")
    assert told(capsys, "graph", str(file))[1].splitlines() == [
        "p",
        "├── a: topic a (string), first run from the earliest offsets",
        "│   └── both (with b)",
        "│       └── -> both: topic c (append)",
        "└── b: topic b (string), first run from the earliest offsets",
        "    └── both (with a)",
        "        └── -> both: topic c (append)",
    ]


def test_the_graph_is_not_cut_at_the_width_of_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = "a" * 200
    file = tmp_path / "spec.yaml"
    file.write_text(f"""
name: p
bootstrap_servers: a:1
source: {{topic: {topic}, format: string}}
sql: select value from source
sink: {{topic: c}}
""")
    assert f"topic {topic} (string), first run from the earliest offsets\n" in told(capsys, "graph", str(file))[1]


def test_the_status_says_how_far_each_query_is_and_what_a_run_would_do(spec: Path, capsys: pytest.CaptureFixture[str]):
    finish_batch(spec, 0, 7, {"0": 2, "1": 1})
    code, text, _ = told(capsys, "status", str(spec), "--json")
    standing = json.loads(text)
    name = standing["pipeline"]
    assert (code, standing["process"], standing["host"]) == (0, None, None)
    assert standing["queries"] == [
        {"query": f"{name}.lake", "batch": 7, "lag": 1, "next_run": "goes on after batch 7"},
        {"query": f"{name}.raw", "batch": None, "lag": 4, "next_run": "begins"},
    ]
    spec.write_text(spec.read_text().replace("select value", "select upper(value)"))
    lake, _ = json.loads(told(capsys, "status", str(spec), "--json")[1])["queries"]
    assert lake["next_run"] == "refused: `flows.values` changed; undo it, or `moldau pipeline reset`"
    assert "does not run" in told(capsys, "status", str(spec))[1]


def test_while_a_cluster_is_away_the_status_tells_the_rest(spec: Path, capsys: pytest.CaptureFixture[str]):
    finish_batch(spec, 0, 7, {"0": 2, "1": 1})
    text = spec.read_text()
    servers = str(load_spec(spec).access)
    spec.write_text(text.replace(servers, "127.0.0.1:1") + "first_contact_timeout: 100 milliseconds\n")
    code, text, error = told(capsys, "status", str(spec), "--json")
    standing = json.loads(text)
    name = standing["pipeline"]
    assert standing["queries"] == [
        {"query": f"{name}.lake", "batch": 7, "lag": None, "next_run": "goes on after batch 7"},
        {"query": f"{name}.raw", "batch": None, "lag": None, "next_run": "begins"},
    ]
    (trouble,) = error.splitlines()
    assert (code, trouble.startswith(f"moldau pipeline: the offsets of topic {name} could not be read: ")) == (1, True)


def test_the_lag_of_a_query_that_begins_is_what_its_first_run_reads(spec: Path, capsys: pytest.CaptureFixture[str]):
    spec.write_text(spec.read_text().replace("format: string", "format: string, start: latest"))
    first, _ = load_spec(spec).queries
    topic = str(next(first.topics()).topic)

    def lags() -> list[int]:
        return [query["lag"] for query in json.loads(told(capsys, "status", str(spec), "--json")[1])["queries"]]

    assert lags() == [0, 0]
    # a first batch that was interrupted runs again from its start, in spite of a later latest offset
    offsets = {topic: {"0": 3, "1": 1}, "@first_start": {topic: {"0": 1, "1": 0}}}
    write_whole(first.checkpoint / "offsets" / "0", f"v1\n{{}}\n{json.dumps(offsets)}")
    assert lags() == [3, 0]


@pytest.mark.parametrize(
    ("to", "starts"),
    [
        ("earliest", [0, 0]),
        ("latest", [3, 1]),
        ("2020-01-01", [0, 0]),
        ("0s", [3, 1]),
        ('{"TOPIC": {"0": 2, "1": 0}}', [2, 0]),
    ],
)
def test_a_reset_keeps_the_old_generation_and_shows_the_new_offsets(
    cluster: Cluster, spec: Path, capsys: pytest.CaptureFixture[str], to: str, starts: list[int]
):
    topic = load_spec(spec).name
    finish_batch(spec, 0, 7, {"0": 2, "1": 1})
    code, text, error = told(capsys, "reset", str(spec), "--to", to.replace("TOPIC", topic), "--execute")
    assert (code, error) == (0, "")
    kept = spec.with_name("state.old-1")
    assert f"rm -r {kept}" in text
    assert newest_finished_batch(kept / "lake") is not None
    loaded = load_spec(spec)
    assert newest_finished_batch(loaded.queries[0].checkpoint) is None
    start = starting_offsets(loaded).sources["orders"]
    # a word in place of given offsets: those may be deleted when the pipeline runs
    assert start == "earliest" if to == "earliest" else json.loads(start) == {topic: {"0": starts[0], "1": starts[1]}}
    assert [cluster.lag(query.group) for query in loaded.queries] == [4 - sum(starts)] * 2
    standing = json.loads(told(capsys, "status", str(spec), "--json")[1])
    assert [query["lag"] for query in standing["queries"]] == [4 - sum(starts)] * 2


def test_a_reset_changes_nothing_before_it_is_told_to_and_names_what_comes_twice(
    cluster: Cluster, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    topic = load_spec(spec).name
    spec.write_text(
        spec.read_text().replace(
            "checkpoint:", "  db: {from: orders, sqlite: a.db, table: t, mode: update, key: value}\ncheckpoint:"
        )
    )
    for number in (0, 2):
        finish_batch(spec, number, 7, {"0": 2, "1": 1})
    before = {file: file.read_bytes() for file in sorted(spec.parent.rglob("*")) if file.is_file()}
    offsets = json.dumps({topic: {"0": 0, "1": 1}})
    code, text, error = told(capsys, "reset", str(spec), "--to", offsets)
    lake, raw, db = load_spec(spec).queries
    assert (code, error) == (0, "nothing was changed: --execute resets the pipeline\n")
    assert text.splitlines() == [
        f"{topic}-0 begins at 0",
        f"{topic}-1 begins at 1",
        f"{lake.target.describe()[0]} gets 2 records again, and will hold their rows twice",
        f"{raw.target.describe()[0]} has no finished batch: nothing comes twice",
        f"{db.target.describe()[0]} gets 2 records again, where each row takes the place of that of its key",
    ]
    assert {file: file.read_bytes() for file in sorted(spec.parent.rglob("*")) if file.is_file()} == before
    with pytest.raises(GroupIdNotFoundError):
        cluster.lag(lake.group)
    _, text, _ = told(capsys, "reset", str(spec), "--to", "latest")
    assert "gets nothing twice, and never gets 1 record that it has not read yet" in text
    assert starting_offsets(load_spec(spec)).sources == {}


def test_a_reset_tells_which_sources_begin_at_their_first_row(spec: Path, capsys: pytest.CaptureFixture[str]):
    name = load_spec(spec).name
    more = "sources:\n  lines: {files: in, format: text}\n  users: {sqlite: a.db, table: t, as: table}"
    text = spec.read_text().replace("sources:", more)
    flow = "value from lines union all select name from users"
    spec.write_text(text.replace("value from orders", f"{flow} union all select value from orders"))
    code, said, error = told(capsys, "reset", str(spec), "--to", "latest", "--execute")
    assert (code, said.splitlines()[:3]) == (
        0,
        [
            f"{name}-0 begins at 3",
            f"{name}-1 begins at 1",
            "`sources.lines` begins at its first row: only a topic can begin elsewhere",
        ],
    ), error
    assert "users" not in said


def test_a_reset_that_a_group_does_not_show_tells_what_it_has_done(
    cluster: Cluster, spec: Path, capsys: pytest.CaptureFixture[str]
):
    """As with a group that gets a member between the look and the commit."""
    loaded = load_spec(spec)
    with cluster.faults.error("OffsetCommit", "UNKNOWN_MEMBER_ID", times=1):
        code, _, error = told(capsys, "reset", str(spec), "--to", "latest", "--execute")
    kept = spec.with_name("state.old-1")
    begins = f"moldau pipeline: the pipeline is reset, and its old checkpoint is kept in {kept}, but its groups do not "
    assert (code, error.startswith(begins), kept.is_dir()) == (1, True, True)
    assert starting_offsets(loaded).sources


def test_a_reset_takes_no_group_from_another_pipeline(cluster: Cluster, spec: Path, capsys: pytest.CaptureFixture[str]):
    loaded = load_spec(spec)
    offsets = GroupOffsets(ClusterAccess(cluster.bootstrap_servers), loaded.queries[1].group)
    other = pipeline_metadata("other", "other", "a", None, []).text()
    offsets.commit({TopicPartition(loaded.name, 0): 2}, metadata_of(7, other))
    code, _, error = told(capsys, "reset", str(spec), "--to", "latest", "--execute")
    group = loaded.queries[1].group
    assert (code, error.startswith(f"moldau pipeline: group '{group}' shows how far the pipeline 'other' is")) == (
        1,
        True,
    )
    assert not loaded.checkpoint.exists()
    with pytest.raises(GroupError, match="shows how far the pipeline 'other' is"):
        offsets.check(loaded.name, loaded.queries[1].name)
    offsets.close()


def test_a_reset_that_its_groups_could_not_show_changes_nothing(
    cluster: Cluster, spec: Path, capsys: pytest.CaptureFixture[str]
):
    """A group with members accepts no offsets from others."""
    loaded = load_spec(spec)
    finish_batch(spec, 0, 7, {"0": 2, "1": 1})
    group = loaded.queries[1].group
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "client.id": "reader"})
    consumer.subscribe([loaded.name])
    for _ in range(300):
        consumer.poll(0.1)
        if consumer.assignment():
            break
    code, _, error = told(capsys, "reset", str(spec), "--to", "latest", "--execute")
    consumer.close()
    refused = f"moldau pipeline: group '{group}' has 1 members, the first is 'reader': "
    assert (code, error.startswith(refused)) == (1, True), error
    assert newest_finished_batch(loaded.queries[0].checkpoint) is not None
    assert not spec.with_name("state.old-1").exists()


@pytest.fixture
def far(spec: Path) -> Iterator[tuple[Cluster, PipelineQuery, TopicPartition]]:
    """The second query of the pipeline, whose target is a topic of another cluster, and that topic's one partition."""
    with Cluster() as other:
        topic = other.topic()
        there = f"topic: {topic}, bootstrap_servers: '{other.bootstrap_servers}'"
        spec.write_text(spec.read_text().replace("path: raw", there))
        yield other, load_spec(spec).queries[1], TopicPartition(topic, 0)


def note_there(other: Cluster, query: PipelineQuery, partition: TopicPartition, spec: str, pipeline: str) -> None:
    """The commit metadata that a target leaves in its own cluster with batch 7, without any of its sources."""
    with closing(GroupOffsets(ClusterAccess(other.bootstrap_servers), query.group)) as group:
        group.commit({partition: 0}, metadata_of(7, pipeline_metadata(spec, pipeline, "a", None, []).text()))


def test_a_reset_takes_no_group_from_another_pipeline_on_the_cluster_of_a_target(
    spec: Path, far: tuple[Cluster, PipelineQuery, TopicPartition], capsys: pytest.CaptureFixture[str]
):
    other, query, partition = far
    finish_batch(spec, 0, 7, {"0": 2, "1": 1})
    note_there(other, query, partition, "other", "other")
    code, _, error = told(capsys, "reset", str(spec), "--to", "latest", "--execute")
    refused = f"moldau pipeline: group '{query.group}' shows how far the pipeline 'other' is"
    assert (code, error.startswith(refused), other.bootstrap_servers in error) == (1, True, True), error
    assert newest_finished_batch(load_spec(spec).queries[0].checkpoint) is not None
    assert not spec.with_name("state.old-1").exists()


def test_a_reset_takes_the_note_of_the_old_generation_from_the_cluster_of_a_target(
    spec: Path, far: tuple[Cluster, PipelineQuery, TopicPartition], capsys: pytest.CaptureFixture[str]
):
    """Otherwise the board of that cluster would show batch 7 until the new version reaches it."""
    other, query, partition = far
    note_there(other, query, partition, load_spec(spec).name, query.name)
    with open_admin(ClusterAccess(other.bootstrap_servers, client_id="test")) as admin:

        def noted() -> list[str]:
            return [position.metadata for position in read_committed(admin, query.group).values()]

        assert read_commit_metadata(noted()).batch == 7
        assert told(capsys, "reset", str(spec), "--to", "latest", "--execute")[0] == 0
        assert read_commit_metadata(noted()) == CommitMetadata()


def test_a_reset_rules_the_queries_of_its_time_until_each_has_planned_a_batch(
    cluster: Cluster, spec: Path, capsys: pytest.CaptureFixture[str]
):
    name = load_spec(spec).name
    assert told(capsys, "reset", str(spec), "--to", "latest", "--execute")[0] == 0
    spec.write_text(spec.read_text().replace("checkpoint:", "  more: {from: orders, path: more}\ncheckpoint:"))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(name, 3)])[name].result(30)
    chosen = starting_offsets(load_spec(spec))
    assert json.loads(chosen.sources["orders"]) == {name: {"0": 3, "1": 1, "2": 0}}
    assert chosen.others == {f"{name}.more"}
    for query in (0, 2):
        finish_batch(spec, query, 0, {"0": 3, "1": 1})
    chosen = starting_offsets(load_spec(spec))
    assert (list(chosen.sources), chosen.others) == (["orders"], frozenset())
    finish_batch(spec, 1, 0, {"0": 3, "1": 1})
    assert starting_offsets(load_spec(spec)) == ChosenStarts()
    spec.write_text(spec.read_text().replace("checkpoint:", "  later: {from: orders, path: later}\ncheckpoint:"))
    assert starting_offsets(load_spec(spec)) == ChosenStarts()


@pytest.fixture
def two_topics(cluster: Cluster, tmp_path: Path) -> tuple[Path, str, str]:
    """A pipeline that reads two topics by a pattern, each with three records; the test may delete or recreate them."""
    first, second = cluster.topic(), cluster.topic()
    for topic in (first, second):
        cluster.produce(topic, "a", "b", "c")
    file = tmp_path / "spec.yaml"
    file.write_text(
        f"""
name: of-{first}
bootstrap_servers: {cluster.bootstrap_servers}
source: {{pattern: "{first}|{second}", format: string}}
sql: select value from source
sink: {{path: out}}
""",
        encoding="utf-8",
    )
    return file, first, second


def make_anew(cluster: Cluster, topic: str, *values: str) -> None:
    cluster.delete_topic(topic)
    cluster.create_topic(topic)
    cluster.produce(topic, *values)


def standing_of_the_one(capsys: pytest.CaptureFixture[str], spec: Path) -> tuple[int, str]:
    (query,) = json.loads(told(capsys, "status", str(spec), "--json")[1])["queries"]
    return query["lag"], query["next_run"]


def test_a_reset_chooses_nothing_of_a_topic_that_is_gone_or_was_made_anew_since(
    cluster: Cluster, two_topics: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
):
    spec, first, second = two_topics
    assert told(capsys, "reset", str(spec), "--to", "latest", "--execute")[0] == 0
    assert standing_of_the_one(capsys, spec) == (0, "begins")
    make_anew(cluster, first, "d", "e", "f", "g")
    assert json.loads(starting_offsets(load_spec(spec)).sources["source"]) == {first: {"0": 0}, second: {"0": 3}}
    cluster.delete_topic(second)
    assert json.loads(starting_offsets(load_spec(spec)).sources["source"]) == {first: {"0": 0}}
    told_of = f"begins; topic '{second}' is gone; topic '{first}' was made anew"
    assert standing_of_the_one(capsys, spec) == (4, told_of)


def test_a_run_shows_the_lag_behind_what_was_chosen_from_its_start(
    two_topics: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
):
    spec, _, _ = two_topics
    loaded = load_spec(spec)
    with closing(QueryProgress(None, loaded, loaded.queries[0], "")) as progress:  # type: ignore[arg-type]
        assert progress.look("running").lag == 6
        assert told(capsys, "reset", str(spec), "--to", "latest", "--execute")[0] == 0
        assert progress.look("running").lag == 0


def test_a_run_shows_in_the_cluster_of_the_source_what_its_target_commits_in_another(
    cluster: Cluster, spec: Path, capsys: pytest.CaptureFixture[str]
):
    """A target commits its batch with the offsets of exactly those sources that are in its own cluster."""
    with Cluster() as other:
        near, far = cluster.topic(), other.topic()
        text = spec.read_text().replace("path: raw", f"topic: {far}, bootstrap_servers: '{other.bootstrap_servers}'")
        spec.write_text(text.replace("path: out", f"topic: {near}"))
        loaded = load_spec(spec)
        for number, query in enumerate(loaded.queries):
            finish_batch(spec, number, 7, {"0": 2, "1": 1})
            with closing(QueryProgress(None, loaded, query, "")) as progress:  # type: ignore[arg-type]
                assert progress.look("running").lag == 1
        with pytest.raises(KafkaError, match="has committed nothing yet"):
            cluster.lag(loaded.queries[0].group)
        assert cluster.lag(loaded.queries[1].group) == 1
        standing = json.loads(told(capsys, "status", str(spec), "--json")[1])
        assert [query["lag"] for query in standing["queries"]] == [1, 1]
        assert told(capsys, "reset", str(spec), "--to", "earliest", "--execute")[0] == 0
        assert [cluster.lag(query.group) for query in loaded.queries] == [4, 4]
        with pytest.raises(KafkaError, match="has committed nothing yet"):
            other.lag(loaded.queries[1].group)


def test_the_status_says_which_topics_of_a_checkpoint_are_gone_or_were_made_anew(
    cluster: Cluster, two_topics: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
):
    spec, first, second = two_topics
    (query,) = load_spec(spec).queries
    with closing(GroupOffsets(ClusterAccess(cluster.bootstrap_servers), query.group)) as group:
        read = StreamOffset({TopicPartition(one, 0): 3 for one in (first, second)}, group.topic_ids([first, second]))
    claim_checkpoint(query.checkpoint, query.step.facts(), pipeline=query.name)
    write_whole(query.checkpoint / "offsets" / "7", f"v1\n{{}}\n{json.dumps(offset_to_dict(read))}")
    write_whole(query.checkpoint / "commits" / "7", "v1\n{}")
    assert standing_of_the_one(capsys, spec) == (0, "goes on after batch 7")
    cluster.delete_topic(second)
    make_anew(cluster, first, "d")
    lost = f"topic '{second}' is gone, topic '{first}' was made anew"
    advice = "write `lost_records: skip` in its source, or `moldau pipeline reset`"
    assert standing_of_the_one(capsys, spec) == (1, f"refused: {lost}: {advice}")
    spec.write_text(spec.read_text().replace("format: string", "format: string, lost_records: skip"))
    assert standing_of_the_one(capsys, spec) == (1, f"goes on after batch 7; {lost.replace(',', ';')}")
    cluster.delete_topic(first)
    nothing = f"refused: no topic matches '{first}|{second}' on {cluster.bootstrap_servers}"
    assert standing_of_the_one(capsys, spec) == (0, nothing)


def test_a_reset_that_was_killed_between_its_two_steps_is_finished_by_the_next_run(
    spec: Path, capsys: pytest.CaptureFixture[str]
):
    state, fresh = spec.with_name("state"), spec.with_name(".state.new")
    assert told(capsys, "reset", str(spec), "--to", "latest", "--execute")[0] == 0
    chosen = starting_offsets(load_spec(spec))
    state.rename(fresh)
    finish_reset(state)
    assert starting_offsets(load_spec(spec)) == chosen
    assert not fresh.exists()
    # killed before the first step, it has changed nothing: the run continues, and the other steps do not follow later
    fresh.mkdir()
    (fresh / START_FILE).touch()
    finish_reset(state)
    assert starting_offsets(load_spec(spec)) == chosen
    forget_unfinished_reset(state)
    assert not fresh.exists()
    forget_unfinished_reset(state)


def test_a_checkpoint_that_cannot_be_moved_is_not_reset_and_told(spec: Path, capsys: pytest.CaptureFixture[str]):
    """As at a mount point; here its name has no room for another ending."""
    name = "s" * 250
    spec.write_text(spec.read_text().replace("checkpoint: state", f"checkpoint: {name}"))
    finish_batch(spec, 0, 7, {"0": 2, "1": 1})
    code, _, error = told(capsys, "reset", str(spec), "--to", "earliest", "--execute")
    assert code == 1
    assert f"moldau pipeline: {spec.with_name(name)} cannot be moved away: File name too long" in error
    assert [one.name for one in spec.parent.iterdir() if one.is_dir()] == [name]
    assert newest_finished_batch(load_spec(spec).queries[0].checkpoint) is not None


@pytest.mark.parametrize("text", ["{", "[]", '{"orders": {"t": {"0": 1}}}'])
def test_what_is_no_note_of_a_reset_is_refused(spec: Path, text: str):
    loaded = load_spec(spec)
    write_whole(loaded.checkpoint / START_FILE, text)
    with pytest.raises(CheckpointError, match=r"start\.json: not the offsets of a reset .*delete it if the pipeline"):
        starting_offsets(loaded)


@pytest.mark.parametrize(
    ("to", "reason"),
    [
        ('{"TOPIC": {"0": 2}}', "no offset is given for TOPIC-1; every partition needs one"),
        ('{"TOPIC": {"0": 4, "1": 0}}', "TOPIC-0 has the offsets 0 to 3, and 4 is not among them"),
    ],
)
def test_offsets_that_are_not_there_are_refused_and_nothing_changes(
    spec: Path, capsys: pytest.CaptureFixture[str], to: str, reason: str
):
    topic = load_spec(spec).name
    finish_batch(spec, 0, 7, {"0": 2, "1": 1})
    code, _, error = told(capsys, "reset", str(spec), "--to", to.replace("TOPIC", topic), "--execute")
    assert (code, error) == (1, f"moldau pipeline: {reason.replace('TOPIC', topic)}\n")
    assert newest_finished_batch(load_spec(spec).queries[0].checkpoint) is not None
    assert sorted(path.name for path in spec.parent.iterdir()) == ["spec.yaml", "state"]


DRIVER = """
import pathlib, signal, sys
from moldau.products.pipelines.checkpoints.lease import Lease
with Lease(pathlib.Path(sys.argv[1])):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    print("held", flush=True)
    signal.sigwait({signal.SIGTERM})
"""


def test_a_pipeline_that_runs_is_told_is_not_reset_and_can_be_stopped(spec: Path, capsys: pytest.CaptureFixture[str]):
    words = [sys.executable, "-c", DRIVER, str(spec.parent / "state")]
    with running(words, stdout=subprocess.PIPE) as driver:
        assert line_of(driver.stdout) == "held\n"
        assert f"process {driver.pid} runs it" in told(capsys, "status", str(spec))[1]
        code, _, error = told(capsys, "reset", str(spec), "--to", "earliest", "--execute")
        assert (code, f"process {driver.pid} runs a pipeline" in error) == (1, True)
        assert told(capsys, "stop", str(spec)) == (
            0,
            f"{load_spec(spec).name} has stopped (process {driver.pid})\n",
            "",
        )
        assert driver.wait(30) == 0
    assert told(capsys, "stop", str(spec))[1].endswith("does not run\n")


@pytest.mark.parametrize("is_container", [False, True])
def test_a_pipeline_that_runs_elsewhere_is_reported_and_no_process_here_stops(
    spec: Path, capsys: pytest.CaptureFixture[str], is_container: bool
):
    """Both machines see the checkpoint's storage; here the process number in it is that of a process without a
    pipeline."""
    here = socket.gethostname()
    host = f"{here}, in another container" if is_container else "far-away"
    checkpoint = load_spec(spec).checkpoint
    with Lease(checkpoint), running([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        _, token, counts_in, _ = (checkpoint / LEASE_FILE).read_text().split()
        written = f"{bystander.pid} {token} {counts_in}1 {here if is_container else host}\n"
        (checkpoint / LEASE_FILE).write_text(written)
        standing = json.loads(told(capsys, "status", str(spec), "--json")[1])
        assert (standing["process"], standing["host"]) == (bystander.pid, host)
        assert f": process {bystander.pid} on {host} runs it\n" in told(capsys, "status", str(spec))[1]
        code, _, error = told(capsys, "stop", str(spec))
        assert (code, error) == (
            1,
            f"moldau pipeline: process {bystander.pid} on {host} runs {load_spec(spec).name}: stop it there\n",
        )
        bystander.communicate("\n", timeout=30)
        assert bystander.returncode == 0, "it was left alone"
    assert told(capsys, "stop", str(spec))[1].endswith("does not run\n")
