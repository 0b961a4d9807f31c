"""The checks of a pipeline before Spark starts, each with one sentence; and changes that its checkpoint and files
reject."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from rich.console import Console

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.checkpoints.checkpoint import CheckpointError, claim_checkpoint
from moldau.products.pipelines.core.commit_metadata import metadata_of, pipeline_metadata
from moldau.products.pipelines.formats.registry import RegistryError
from moldau.products.pipelines.running.flow import times_of
from moldau.products.pipelines.running.group import GroupOffsets
from moldau.products.pipelines.running.preflight import (
    PreflightError,
    check_cluster,
    check_owner,
    check_spec,
    make_targets,
    make_topic,
)
from moldau.products.pipelines.running.progress import ProgressDisplay
from moldau.products.pipelines.spec.spec import PipelineSpec, parse_spec
from moldau.products.pipelines.targets.parquet import check_target
from moldau.products.pipelines.targets.target import TargetError
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.testing import Cluster
from moldau.types import TopicPartition


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(settings={"auto.create.topics.enable": "false"}) as cluster:
        yield cluster


def spec(servers: str, source: str = "s", sink: str = "t", more: str = "") -> PipelineSpec:
    text = f"name: p\nbootstrap_servers: {servers}\nsource: {{topic: {source}, format: string}}\n"
    text += f"sql: select value from source\nsink: {{topic: {sink}}}\n{more}"
    return parse_spec(text, file_name="spec.yaml", directory=Path("/pages"))


def test_a_broker_that_is_not_there_is_told_before_spark_starts():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(PreflightError, match=f"^cannot reach {address}: connection refused"):
            check_cluster(spec(address, more="first_contact_timeout: 1 millisecond"))
    with pytest.raises(PreflightError, match="there is no host '-nowhere-'"):
        check_cluster(spec("-nowhere-:9092"))


def test_a_registry_that_is_not_there_is_told_before_spark_starts(cluster: Cluster):
    source, sink = cluster.topic(), cluster.topic()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        for where, read, written in (
            ("source", f"format: avro, registry: '{address}'", ""),
            ("sink", "format: string", f", format: avro, registry: '{address}'"),
        ):
            wanted = parse_spec(
                f"name: p\nbootstrap_servers: {cluster.bootstrap_servers}\nsource: {{topic: {source}, {read}}}\n"
                f"sql: select * from source\nsink: {{topic: {sink}{written}}}\nfirst_contact_timeout: 1 millisecond",
                file_name="spec.yaml",
                directory=Path("/pages"),
            )
            with pytest.raises(RegistryError) as refused:
                check_spec(wanted)
            told = f"the schema registry {address} does not answer: connection refused (tried for 0.001 s)"
            assert str(refused.value) == told, where


def test_a_missing_topic_is_told_with_the_line_that_makes_it(cluster: Cluster):
    servers, topic, other = cluster.bootstrap_servers, cluster.topic(), cluster.topic()
    expected = f"topic 'none' does not exist on {servers}; to create it: moldau topics create none --bootstrap-server"
    for source, sink in (("none", topic), (topic, "none")):
        with pytest.raises(PreflightError, match=expected):
            check_cluster(spec(servers, source, sink))
    check_cluster(spec(servers, topic, other))


def topics_of(cluster: Cluster) -> set[str]:
    return set(AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=10).topics)


def test_a_look_makes_no_topic_also_where_the_cluster_makes_them_by_itself():
    """Neither a target's topic nor, by a request for a group, the topic of all groups."""
    with Cluster() as cluster:
        source = cluster.topic("orders")
        wanted = spec(cluster.bootstrap_servers, source, "sums")
        assert check_cluster(wanted) == ["sums"]
        assert topics_of(cluster) == {source}
        make_targets(wanted)
        assert topics_of(cluster) == {source, "sums"}
        assert check_cluster(wanted) == []


