"""Each example without a pipeline works as its README says: its commands run in order and print the shown output.

Examples on Spark run in tests/spark/pipelines/test_examples.py and tests/spark/sql/test_examples.py, in one session.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import Cluster
from tests.support.example_readmes import (
    EXAMPLES,
    VARIES,
    blocks_of,
    copy_of,
    needs_registry,
    run_readme,
    runs_on_spark,
    without_what_varies,
)
from tests.support.schema_registry import SchemaRegistry


@pytest.fixture
def servers() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def registry(servers: str) -> Iterator[str]:
    registry = SchemaRegistry(servers)
    yield registry.url
    registry.close()


@pytest.mark.slow
@pytest.mark.parametrize("example", [path for path in EXAMPLES if not runs_on_spark(path)], ids=lambda path: path.name)
def test_an_example_does_what_its_readme_says(
    servers: str, example: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if needs_registry(example):
        url = request.getfixturevalue("registry")
        run_readme(copy_of(example, tmp_path, servers, url), servers, environment={"MOLDAU_REGISTRY": url})
    else:
        run_readme(copy_of(example, tmp_path, servers), servers)


README = """
```sh
printf '%s' "$MOLDAU_BOOTSTRAP_SERVER" > result.png
head -c 6000 /dev/zero >> result.png; {command}
```

```text
12 records of 127.0.0.1:9092 in 0.4 s
```
"""


def readme_folder(tmp_path: Path, command: str) -> Path:
    (tmp_path / "README.md").write_text(README.replace("{command}", command), encoding="utf-8")
    return tmp_path


def test_a_time_and_an_address_may_differ_from_the_readme(tmp_path: Path) -> None:
    run_readme(readme_folder(tmp_path, "echo 12 records of 127.0.0.1:4711 in 17 ms"), "127.0.0.1:4711")
    assert (tmp_path / "result.png").read_text().startswith("127.0.0.1:4711")


@pytest.mark.parametrize("command", ["echo 13 records of 127.0.0.1:9092 in 0.4 s", "true", "false"])
def test_any_other_output_fails_the_example(tmp_path: Path, command: str) -> None:
    with pytest.raises(AssertionError):
        run_readme(readme_folder(tmp_path, command), "127.0.0.1:9092")


def test_what_varies_is_listed_with_its_reason() -> None:
    assert all(VARIES.values())
    assert without_what_varies("12 in 3 s windows") == "12 ... windows"
    assert without_what_varies("12 in 3 states") == "12 in 3 states"


def test_each_example_shows_its_output() -> None:
    silent = [
        path.name for path in EXAMPLES if not any(shown for _, shown in blocks_of((path / "README.md").read_text()))
    ]
    assert silent == []
