"""The version of a build, read from CHANGELOG.md; hatchling calls `read_version` (pyproject.toml).

The topmost heading decides. `## 1.2.0 (date)`: that release. `## Unreleased`: the development version of the minor
release behind the newest one. As a program it prints the version; with `--notes`, the section under the heading.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"


def version_of(changelog: str) -> str:
    """Raises ValueError where the topmost heading is neither a release nor `Unreleased`."""
    headings = re.findall(r"^## +(\S+)", changelog, re.MULTILINE)
    releases = [heading for heading in headings if re.fullmatch(r"\d+\.\d+\.\d+", heading)]
    if headings[:1] == releases[:1] != []:
        return releases[0]
    if headings[:1] != ["Unreleased"]:
        raise ValueError("CHANGELOG.md begins with neither `## X.Y.Z` nor `## Unreleased`")
    major, minor, _ = releases[0].split(".") if releases else ("0", "0", "0")
    return f"{major}.{int(minor) + 1}.0.dev0"


def read_version() -> str:
    """Of this tree."""
    return version_of(CHANGELOG.read_text(encoding="utf-8"))


def notes_of(changelog: str) -> str:
    """The section under the topmost heading, without the heading."""
    return re.split(r"^## .*$", changelog, flags=re.MULTILINE)[1].strip() + "\n"


if __name__ == "__main__":
    print(notes_of(CHANGELOG.read_text(encoding="utf-8")) if sys.argv[1:] == ["--notes"] else read_version())