def test_a_misspelt_topic_is_refused_with_the_nearest_one():
    with Cluster() as cluster:
        servers = cluster.bootstrap_servers
        orders, spenders = cluster.topic("orders"), cluster.topic("spenders")
        for source, sink, absent, near in (
            (orders, "spendres-2", "spendres-2", spenders),
            ("oders-1", spenders, "oders-1", orders),
        ):
            with pytest.raises(PreflightError) as refused:
                check_cluster(spec(servers, source, sink))
            assert str(refused.value) == (
                f"topic '{absent}' does not exist on {servers}; did you mean {near}? "
                f"To create it: moldau topics create {absent} --bootstrap-server {servers}"
            )
        for sink in ("orders-2", f"{orders}-v2"):  # others on purpose
            assert check_cluster(spec(servers, orders, sink)) == [sink]
        assert topics_of(cluster) == {orders, spenders}


def test_a_group_with_consumers_is_refused(cluster: Cluster):
    topic = cluster.topic()
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "busy", "client.id": "reader"})
    try:
        consumer.subscribe([topic])
        for _ in range(300):
            consumer.poll(0.1)
            if consumer.assignment():
                break
        with pytest.raises(PreflightError, match="group 'busy' has 1 members, the first is 'reader'"):
            check_cluster(spec(cluster.bootstrap_servers, topic, cluster.topic(), "group: busy"))
    finally:
        consumer.close()


def test_a_group_has_the_notes_of_one_pipeline(cluster: Cluster):
    """Another pipeline's commit metadata would replace that by which a sink knows its newest batch."""
    servers, topic = cluster.bootstrap_servers, cluster.topic(partitions=2)
    wanted = spec(servers, topic, cluster.topic(), "group: shared")
    offsets = GroupOffsets(ClusterAccess(servers), "shared")

    def commit(partition: int, pipeline: str, spec: str) -> None:
        note = pipeline_metadata(spec, pipeline, "worker-7", None, [])
        offsets.commit({TopicPartition(topic, partition): 0}, metadata_of(9 - partition, note.text()))

    commit(0, "p", "p")
    check_cluster(wanted)  # the same pipeline, on another machine
    for pipeline, named in (("shop", "'shop'"), ("p", "'p' of the pipeline 'shop'")):
        commit(1, pipeline, "shop")
        with pytest.raises(PreflightError) as refused:
            check_cluster(wanted)
        assert str(refused.value) == (
            f"group 'shared' shows how far the pipeline {named} is, and cannot show 'p' too: name another one with "
            f"`group`, or, if {named} does not run any more, delete this one: moldau groups delete shared "
            f"--bootstrap-server {servers}"
        )
    offsets.close()


def test_topic_and_group_of_a_target_are_looked_at_in_its_own_cluster(cluster: Cluster):
    source = cluster.topic()
    with Cluster(settings={"auto.create.topics.enable": "false"}) as other:
        sink = other.topic("only-there")
        servers = other.bootstrap_servers
        wanted = spec(cluster.bootstrap_servers, source, f"{sink}, bootstrap_servers: '{servers}'", "group: far")
        check_cluster(wanted)
        with pytest.raises(PreflightError, match=f"topic '{source}' does not exist on {servers}"):
            check_cluster(spec(cluster.bootstrap_servers, source, f"{source}, bootstrap_servers: '{servers}'"))
        with closing(GroupOffsets(ClusterAccess(servers), "far")) as offsets:
            note = pipeline_metadata("shop", "shop", "worker-7", None, [])
            offsets.commit({TopicPartition(sink, 0): 0}, metadata_of(1, note.text()))
        with pytest.raises(PreflightError, match=rf"group 'far' shows .* 'shop' is.*--bootstrap-server {servers}$"):
            check_cluster(wanted)


