"""The pipelines that `moldau pipeline serve` finds in its directory, and the changes since its last look."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import IO

import pytest

from moldau.cli.pipelines.pipeline import command_with
from moldau.products.pipelines.checkpoints.checkpoint import claim_checkpoint
from moldau.products.pipelines.core.section import SpecError
from moldau.products.pipelines.serving.directory import Finding, SpecDirectory
from moldau.products.pipelines.serving.supervisor import ServedPipeline, _end_of, _running, take
from moldau.products.pipelines.spec.spec import load_spec
from tests.support.talking_process import line_of, running

SPEC = """\
name: {name}
bootstrap_servers: a:1
sources: {{orders: {{topic: orders, format: string}}}}
flows:
  all: {{sql_file: sql/all.sql}}
targets: {{all: {{path: "out/{name}"}}}}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "sql").mkdir()
    write(tmp_path / "sql" / "all.sql", "select value from orders")
    return tmp_path


SAME = "it means what it meant before"
_clock = iter(range(1, 1_000))


def write(file: Path, text: str) -> None:
    """With a distinct modification time: two writes may fall within one tick of the file system's clock."""
    file.write_text(text, "utf-8")
    second = 1_000_000_000 + next(_clock)
    os.utime(file, (second, second))


def told(specs: SpecDirectory) -> list[tuple[str, str | None, str]]:
    """Of each finding the file, the name of the pipeline to run, and the end of an error message, or SAME."""
    found = specs.look()
    return [
        (one.file.name, one.spec.name if one.spec else None, SAME if one.is_same else (one.refusal or "")[-40:])
        for one in found
    ]


def test_a_pipeline_is_found_once_and_again_when_it_means_something_else(directory: Path):
    write(directory / "b.yaml", SPEC.format(name="b"))
    write(directory / "a.yml", SPEC.format(name="a"))
    write(directory / "_shared.py", "what = 'no pipeline'")
    write(directory / "notes.txt", "no pipeline")
    specs = SpecDirectory(directory, {})
    assert told(specs) == [("a.yml", "a", ""), ("b.yaml", "b", "")]
    assert told(specs) == []
    write(directory / "a.yml", SPEC.format(name="a") + "# a comment\n")
    assert told(specs) == [("a.yml", "a", SAME)]
    assert told(specs) == []
    write(directory / "sql" / "all.sql", "select upper(value) as value from orders")
    assert told(specs) == [("a.yml", "a", ""), ("b.yaml", "b", "")]
    (directory / "b.yaml").unlink()
    assert told(specs) == [("b.yaml", None, "")]


def test_a_directory_that_is_gone_for_a_moment_ends_no_pipeline(
    directory: Path, tmp_path_factory: pytest.TempPathFactory
):
    write(directory / "a.yaml", SPEC.format(name="a"))
    specs = SpecDirectory(directory, {})
    assert told(specs) == [("a.yaml", "a", "")]
    away = tmp_path_factory.mktemp("away") / "pages"
    directory.rename(away)
    assert told(specs) == []
    away.rename(directory)
    (directory / "a.yaml").unlink()
    assert told(specs) == [("a.yaml", None, "")]


def test_an_invalid_file_is_reported_once_and_its_old_pipeline_stays(directory: Path):
    spec = directory / "a.yaml"
    write(spec, SPEC.format(name="a"))
    specs = SpecDirectory(directory, {})
    assert told(specs) == [("a.yaml", "a", "")]
    write(spec, SPEC.format(name="a").replace("format: string", "format: strong"))
    ((file, name, why),) = told(specs)
    assert (file, name) == ("a.yaml", None)
    assert why.endswith("not `strong`; did you mean `string`?")
    assert told(specs) == []
    write(spec, SPEC.format(name="a"))
    assert told(specs) == [("a.yaml", "a", SAME)], "it may have ended meanwhile"
    assert told(specs) == []
    write(spec, SPEC.format(name="a").replace("sql/all.sql", "sql/none.sql"))
    assert told(specs)[0][1] is None
    write(directory / "sql" / "none.sql", "select 1 as one from orders")
    assert told(specs) == [("a.yaml", "a", "")], "a pipeline that was refused is read at each look"


