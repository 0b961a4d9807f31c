"""A running pipeline while something else fails: it continues afterwards, and reports the failure."""

from __future__ import annotations

import inspect
import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import polars
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from rich.console import Console

from moldau.errors import MoldauError
from moldau.products.pipelines.checkpoints.checkpoint import unfinished_batch
from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.products.pipelines.running.failing_record import RecordSearch
from moldau.products.pipelines.running.query_progress import QueryProgress
from moldau.products.pipelines.running.runner import run_pipeline
from moldau.products.pipelines.running.stopping import AS_ONE_SECONDS
from moldau.products.pipelines.spec.spec import PipelineSpec, load_spec, parse_spec
from moldau.spark.queries.supervised_state import SupervisedState
from tests.spark.running_queries import active_queries
from tests.support.postgresql import PostgresqlServer

MOST_LOOKS = 3_000
"""The limit of a run that hangs: ten minutes of looks."""


class Steps:
    """Does one step after the other while a pipeline of one query runs: each when the state is the expected one. After
    the last step the run is asked to stop."""

    def __init__(self, *steps: tuple[Callable[[SupervisedState], bool], Callable[[], object]]) -> None:
        self._steps = [*steps]
        self._looks = 0
        self.troubles: list[str] = []
        self.states: list[str] = []

    def show(self, states: Sequence[SupervisedState]) -> None:
        (state,) = states
        self.states.append(state.state)
        self._looks += 1
        assert self._looks < MOST_LOOKS, state
        if state.trouble is not None:
            self.troubles.append(state.trouble)
        if self._steps and self._steps[0][0](state):
            self._steps.pop(0)[1]()
            if not self._steps:
                signal.raise_signal(signal.SIGTERM)


def nothing() -> None:
    pass


@pytest.fixture
def run_through(spark, bootstrap_servers, tmp_path):
    """`run_through(text, steps)`: runs a pipeline until its steps are done; gives the last state."""

    def run(text: str, steps: Steps, more: str = "", name: str = "pipe", **bounds: float) -> SupervisedState:
        head = f"name: {name}\nbootstrap_servers: {bootstrap_servers}\ncheckpoint: state\n{more}"
        spec = parse_spec(head + text, file_name="spec.yaml", directory=tmp_path)
        with open(os.devnull, "w") as nowhere:
            bounds = {"retry_first_seconds": 0.3, **bounds}
            (state,) = run_pipeline(spec, console=Console(file=nowhere), onlookers=[steps], **bounds)
        return state

    return run


@pytest.mark.slow
def test_a_restart_that_finds_no_target_is_a_failure_like_any_other(run_through, new_topic, produce, tmp_path: Path):
    source, out = new_topic(), tmp_path / "out"
    produce(source, [(None, b"a")])

    def take_the_target_away() -> None:
        out.rename(tmp_path / "kept")
        out.write_text("no directory")
        produce(source, [(None, b"b")])

    def bring_it_back() -> None:
        out.unlink()
        (tmp_path / "kept").rename(out)

    steps = Steps(
        (lambda state: state.records_read == 1, take_the_target_away),
        (lambda state: "(3 of 4)" in (state.trouble or ""), bring_it_back),
        (lambda state: state.records_read == 2, nothing),
    )
    spec = f"source: {{topic: {source}, format: string}}\nsql: select value from source\nsink: {{path: out}}\n"
    assert run_through(spec, steps).state == "stopped"
    assert any("out is not a directory; started again in" in trouble for trouble in steps.troubles)
    assert sorted(polars.read_parquet(out)["value"].to_list()) == ["a", "b"]