def test_two_names_of_one_cluster_are_refused(cluster: Cluster):
    """These texts decide whether a target writes to a source of its pipeline, and where its rows are."""
    servers, topic, sink = cluster.bootstrap_servers, cluster.topic(), cluster.topic()
    other = servers.replace("127.0.0.1", "localhost")
    for names in ((servers, other), (other, servers)):
        with pytest.raises(PreflightError) as refused:
            check_cluster(spec(names[0], topic, f"{sink}, bootstrap_servers: '{names[1]}'"))
        assert str(refused.value) == (
            f"{names[0]} and {names[1]} are one cluster: write its `bootstrap_servers`, or its "
            "`cluster`, in the same way everywhere"
        )
    check_cluster(spec(servers, topic, f"{sink}, bootstrap_servers: '{servers}'"))


def test_a_task_tries_a_lost_broker_as_long_as_the_pipeline_says():
    """A task's client is new, and would give up after the time limit of a first contact."""
    times = times_of(spec("b:1", more="first_contact_timeout: 1 second\nretry_timeout: 1 minute"))
    assert times.of(ClusterAccess("b:1")) == ClusterAccess(
        "b:1", first_contact_timeout_ms=60_000, retry_timeout_ms=60_000
    )


def page_with(sink: str, name: str, directory: Path) -> PipelineSpec:
    return parse_spec(
        f"name: {name}\nbootstrap_servers: a:1\nsource: {{topic: s, format: string}}\n"
        f"sql: select value from source\nsink: {{{sink}}}\n",
        file_name="spec.yaml",
        directory=directory,
    )


@pytest.mark.parametrize(
    ("sink", "release"),
    [
        ("path: out", "delete {directory}/out/.moldau-owner-shop"),
        ("delta: out", "delete {directory}/out/.moldau-owner-shop"),
        ("sqlite: a.db, table: t", "delete the row of 't' in moldau_owners"),
    ],
)
def test_a_place_of_another_pipeline_is_refused(tmp_path: Path, sink: str, release: str):
    """The first pipeline that wrote there owns it, also with another checkpoint."""
    shop, other = (page_with(sink, name, tmp_path) for name in ("shop", "shops"))
    for spec in (shop, other):
        check_owner(spec, spec.queries[0])
    assert list(tmp_path.iterdir()) == []
    for spec in (shop, other, shop):
        spec.queries[0].target.claim(spec.name)
    check_owner(shop, shop.queries[0])
    with pytest.raises(PreflightError) as refused:
        check_owner(other, other.queries[0])
    key = sink.partition(":")[0]
    assert str(refused.value).endswith(
        f"belongs to the pipeline 'shop': name another place with `{key}`, or, if that pipeline does not write there "
        f"any more, {release.format(directory=tmp_path)}"
    )
    assert str(refused.value).startswith("spec.yaml:5: `sink`: ")


@pytest.mark.parametrize("sink", ["path: out", "delta: out", "sqlite: a.db, table: t"])
def test_a_place_is_not_that_of_a_pipeline_whose_name_begins_the_name_of_its_owner(tmp_path: Path, sink: str):
    """Names may have dots: `shop.eu` is another pipeline than `shop`."""
    of_eu, shop = (page_with(sink, name, tmp_path) for name in ("shop.eu", "shop"))
    of_eu.queries[0].target.claim(of_eu.name)
    check_owner(of_eu, of_eu.queries[0])
    with pytest.raises(PreflightError, match=r"belongs to the pipeline 'shop\.eu': name another place"):
        check_owner(shop, shop.queries[0])


def test_a_topic_is_made_once(cluster: Cluster):
    for _ in range(2):
        make_topic(spec(cluster.bootstrap_servers), "letters", partitions=1)
    assert cluster.record_counts("letters") == {0: 0}


def test_a_group_s_offsets_are_committed_and_read_back(cluster: Cluster):
    topic = cluster.topic(partitions=2)
    cluster.produce(topic, "a", "b", partition=1)
    offsets = GroupOffsets(ClusterAccess(cluster.bootstrap_servers), "g")
    offsets.commit({TopicPartition(topic, 1): 1})
    assert offsets.bounds([topic]) == {TopicPartition(topic, 0): (0, 0), TopicPartition(topic, 1): (0, 2)}
    assert offsets.bounds(["none"]) == {}
    assert cluster.lag("g") == 1
    offsets.close()


