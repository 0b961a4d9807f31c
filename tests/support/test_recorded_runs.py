"""Finds the files that have changed since a recorded run, in a git repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.recorded_runs import RecordedRun, changed_since, clean_commit


def run_git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    done = subprocess.run(
        ["git", "-C", str(root), *who, *arguments], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    run_git(tmp_path, "init", "--quiet")
    for name in ("src/one.py", "docs/guide.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("first\n")
    run_git(tmp_path, "add", ".")
    run_git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def test_committed_uncommitted_and_new_files_have_changed(repository):
    first = clean_commit("src", root=repository)
    assert changed_since(first, "src", root=repository) == frozenset()
    (repository / "src/one.py").write_text("second\n")
    assert clean_commit("src", root=repository) == ""
    assert changed_since(first, "src", root=repository) == {"src/one.py"}
    run_git(repository, "commit", "--quiet", "--all", "--message", "second")
    (repository / "src/two.py").touch()
    assert changed_since(first, "src", root=repository) == {"src/one.py", "src/two.py"}


def test_files_elsewhere_do_not_count(repository):
    first = clean_commit("src", root=repository)
    (repository / "docs/guide.md").write_text("second\n")
    assert changed_since(first, "src", root=repository) == frozenset()
    assert clean_commit("src", root=repository) == first


@pytest.mark.parametrize("commit", ["", "0" * 40, "no commit"])
def test_a_commit_that_the_history_lacks_says_nothing(repository, commit):
    assert changed_since(commit, "src", root=repository) is None


def test_a_folder_without_git_says_nothing(tmp_path):
    assert changed_since("HEAD", "src", root=tmp_path) is None
    assert clean_commit("src", root=tmp_path) == ""


def test_a_suite_runs_again_when_a_file_that_it_notices_has_changed(repository):
    run = RecordedRun(repository / "src/run.json", ("src",), ("src/run.json",), repository)
    assert "missing" in run.reason_to_run()
    run.record(run.clean_commit())
    assert run.reason_to_run() == ""
    (repository / "src/one.py").write_text("second\n")
    assert "1 files changed" in run.reason_to_run()
    assert run.reason_to_run().endswith("src/one.py")


def test_a_run_of_files_that_change_meanwhile_is_not_recorded(repository):
    run = RecordedRun(repository / "run.json", ("src",), root=repository)
    before = run.clean_commit()
    (repository / "src/one.py").write_text("second\n")
    run.record(before)
    run.record(run.clean_commit())
    assert run.commit == ""