@pytest.mark.asyncio
async def test_a_pipeline_that_ended_runs_again_when_its_file_changes_whatever_the_change(
    directory: Path, capsys: pytest.CaptureFixture[str]
):
    """Its process ends at once here, by an unknown word of the command line."""
    file = directory / "a.yaml"
    write(file, SPEC.format(name="a"))
    specs, served = SpecDirectory(directory, {}), ServedPipeline(file, asyncio.Lock(), command_with(["--no-such-word"]))
    try:
        for while_it_runs in ([Finding(file, load_spec(file), is_same=True)], []):
            for finding in [*specs.look(), *specs.look(), *while_it_runs]:
                await take(served, finding)
            keeping = asyncio.all_tasks() - {asyncio.current_task()}
            _, going_on = await asyncio.wait(keeping, timeout=120)
            assert not going_on
            write(file, SPEC.format(name="a") + "# a comment\n")
    finally:
        await served.stop()
    told = ["a.yaml: runs a: a.all", "a.yaml: ended with exit code 2; it is run again when its file changes"]
    assert capsys.readouterr().out.splitlines() == 2 * told


DEAF = """\
import signal, socket, sys

from pyspark import pipelines as dp

from moldau.spark.pipelines import pipeline, source

pipeline("{name}", bootstrap_servers="a:1")
source("orders", topic="orders", format="string")
dp.create_sink("copy", "parquet", {{"path": "out/{name}"}})


@dp.append_flow(target="copy")
def copied():
    return spark.readStream.table("orders")


if "moldau.cli.pipelines.served" in sys.orig_argv:  # else `serve` reads the pipeline file
    test = socket.create_connection(("127.0.0.1", {port}))
    signal.signal(signal.SIGTERM, lambda *_: test.sendall(b"{name} is asked to end\\n"))
    test.sendall(b"{name} has begun\\n")
    print("{name}: running, ", flush=True)
    test.recv(1)
    sys.exit(0)
"""