def test_a_checkpoint_keeps_its_id_and_its_query(tmp_path: Path):
    first = claim_checkpoint(tmp_path, {"sql": "select a, 'x  y'", "schema": None}, pipeline="p")
    # nothing was planned yet: a first SQL that Spark rejects may be corrected
    assert claim_checkpoint(tmp_path, {"sql": "select b, 'x  y'", "schema": None}, pipeline="p") == first
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    assert claim_checkpoint(tmp_path, {"sql": "select b,\n    'x  y'", "schema": None}, pipeline="p") == first
    for query in ({"sql": "select b, 'x y'", "schema": None}, {"sql": "select b, 'x  y'", "schema": "a int"}):
        with pytest.raises(CheckpointError, match=r"changed since the checkpoint .* name another directory"):
            claim_checkpoint(tmp_path, query, pipeline="p")


def test_a_directory_of_sparks_own_file_sink_is_refused(tmp_path: Path):
    check_target(tmp_path / "none")
    (tmp_path / "_spark_metadata").mkdir()
    with pytest.raises(TargetError, match="name another directory"):
        check_target(tmp_path)


def test_a_lost_broker_is_one_line_and_then_one_every_ten_seconds():
    lines = io.StringIO()
    with ProgressDisplay({"pipeline": "p"}, Console(file=lines)) as display:
        lost = SupervisedState("p", 1, 10, None, 5, "running", trouble="cannot reach a:1: connection refused")
        for _ in range(1_000):
            display.show([lost])
        display.show([SupervisedState("p", 1, 10, 0, 5, "running")])
    said = [line for line in lines.getvalue().splitlines() if "running" in line]
    assert len(said) == 2
    assert said[0].endswith("; cannot reach a:1: connection refused")
    assert said[1].endswith("last batch 5 ms")


def test_without_a_terminal_a_line_comes_on_change_and_once_a_minute():
    """A run under systemd would write 190,000 equal lines a day."""
    lines, now = io.StringIO(), [0.0]
    still = SupervisedState("p", 1, 10, 0, 5, "running")

    def said_in(seconds: int, *states: SupervisedState) -> int:
        before = lines.getvalue().count("running")
        for second in range(seconds):
            now[0] += 1.0
            display.show([states[second % len(states)]])
        return lines.getvalue().count("running") - before

    with ProgressDisplay({"pipeline": "p"}, Console(file=lines), clock=lambda: now[0]) as display:
        assert said_in(1, still) == 1
        assert said_in(600, still) == 10
        assert said_in(10, *(msgspec.structs.replace(still, records_read=number) for number in range(10))) == 10
        assert said_in(2, msgspec.structs.replace(still, records_read=99)) == 1


def test_the_last_lines_of_a_run_do_not_repeat_the_error_that_follows():
    lines = io.StringIO()
    failed = SupervisedState("p", 1, 10, 0, 5, "failed", trouble="[CAST_INVALID_INPUT] 'x' is no INT")
    with ProgressDisplay({"pipeline": "p"}, Console(file=lines)) as display:
        display.show([failed])
        display.show([failed], force=True)
    assert lines.getvalue().count("CAST_INVALID_INPUT") == 1


def test_the_last_line_of_a_query_comes_once_and_at_once():
    lines = io.StringIO()
    running = SupervisedState("p", 0, 0, 2, 0, "running")
    finished = SupervisedState("p", 1, 2, 0, 5, "finished")
    with ProgressDisplay({"pipeline": "p"}, Console(file=lines), clock=lambda: 0.0) as display:
        display.show([running])
        display.show([finished], force=True)
        display.show([finished], force=True)
    told = [line.split(",")[0] for line in lines.getvalue().splitlines()]
    assert told == ["pipeline: p", "p: running", "p: finished"]
