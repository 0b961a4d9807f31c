"""docs/reference/command-line.md lists the existing commands."""

from __future__ import annotations

from pathlib import Path

from moldau.cli import commands, reference

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_that_of_the_commands() -> None:
    written = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert written == reference.page(), "run: python -m moldau.cli.reference > docs/reference/command-line.md"


def test_every_command_stands_in_a_group_of_the_help() -> None:
    grouped = [name for _, names in commands.COMMAND_GROUPS for name in names]
    assert grouped == [module.__name__.rpartition(".")[2] for module in commands.MODULES]
    assert "more:" not in commands.build_parser().format_help()
