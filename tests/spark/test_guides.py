"""The examples of README.md and docs/use that need Spark run as they stand there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.testing.pipelines import pipeline_tests
from tests.cluster.guides import ADDRESS, Block, blocks

ALL = [block for block in blocks() if block.needs_spark]


def of(language: str) -> list[Block]:
    return [block for block in ALL if block.language == language]


def test_a_spark_program_runs(
    spark: object,
    new_topic: Callable[..., str],
    produce: Callable[..., None],
    read_back: Callable[[str], list[tuple[bytes | None, bytes | None]]],
    bootstrap_servers: str,
    tmp_path: Path,
) -> None:
    """In this session: `getOrCreate` gives the one that there is."""
    topic, copy = new_topic(), new_topic(2)
    produce(topic, [(b"k", b"v")])
    programs = [block for block in of("python") if "pytest" not in block.text and "@dp." not in block.text]
    assert programs
    for block in programs:
        source = block.text.replace(ADDRESS, bootstrap_servers).replace('"orders"', f'"{topic}"')
        source = source.replace('"copy"', f'"{copy}"').replace('"checkpoints', f'"{tmp_path}')
        names: dict[str, object] = {}
        exec(compile(source, block.id, "exec"), names)
        assert "orders" in names
    assert read_back(copy) == [(b"k", b"v")]


def test_the_pipelines_of_the_guide_run_and_their_lag_is_shown(
    spark: object,
    new_topic: Callable[..., str],
    produce: Callable[..., None],
    bootstrap_servers: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each whole page of the guide, with each command of its block, in their order. In this process and its session: a
    session of its own costs half a minute of two cores."""
    for topic in ("orders", "orders-per-minute", "spenders", "customers"):
        new_topic(name=topic)
    produce("orders", [(None, b'{"user": "ann", "amount": 2.5}'), (None, b"no JSON")])
    for page in of("yaml"):
        text = page.text.replace(ADDRESS, bootstrap_servers)
        name = text.partition("\n")[0].removeprefix("name: ")
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    (module,) = [block.text for block in of("python") if "@dp." in block.text]
    (tmp_path / "visits.py").write_text(module.replace(ADDRESS, bootstrap_servers), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown = []
    for line in "".join(block.text for block in of("sh")).splitlines():
        words = line.partition("  #")[0].split()
        assert words[0] == "moldau", line
        address = [] if words[1] == "pipeline" else ["-b", bootstrap_servers]
        code = main([*words[1:], *address])
        said = capsys.readouterr()
        assert code == 0, line + said.out + said.err
        shown.append(said.out)
    (tests,) = [block.text for block in of("python") if "pytest" in block.text]
    names: dict[str, Callable[[object], None]] = {}
    exec(compile(tests, "guide", "exec"), names)
    for case in pipeline_tests("minutes.yaml"):
        names["test_minutes"](case)
    assert "no JSON" in shown[-1], shown  # what did not parse is kept
    assert [path.suffix for path in (tmp_path / "out" / "big").iterdir()] == [".parquet"]
