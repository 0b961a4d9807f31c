"""The size of the product: non-blank lines of `src/moldau`, by package. `python -m tests.tidy.count_lines`.

Replication and the client are counted separately: they are later features.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "moldau"
APART = ("core/raft/", "core/replication/leader.py", "core/replication/follower.py", "client/")
MOVED = ("client/admin/",)
"""Moved from elsewhere: this is not an addition."""


def counted() -> tuple[Counter[str], Counter[str]]:
    """Lines by package: those that count, and the separate ones."""
    product: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        lines = sum(1 for line in path.read_text("utf-8").splitlines() if line.strip())
        parts = name.split("/")
        package = "/".join(parts[:2]) if len(parts) > 2 else parts[0] if len(parts) > 1 else "(root)"
        (apart if name.startswith(APART) and not name.startswith(MOVED) else product)[package] += lines
    return product, apart


def main() -> None:
    product, apart = counted()
    for lines, title in ((product, "counted"), (apart, "apart")):
        print(f"{title}: {lines.total():,}")
        for package in sorted(lines):
            print(f"  {lines[package]:6,}  {package}")


if __name__ == "__main__":
    main()
