"""CHANGELOG.md alone has the name of a release, and a release is signed by a person."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import moldau

SOURCE = Path(__file__).resolve().parents[2] / "deploy" / "changelog_version.py"
spec = importlib.util.spec_from_file_location("changelog_version", SOURCE)
changelog_version = importlib.util.module_from_spec(spec)
spec.loader.exec_module(changelog_version)


def test_the_package_has_the_version_of_the_changelog() -> None:
    assert moldau.__version__ == changelog_version.read_version()


@pytest.mark.parametrize(
    ("changelog", "version"),
    [
        ("# Changelog\n\n## Unreleased\n\n- a\n", "0.1.0.dev0"),
        ("# Changelog\n\n## 0.1.0 (2026-11-30)\n\n- a\n", "0.1.0"),
        ("# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- a\n", "0.2.0.dev0"),
        ("# Changelog\n\n## Unreleased\n\n## 2.10.3\n\n## 2.9.0\n", "2.11.0.dev0"),
        ("# Changelog\n\n## 2.10.3 (now)\n\n## 2.9.0\n", "2.10.3"),
    ],
)
def test_the_topmost_heading_is_the_version(changelog: str, version: str) -> None:
    assert changelog_version.version_of(changelog) == version


@pytest.mark.parametrize("changelog", ["", "# Changelog\n", "## Soon\n\n## 0.1.0\n", "## v1.0.0\n"])
def test_another_heading_is_refused(changelog: str) -> None:
    with pytest.raises(ValueError, match=r"neither `## X\.Y\.Z` nor `## Unreleased`"):
        changelog_version.version_of(changelog)


def test_the_notes_are_the_section_of_the_topmost_heading() -> None:
    changelog = "# Changelog\n\n## 0.2.0 (now)\n\n### Broker\n\n- a\n\n## 0.1.0\n\n- b\n"
    assert changelog_version.notes_of(changelog) == "### Broker\n\n- a\n"


class Checkout:
    """A repository with a changelog and the scripts of a release, and a home of gpg."""

    def __init__(self, folder: Path, gpg_home: Path) -> None:
        self._folder = folder
        self._environment = {**os.environ, "GNUPGHOME": str(gpg_home)}
        shutil.copytree(SOURCE.parent, folder / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / ".gitignore").write_text("dist/\n__pycache__/\n")
        self.run("git", "init", "-q")

    def commit_changelog(self, heading: str) -> None:
        (self._folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\n- a\n")
        self.run("git", "add", ".")
        self.run("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "Name it")

    def make_key(self) -> None:
        self.run("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "Holder <holder@example.org>", "ed25519")

    def release(self, step: str) -> str:
        """The last line that the step printed."""
        return self.run("deploy/release", step).splitlines()[-1]

    def run(self, *command: str) -> str:
        ended = subprocess.run(
            command, cwd=self._folder, env=self._environment, capture_output=True, text=True, timeout=60
        )
        return ended.stdout + ended.stderr

    @property
    def dist(self) -> Path:
        return self._folder / "dist"


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    gpg_home = Path(tempfile.mkdtemp(prefix="gpg-"))  # not tmp_path: the path of a socket has at most 107 bytes
    made = Checkout(tmp_path, gpg_home)
    yield made
    made.run("gpgconf", "--kill", "all")
    shutil.rmtree(gpg_home, ignore_errors=True)


def test_a_release_needs_a_heading_a_clean_tree_a_new_tag_and_a_key(checkout: Checkout) -> None:
    checkout.commit_changelog("Unreleased")
    assert "begins with 'Unreleased'" in checkout.release("check")
    checkout.commit_changelog("0.1.0 (2026-11-30)")
    assert "gpg has no secret key" in checkout.release("check")
    checkout.make_key()
    assert checkout.release("check") == "== check"
    (checkout.dist.parent / "new").touch()
    assert "not committed" in checkout.release("check")
    (checkout.dist.parent / "new").unlink()
    checkout.run("git", "tag", "v0.1.0")
    assert "the tag v0.1.0 exists" in checkout.release("check")


def test_the_signature_covers_each_file_of_the_release(checkout: Checkout) -> None:
    checkout.commit_changelog("0.1.0")
    checkout.dist.mkdir()
    for name in ("moldau-0.1.0.tar.gz", "moldau-0.1.0-py3-none-any.whl", "moldau-0.1.0.cdx.json"):
        (checkout.dist / name).write_text(name)
    assert "gpg has no secret key" in checkout.release("sign")
    assert not (checkout.dist / "SHA256SUMS.asc").exists()
    checkout.make_key()
    checkout.release("sign")
    sums = checkout.dist / "SHA256SUMS"
    assert [line.split()[1] for line in sums.read_text().splitlines()] == [
        "moldau-0.1.0-py3-none-any.whl",
        "moldau-0.1.0.cdx.json",
        "moldau-0.1.0.tar.gz",
    ]
    verify = ("gpg", "--batch", "--verify", "dist/SHA256SUMS.asc", "dist/SHA256SUMS")
    assert "Good signature" in checkout.run(*verify)
    sums.write_text(sums.read_text().replace("moldau", "mouldy"))
    assert "BAD signature" in checkout.run(*verify)
