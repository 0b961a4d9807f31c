"""Every example of README.md, docs/use and parts of docs/reference runs as written, against a real broker.

Examples that need Spark run in tests/spark/pipelines/test_guides.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.products.sql.language.parser.script import parse_script
from moldau.transport.profiles import profile_properties
from tests.cluster.guides import ADDRESS, REGISTRY, Block, blocks
from tests.support.running_broker import RunningBroker
from tests.support.talking_process import TalkingProcess

RUN_BY_CI = re.compile(r"git clone|make demo|make test|pip install")
"""`.ci/run` itself runs these lines."""
ALL = [block for block in blocks() if not block.needs_spark]
PYTHON = [block for block in ALL if block.language in ("python", "diff")]
SHELL = [block for block in ALL if block.language == "sh"]
EXAMPLE_TIMEOUT_S = 120


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """The `moldau up` of the examples, on a free port."""
    broker = RunningBroker("--listen", "127.0.0.1:0", "--console-port", "0", cwd=tmp_path_factory.mktemp("guides"))
    broker.wait_until_ready()
    run_line("moldau topics create orders", broker.address, Path.cwd())
    run_line("echo coffee | moldau produce orders", broker.address, Path.cwd())
    yield broker
    assert broker.stop() == 0


@pytest.fixture(scope="module")
def registry(broker: RunningBroker) -> Iterator[str]:
    """The `moldau registry` of the examples; gives its address."""
    words = ["-m", "moldau.cli.main", "registry", "--port", "0", "-b", broker.address]
    process = TalkingProcess([sys.executable, *words])
    assert process.wait_for(lambda line: line.startswith("registry "), time.monotonic() + 60), process.output
    yield process.output[-1].split()[1].rstrip("/")
    process.kill()


def run_line(line: str, address: str, directory: Path) -> None:
    """A command line of an example, with the test's broker in place of the default one."""
    command = line.partition("  #")[0].strip()
    if not RUN_BY_CI.search(command) and not command.startswith(("moldau up", "moldau registry")):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        result = subprocess.run(
            ["bash", "-c", f"{command} -b {address}"],
            cwd=directory,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=EXAMPLE_TIMEOUT_S,
            check=False,
        )
        assert result.returncode == 0, command + result.stdout + result.stderr


def test_each_example_is_of_a_kind_that_is_run() -> None:
    kinds = {"python", "diff", "sh", "yaml", "json", "toml", "properties", "sql"}
    assert {block.language for block in blocks()} <= kinds
    assert len(PYTHON) >= 14
    assert len(SHELL) >= 4


STATEMENTS = [block for block in blocks() if block.language == "sql"]


@pytest.mark.parametrize("block", STATEMENTS, ids=lambda block: block.id)
def test_the_statements_of_a_guide_are_read(block: Block) -> None:
    """Those that Spark runs are golden cases of `tests/spark/sql`."""
    assert parse_script(block.text, {"least": "1"})


PROFILES = [block for block in blocks() if block.language == "toml" and block.text.startswith("[profiles.")]


@pytest.mark.parametrize("block", PROFILES, ids=lambda block: block.id)
def test_a_profile_of_the_guides_is_read(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.touch(mode=0o600)
    file.write_text(block.text)
    name = block.text.partition("]")[0].removeprefix("[profiles.")
    assert profile_properties(file, name)["bootstrap.servers"].startswith("kafka-1.example.org:909")


def test_secrets_of_a_profile_are_references(tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.touch(mode=0o600)
    file.write_text(PROFILES[0].text)
    properties = profile_properties(file, "production")
    assert properties["security.protocol"] == "SASL_SSL"
    assert properties["sasl.password"] == "${env:KAFKA_PASSWORD}"


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.id)
def test_an_example_in_python_runs(
    block: Block, broker: RunningBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = block.text.replace(ADDRESS, broker.address)
    if REGISTRY in source:
        source = source.replace(REGISTRY, request.getfixturevalue("registry"))
    if block.language == "diff":  # the reader's state afterwards
        source = "".join(line[1:] for line in source.splitlines(keepends=True) if not line.startswith("-"))
    is_suite = "def test_" in source
    script = tmp_path / ("test_example.py" if is_suite else "example.py")
    script.write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"] if is_suite else [sys.executable]
    result = subprocess.run(
        [*command, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=EXAMPLE_TIMEOUT_S, check=False
    )
    assert result.returncode == 0, source + result.stdout + result.stderr
    if is_suite:
        assert re.search(r"\b[1-9]\d* passed", result.stdout), result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.id)
def test_an_example_of_commands_runs(block: Block, broker: RunningBroker, tmp_path: Path) -> None:
    for line in block.text.splitlines():
        run_line(line, broker.address, tmp_path)
