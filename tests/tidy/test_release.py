"""CHANGELOG.md alone has the name of a release."""

from __future__ import annotations

import importlib.util
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
