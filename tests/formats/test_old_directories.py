"""Each release's data directory opens, and clients see in it what they saw then."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.formats.directory import FOLDER, contents, opened

ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=[one.name for one in ARCHIVES])
def test_the_data_directory_of_a_release_opens(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    expected = json.loads(archive.with_suffix("").with_suffix(".json").read_text("utf-8"))
    with opened(tmp_path / "data") as cluster:
        seen = json.loads(json.dumps(contents(cluster)))
        assert {name: seen[name] for name in expected} == expected
        cluster.produce("orders", "a later version")
        assert b"a later version" in {record.value for record in cluster.records("orders")}


def test_there_are_directories_that_were_stopped_and_killed() -> None:
    assert {archive.name.rpartition("-")[2] for archive in ARCHIVES} >= {"stopped.tar.xz", "killed.tar.xz"}
