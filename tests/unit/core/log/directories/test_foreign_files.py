"""Foreign files in a log directory are skipped, and never removed."""

from __future__ import annotations

from pathlib import Path

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.settings import LogSettings
from moldau.shell.io.disk import OsDisk
from moldau.types import TopicPartition

ID = "0123456789abcdef0123456789abcdef"


def test_a_file_with_the_name_of_a_partition_is_no_partition(tmp_path: Path) -> None:
    (tmp_path / "notes-1").write_text("mine")
    (tmp_path / "orders-0").mkdir()
    directory = LogDirectory.open(OsDisk(str(tmp_path)))
    opened = [log.topic_partition for log in directory.open_all(lambda topic: LogSettings(), 0)]
    assert opened == [TopicPartition("orders", 0)]
    assert (tmp_path / "notes-1").read_text() == "mine"


def test_only_what_was_set_aside_is_removed_at_a_start(tmp_path: Path) -> None:
    foreign = ("please-delete", "our-future", "orders-0.backup-delete", f"orders.{ID}-future")
    for name in (*foreign, f"orders-0.{ID}-delete", f"orders-1.{ID}-future"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    (tmp_path / f"orders-2.{ID}-delete").write_text("a file")
    LogDirectory.open(OsDisk(str(tmp_path)))
    left = {path.name for path in tmp_path.iterdir() if not path.name.endswith("-checkpoint")}
    assert left == {*foreign, f"orders-2.{ID}-delete"}
