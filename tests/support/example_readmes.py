"""The READMEs of examples/: each command runs in a copy of its folder, in order, and prints what the README says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.cluster.guides import ADDRESS, REGISTRY, ROOT

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/README.md"))
ONE_COMMAND_S = 300
PICTURE = "result.png"
MADE_BY_A_RUN = ("out", "checkpoints", "__pycache__", PICTURE)
PIPELINE, SQL = ("moldau", "pipeline"), ("moldau", "sql")
ON_SPARK = (PIPELINE, SQL)
VARIES = {
    r"127\.0\.0\.1:\d+": "the address of a broker or a registry: tests have their own ports",
    r"\bin \d+(\.\d+)? (ms|s)\b": "how long something took",
}
"""What need not be equal in the printed output, and why. All other output is equal in each run: data comes from a fixed
seed."""


def blocks_of(readme: str) -> Iterator[tuple[list[str], str]]:
    """The commands of each `sh` block, and the `text` block after it: the output of the last command, or empty if that
    is not shown."""
    blocks = re.findall(r"^```(sh|text)\n(.*?)^```$", readme, re.M | re.S)
    for place, (kind, text) in enumerate(blocks):
        if kind == "sh":
            printed = next((shown for follows, shown in blocks[place + 1 : place + 2] if follows == "text"), "")
            yield text.splitlines(), printed


def readme_of(example: Path) -> str:
    return (example / "README.md").read_text(encoding="utf-8")


def runs_on_spark(example: Path) -> bool:
    return any(command in ON_SPARK for command in _commands_of(example))


def runs_sql(example: Path) -> bool:
    return SQL in _commands_of(example)


def _commands_of(example: Path) -> set[tuple[str, ...]]:
    """The first two words of each."""
    return {words_of(line)[:2] for lines, _ in blocks_of(readme_of(example)) for line in lines}


def needs_registry(example: Path) -> bool:
    return any(REGISTRY in path.read_text(encoding="utf-8") for path in example.glob("*.py"))


def words_of(command: str) -> tuple[str, ...]:
    return tuple(shlex.split(command, comments=True))


def without_what_varies(text: str) -> str:
    return re.sub("|".join(VARIES), "...", text)


def copy_of(example: Path, parent: Path, servers: str, registry: str = REGISTRY) -> Path:
    """Its files, without what a run makes, with the addresses of the test's own servers."""
    directory = parent / example.name
    shutil.copytree(example, directory, ignore=shutil.ignore_patterns(*MADE_BY_A_RUN))
    for path in directory.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(ADDRESS, servers).replace(REGISTRY, registry), encoding="utf-8")
    return directory


def run_readme(
    directory: Path,
    servers: str,
    *,
    environment: Mapping[str, str] | None = None,
    run_on_spark: Callable[[list[str]], None] | None = None,
) -> None:
    """In a copy of an example. `run_on_spark` gets the words after `moldau` of such a command."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "MOLDAU_BOOTSTRAP_SERVER": servers, **(environment or {})}
    for commands, printed in blocks_of(readme_of(directory)):
        shown = ""
        for command in commands:
            words = words_of(command)
            if run_on_spark and words[:2] in ON_SPARK:
                run_on_spark(list(words[1:]))
                continue
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=directory,
                env=environment,
                capture_output=True,
                text=True,
                timeout=ONE_COMMAND_S,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            shown = done.stdout
        assert not printed or without_what_varies(shown) == without_what_varies(printed), shown
    assert (directory / PICTURE).stat().st_size > 5_000
