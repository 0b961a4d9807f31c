"""Every example works as its README says: its commands run in order, with the printed output."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.testing import Cluster
from tests.cluster.guides import ADDRESS, ROOT

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/README.md"))
ONE_COMMAND_S = 300


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


def blocks_of(readme: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, and the output of the last one; empty if the block has none."""
    blocks = re.findall(r"^```(sh|text)\n(.*?)^```$", readme, re.M | re.S)
    for place, (kind, text) in enumerate(blocks):
        if kind == "sh":
            yield text, next((told for follows, told in blocks[place + 1 : place + 2] if follows == "text"), "")


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_does_what_its_readme_says(
    spark: object,
    servers: str,
    example: Path,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`moldau pipeline` runs in this process and its session: another session costs half a minute of two cores."""
    directory = tmp_path / example.name
    shutil.copytree(example, directory, ignore=shutil.ignore_patterns("out", "checkpoints", "result.png"))
    for spec in (path for pattern in ("*.yaml", "*.py") for path in directory.glob(pattern)):
        spec.write_text(spec.read_text(encoding="utf-8").replace(ADDRESS, servers), encoding="utf-8")
    monkeypatch.chdir(directory)
    readme = (example / "README.md").read_text(encoding="utf-8")
    if "POSTGRESQL" in readme:
        monkeypatch.setenv("POSTGRESQL", request.getfixturevalue("postgresql").url)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for commands, printed in blocks_of(readme):
        shown = ""
        for command in commands.splitlines():
            words = shlex.split(command.partition(" #")[0])
            if words[:2] == ["moldau", "pipeline"]:
                assert main(words[1:]) == 0, capsys.readouterr().err
            else:
                command = command.replace("moldau topics create", f"moldau topics create -b {servers}")
                command = command.replace("moldau produce", f"moldau produce -b {servers}")
                done = subprocess.run(
                    ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=ONE_COMMAND_S
                )
                assert done.returncode == 0, done.stderr
                shown = done.stdout
        assert shown == printed or not printed
    assert (directory / "result.png").stat().st_size > 5_000