def take_larger_records(servers: str, topic: str) -> None:
    entry = ConfigEntry("max.message.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    admin.incremental_alter_configs([wanted])[wanted].result(30)


def spec_of_numbers(source: str, letters: str) -> str:
    return f"""
source: {{topic: {source}, format: json, schema: n int, dead_letters: {letters}}}
sql: select n from source
sink: {{path: out}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["a record that is too large", "a checkpoint that takes no file"])
def test_dead_letters_that_cannot_be_kept_are_kept_later(
    run_through, new_topic, produce, read_back, bootstrap_servers, tmp_path: Path, trouble: str
):
    source, letters, value = new_topic(), new_topic(**{"max.message.bytes": "2000"}), b"no JSON"
    in_the_way = tmp_path / "state" / ".dead-letters.json.tmp"
    if trouble == "a record that is too large":
        value *= 1_000
        expected = rf"the dead letters of pipeline pipe are not kept in the topic {letters}: .*max\.message\.bytes"
        mend = partial(take_larger_records, bootstrap_servers, letters)
    else:
        in_the_way.mkdir(parents=True)
        expected, mend = (
            r"pipeline pipe .*/state/dead-letters\.json cannot be written: Is a directory",
            in_the_way.rmdir,
        )
    produce(source, [(None, b'{"n":1}'), (None, value)])
    steps = Steps(
        (lambda state: state.trouble is not None, lambda: produce(source, [(None, b'{"n":2}')])),
        (lambda state: state.records_read == 3, mend),
        (lambda state: state.trouble is None and state.dead_letters == 1, nothing),
    )
    assert run_through(spec_of_numbers(source, letters), steps).state == "stopped"
    assert re.search(f"{expected}.*; trying for another", steps.troubles[0])
    assert [value for _, value in read_back(letters)] == [value]
    assert sorted(polars.read_parquet(tmp_path / "out")["n"].to_list()) == [1, 2]


@pytest.mark.slow
def test_dead_letters_that_are_never_kept_end_the_query(run_through, new_topic, produce):
    source, letters = new_topic(), new_topic(**{"max.message.bytes": "2000"})
    produce(source, [(None, b"no JSON" * 1_000)])
    steps = Steps((lambda state: False, nothing))
    with pytest.raises(MoldauError, match=f"(?s)`sink`: the dead letters of pipeline pipe .* {letters}: .*max.message"):
        run_through(spec_of_numbers(source, letters), steps, "retry_timeout: 2 seconds\n")
    assert len(steps.troubles) > 1


@pytest.mark.slow
@pytest.mark.parametrize("most", [4_000_000, 2**31 - 1])
def test_the_topic_of_dead_letters_takes_what_the_source_holds(
    run_spec, new_topic, new_name, produce, read_back, bootstrap_servers, most: int
):
    source, letters = new_topic(**{"max.message.bytes": str(most)}), new_name("letters")
    spec, large = spec_of_numbers(source, letters), b"x" * 3_900_000
    produce(source, [(None, b"no JSON")])
    assert run_spec(spec)[0].dead_letters == 1
    producer = Producer({"bootstrap.servers": bootstrap_servers, "message.max.bytes": 4_000_000})
    producer.produce(source, large)
    assert producer.flush(30) == 0
    assert run_spec(spec)[0].dead_letters == 1
    assert [value for _, value in read_back(letters)] == [b"no JSON", large]


def slow_spec(source: str, seconds: int) -> str:
    """Each of its rows takes that long."""
    return f"""
source: {{topic: {source}, format: string}}
sql: select value, reflect('java.lang.Thread', 'sleep', {seconds * 1_000}L) as slept from source
sink: {{path: out}}
"""


@pytest.mark.slow
def test_a_stop_waits_for_the_batch_that_is_being_written(spark, run_through, new_topic, produce, tmp_path: Path):
    source, jobs = new_topic(), spark.sparkContext.statusTracker()
    produce(source, [(None, b"a")])
    state = run_through(slow_spec(source, 5), Steps((lambda state: bool(jobs.getActiveStageIds()), nothing)))
    assert (state.state, state.records_read) == ("stopped", 1)
    assert polars.read_parquet(tmp_path / "out")["value"].to_list() == ["a"]


def test_a_stop_cuts_a_batch_after_two_minutes_or_as_soon_as_it_is_told(
    spark, run_through, new_topic, produce, tmp_path: Path
):
    assert inspect.signature(run_pipeline).parameters["stop_within_seconds"].default == 120
    source, jobs = new_topic(), spark.sparkContext.statusTracker()
    produce(source, [(None, b"a")])
    steps = Steps((lambda state: bool(jobs.getActiveStageIds()), nothing))
    state = run_through(slow_spec(source, 60), steps, stop_within_seconds=0.5)
    assert (state.state, state.records_read) == ("stopped", 0)
    assert list((tmp_path / "out").glob("*.parquet")) == []


@pytest.mark.slow
def test_a_second_signal_cuts_the_batch_that_is_being_written(spark, run_through, new_topic, produce, tmp_path: Path):
    source, jobs = new_topic(), spark.sparkContext.statusTracker()
    produce(source, [(None, b"a")])
    again = threading.Timer(2 * AS_ONE_SECONDS, os.kill, (os.getpid(), signal.SIGTERM))
    steps = Steps((lambda state: bool(jobs.getActiveStageIds()), again.start))
    state = run_through(slow_spec(source, 60), steps)
    again.join(60)
    assert (state.state, state.records_read, steps.states[-2]) == ("stopped", 0, "stopping")
    assert list((tmp_path / "out").glob("*.parquet")) == []


@pytest.mark.slow
def test_a_second_signal_ends_the_wait_for_a_database_that_is_away(
    run_through, new_topic, produce, postgresql: PostgresqlServer, tmp_path: Path
):
    source, log = new_topic(), tmp_path / "state" / "driver.log"
    produce(source, [(None, b"a")])

    def take_the_target_away() -> None:
        postgresql.stop()
        produce(source, [(None, b"b")])

    again = threading.Timer(2 * AS_ONE_SECONDS, os.kill, (os.getpid(), signal.SIGTERM))
    steps = Steps(
        (lambda state: state.records_read == 1, take_the_target_away),
        (lambda state: log.exists() and "batch 1 is tried again" in log.read_text("utf-8"), again.start),
    )
    spec = f"""
source: {{topic: {source}, format: string}}
sql: select value from source
sink: {{postgresql: "{postgresql.url}", table: cut}}
"""
    try:
        state = run_through(spec, steps)
    finally:
        postgresql.start()
    again.join(60)
    assert (state.state, state.records_read, steps.states[-2]) == ("stopped", 1, "stopping")


def test_a_batch_waits_for_the_next_multiple_of_the_interval_and_a_stop_does_not(
    spark, run_through, new_topic, produce, tmp_path: Path
):
    """The next one is in the year 2052."""
    source = new_topic()
    produce(source, [(None, b"a")])

    def waits(_state: SupervisedState) -> bool:
        return any(query.status().message() == "Waiting for next trigger" for query in active_queries(spark))

    steps = Steps(
        (lambda state: state.records_read == 1, lambda: produce(source, [(None, b"b")])),
        (lambda state: state.lag == 1 and waits(state), nothing),
    )
    spec = f"source: {{topic: {source}, format: string}}\nsql: select value from source\nsink: {{path: out}}\n"
    state = run_through(spec, steps, "batch_interval: 10000 days\n")
    assert (state.state, state.records_read, state.lag) == ("stopped", 1, 1)
    assert polars.read_parquet(tmp_path / "out")["value"].to_list() == ["a"]


def spec_of(text: str, bootstrap_servers: str, directory: Path) -> PipelineSpec:
    head = f"name: pipe\nbootstrap_servers: {bootstrap_servers}\ncheckpoint: state\n"
    return parse_spec(head + text, file_name="spec.yaml", directory=directory)


@pytest.fixture
def failure_of(spark, bootstrap_servers, tmp_path: Path):
    """`failure_of(text)`: runs a failing pipeline until it is given up; gives its message."""

    def run(text: str) -> str:
        spec = spec_of(text, bootstrap_servers, tmp_path)
        with open(os.devnull, "w") as nowhere, pytest.raises(PipelineFailedError) as failure:
            run_pipeline(spec, once=True, console=Console(file=nowhere), retry_first_seconds=0.01)
        return str(failure.value)

    return run


CAST = "select cast(value as int) as n from source"
BY_KEY = "select value as key, sum(cast(value as int)) as value from source group by value"
OF_A_GROUP = "select 'k' as key, 10 / (count(*) - 5) as value from source group by 'k'"
JOINED = "select cast(s.value as int) as n from source s left join names t on t.name = s.value"
UNION = "select cast(value as int) as n from (select value from source union all select value from names)"


def spec_over(topic: str, sql: str, names: str) -> str:
    """With the topic as `source`, and another one as `names`, which is a table in a join."""
    table, out = sql == JOINED, f"topic: {names}-out, mode: update, key: key" if "group by" in sql else "path: out"
    rows = f"{{topic: {names}, format: json, schema: name string, as: table}}"
    read = rows if table else f"{{topic: {names}, format: string}}"
    return f"""
sources:
  source: {{topic: {topic}, format: string}}
{f"  names: {read}" if "names" in sql else ""}
flows:
  made: {sql}
targets:
  made: {{{out}}}
"""


def fill(produce: Callable[..., None], topic: str) -> None:
    """The first record that is not a number has the offset 17 of partition 1; others follow it."""
    produce(topic, [(b"a", b"1")] * 40)
    produce(topic, [(b"b", b"1")] * 17 + [(b"user 7", b"no number"), (b"c", b"none")], partition=1)
    produce(topic, [(b"d", b"not one")], partition=2)


@pytest.mark.slow
@pytest.mark.parametrize("sql", [CAST, BY_KEY, JOINED, UNION])
def test_a_cast_that_fails_names_the_first_record_that_does_not_fit(
    failure_of, new_topic, produce, tmp_path: Path, sql: str
):
    topic, names = new_topic(3), new_topic()
    new_topic(name=f"{names}-out")
    fill(produce, topic)
    produce(names, [(b"a", b'{"name": "no number"}')] if sql == JOINED else [(b"a", b"1")])
    told = failure_of(spec_over(topic, sql, names))
    assert "[CAST_INVALID_INPUT]" in told
    assert "; in `flows.made` (spec.yaml:9), line 1 of its SQL: `" in told
    assert told.endswith(f"`; in batch 0, at the record {topic}-1 offset 17, key `user 7`")
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.slow
def test_what_fails_is_a_group_and_no_record_where_it_is_computed_of_a_whole_group(failure_of, new_topic, produce):
    topic, names = new_topic(), new_topic()
    new_topic(name=f"{names}-out")
    produce(topic, [(None, b"1")] * 5)
    told = failure_of(spec_over(topic, OF_A_GROUP, names))
    assert "[DIVIDE_BY_ZERO]" in told
    assert told.endswith(f"; in batch 0: {topic}-0 offsets 0 to 4")


def searched(progress: QueryProgress, report: str) -> str:
    """The message when the search is over."""
    pause = threading.Event()
    progress.begin_search(report)
    while progress.is_searching():
        pause.wait(0.1)
    return progress.explain(report)


@pytest.mark.slow
def test_where_the_records_are_gone_meanwhile_the_batch_is_told(
    spark, failure_of, new_topic, produce, bootstrap_servers, tmp_path: Path
):
    topic = new_topic(3)
    fill(produce, topic)
    text = spec_over(topic, CAST, "none")
    assert "offset 17" in failure_of(text)
    spec = spec_of(text, bootstrap_servers, tmp_path)
    (query,) = spec.queries
    checkpoint = {path: path.read_bytes() for path in query.checkpoint.rglob("*") if path.is_file()}
    report = f"[CAST_INVALID_INPUT] no number SQLSTATE: 22018\n== SQL (line 1, position 8) ==\n{CAST}\n"
    with closing(QueryProgress(spark, spec, query, "")) as progress:
        assert searched(progress, report).endswith(f"at the record {topic}-1 offset 17, key `user 7`")
        other = report.replace("CAST_INVALID_INPUT", "CAST_OVERFLOW")
        assert searched(progress, other).endswith(f"{topic}-1 offsets 0 to 18, {topic}-2 offsets 0 to 0")
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    gone = [TopicPartition(topic, number, end) for number, end in ((1, 19), (2, 1))]
    for future in admin.delete_records(gone).values():
        future.result(30)
    with closing(QueryProgress(spark, spec, query, "")) as progress:
        assert searched(progress, report).endswith(f"{topic}-1 offsets 0 to 18, {topic}-2 offsets 0 to 0")
    assert checkpoint == {path: path.read_bytes() for path in query.checkpoint.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_search_that_takes_too_long_or_fails_names_no_record(
    spark, failure_of, new_topic, produce, bootstrap_servers, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    topic, pause = new_topic(3), threading.Event()
    fill(produce, topic)
    text = spec_over(topic, CAST, "none")
    failure_of(text)
    spec = spec_of(text, bootstrap_servers, tmp_path)
    batch = unfinished_batch(spec.queries[0].checkpoint)
    search = RecordSearch(spark, spec, spec.queries[0], batch, lambda report: True, within_seconds=0.0)
    assert not search.is_running()
    assert search.found is None
    spec = spec_of(text.replace("cast(value as int)", "no_such_column"), bootstrap_servers, tmp_path)
    search = RecordSearch(spark, spec, spec.queries[0], batch, lambda report: True)
    while search.is_running():
        pause.wait(0.1)
    assert search.found is None
    assert "the record that fails in pipe.made was not found: spec.yaml:9: `flows.made`: [UNRESOLVED" in caplog.text


FAILS_ONCE = """\
import os
import time

from pyspark import pipelines as dp
from pyspark.sql.functions import udf
from pyspark.sql.types import StringType

from moldau.spark.pipelines import pipeline, source

pipeline("once", bootstrap_servers="{servers}")
source("lines", topic="{topic}", format="string")


@udf(StringType())
def checked(value):
    if os.path.exists("{seen}"):
        time.sleep(600)
    open("{seen}", "w").close()
    raise ValueError(value)


@dp.table(format="parquet")
def lines_checked():
    return spark.readStream.table("lines").select(checked("value").alias("value"))
"""


def test_a_stop_ends_the_search_for_a_record(spark, new_topic, produce, bootstrap_servers, tmp_path: Path):
    """It would take ten minutes for each record."""
    topic, module, jobs = new_topic(), tmp_path / "once.py", spark.sparkContext.statusTracker()
    module.write_text(FAILS_ONCE.format(servers=bootstrap_servers, topic=topic, seen=tmp_path / "seen"), "utf-8")
    produce(topic, [(None, b"a")])

    def is_at_work(state: SupervisedState) -> bool:
        return "the record that fails is looked for" in (state.trouble or "") and bool(jobs.getActiveStageIds())

    steps, pause = Steps((is_at_work, nothing)), threading.Event()
    with open(os.devnull, "w") as nowhere:
        (state,) = run_pipeline(load_spec(module), console=Console(file=nowhere), onlookers=[steps])
    assert (state.state, state.records_read) == ("stopped", 0)
    assert steps.troubles[0].startswith(f"ValueError: a; in {module}:19; in batch 0: {topic}-0 offsets 0 to 0; ")
    for _ in range(MOST_LOOKS):
        if not jobs.getActiveStageIds():
            break
        pause.wait(0.1)
    assert not jobs.getActiveStageIds()