def test_a_stop_asks_all_pipelines_at_once_also_while_a_changed_one_is_waited_for(tmp_path: Path):
    """A pipeline that ends when the test says so stands for a long batch."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(60)
    (port,) = listener.getsockname()[1:]
    specs = {name: DEAF.format(name=name, port=port) for name in ("a", "b")}
    for name, text in specs.items():
        write(tmp_path / f"{name}.py", text)
    with running([sys.executable, "-m", "moldau", "pipeline", "serve", str(tmp_path)]) as serving:
        connections = [listener.accept()[0] for _ in specs]
        said = [connection.makefile("r") for connection in connections]
        first, second = sorted(zip(map(line_of, said), said, connections, strict=True), key=lambda one: one[0])
        assert (first[0], second[0]) == ("a has begun\n", "b has begun\n")
        write(tmp_path / "a.py", specs["a"].replace("a:1", "a:2"))
        assert line_of(first[1]) == "a is asked to end\n"
        serving.terminate()
        assert line_of(second[1]) == "b is asked to end\n"
        for connection in connections:
            connection.sendall(b".")
        assert serving.wait(60) == 0
        assert [line_of(one) for one in said] == ["", ""], "asked once: a second time cuts a batch short"
    listener.close()


def test_a_pipeline_that_stops_slowly_delays_only_itself_under_a_new_name(tmp_path: Path):
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(60)
    (port,) = listener.getsockname()[1:]

    def begun() -> tuple[str, socket.socket, IO[str]]:
        connection = listener.accept()[0]
        said = connection.makefile("r")
        return line_of(said), connection, said

    slow, quick = (DEAF.format(name=name, port=port) for name in ("slow", "quick"))
    write(tmp_path / "quick.py", quick)
    write(tmp_path / "slow.py", slow)
    with running([sys.executable, "-m", "moldau", "pipeline", "serve", str(tmp_path)]) as serving:
        (_, quick_one, of_quick), (_, slow_one, of_slow) = sorted((begun(), begun()), key=lambda one: one[0])
        (tmp_path / "slow.py").rename(tmp_path / "anew.py")
        assert line_of(of_slow) == "slow is asked to end\n"
        write(tmp_path / "quick.py", quick.replace("a:1", "a:2"))
        assert line_of(of_quick) == "quick is asked to end\n"
        quick_one.sendall(b".")
        again = begun()
        slow_one.sendall(b".")
        anew = begun()
        assert (again[0], anew[0]) == ("quick has begun\n", "slow has begun\n")
        serving.terminate()
        for _, connection, said in (again, anew):
            assert line_of(said).endswith("is asked to end\n")
            connection.sendall(b".")
        assert serving.wait(60) == 0
    listener.close()


def test_two_pipelines_of_one_name_and_a_checkpoint_of_another_query_are_refused(directory: Path):
    write(directory / "a.yaml", SPEC.format(name="a"))
    write(directory / "b.yaml", SPEC.format(name="a"))
    specs = SpecDirectory(directory, {})
    assert [finding[:2] for finding in told(specs)] == [("a.yaml", "a"), ("b.yaml", None)]
    (query,) = load_spec(directory / "a.yaml").queries
    claim_checkpoint(query.checkpoint, query.step.facts(), pipeline="a")
    (query.checkpoint / "offsets").mkdir()
    (query.checkpoint / "offsets" / "0").touch()
    write(directory / "sql" / "all.sql", "select 2 as two from orders")
    assert told(specs)[0] == ("a.yaml", None, "begun: undo it, or `moldau pipeline reset`"[-40:])


def test_a_change_that_is_saved_while_the_pipeline_is_read_is_found_by_the_next_look(directory: Path):
    """The pipeline reads its text from a named pipe: it is read, and only then does the pipeline change."""
    write(directory / "a.yaml", SPEC.format(name="a").replace("sql/all.sql", "sql/pipe.sql"))
    os.mkfifo(directory / "sql" / "pipe.sql")

    def save_meanwhile() -> None:
        with open(directory / "sql" / "pipe.sql", "w") as pipe:
            write(directory / "a.yaml", SPEC.format(name="new"))
            pipe.write("select value from orders")

    editor = threading.Thread(target=save_meanwhile, daemon=True)
    editor.start()
    specs = SpecDirectory(directory, {})
    assert told(specs) == [("a.yaml", "a", "")]
    editor.join(30)
    assert told(specs) == [("a.yaml", "new", "")]


NO_JSON = ["!!binary aGk=", "!!set {a, b}", "{? [a, b] : c}", "!unknown x", "!!bool x", "!!int ''", "!!float ''"]
HOLDS_ITSELF = ["&self [*self]", "&self {a: [*self]}"]


@pytest.mark.parametrize("value", [*NO_JSON, *HOLDS_ITSELF])
def test_a_value_that_json_lacks_is_rejected_with_its_line_and_others_go_on(directory: Path, value: str):
    tests = f"\ntests:\n  odd:\n    given:\n      orders:\n        - {{value: {value}}}\n    expect: {{all: []}}\n"
    write(directory / "a.yaml", SPEC.format(name="a") + tests)
    write(directory / "b.yaml", SPEC.format(name="b"))
    odd, other = SpecDirectory(directory, {}).look()
    assert odd.spec is None
    assert other.spec is not None
    assert "a.yaml:12: `orders` has a value that JSON cannot hold" in str(odd.refusal), odd.refusal


def test_a_plain_equals_sign_is_a_text(directory: Path):
    tests = "\ntests:\n  odd:\n    given:\n      orders: [{value: =}]\n    expect: {all: []}\n"
    write(directory / "a.yaml", SPEC.format(name="a") + tests)
    (found,) = SpecDirectory(directory, {}).look()
    assert found.spec is not None
    assert found.spec.cases[0].given["orders"] == (({"value": "="},),)


def test_parameters_stand_in_lists_and_tests_too(directory: Path):
    targets = "targets: {all: {sqlite: a.db, table: all, mode: update, key: ['${KEY}']}}"
    tests = "\ntests:\n  one:\n    given:\n      orders: [{value: '${WHO}'}]\n    expect: {all: []}\n"
    spec = directory / "a.yaml"
    write(spec, SPEC.format(name="a").replace('targets: {all: {path: "out/a"}}', targets) + tests)
    found = load_spec(spec, {"KEY": "value", "WHO": "ann"})
    assert found.cases[0].given["orders"] == (({"value": "ann"},),)
    assert found.queries[0].target.key == ("value",)  # type: ignore[attr-defined]
    with pytest.raises(SpecError, match=r"`\$\{WHO\}` in `orders` has no value"):
        load_spec(spec, {"KEY": "value"})


def test_a_pipeline_that_prints_a_long_line_is_seen_to_run():
    async def run() -> None:
        code = "print('x' * 200_000); print('q: running, 1')"
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=PIPE)
        await _running(process)
        assert await _end_of(process) == 0

    asyncio.run(run())
