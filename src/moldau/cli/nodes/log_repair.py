"""`moldau log repair|strays`: repairs damaged logs that prevent a start, and lists partitions set aside."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers
from moldau.cli.output import CommandError, print_rows

if TYPE_CHECKING:
    from moldau.ports import Disk


def add_verbs(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    repair = verbs.add_parser(
        "repair",
        help="show damage that prevents the start of a broker, and cut it off",
        description="Shows where logs are damaged that refuse the start of their broker, which must be stopped. With "
        "--execute each of them ends at its first damage; what lies behind is kept in files named .cut-OFFSET.",
        examples=("moldau log repair moldau-data", "moldau log repair moldau-data --execute"),
    )
    repair.add_argument("directory", type=Path, help="a log directory, one of log.dirs")
    repair.add_argument("--execute", action="store_true", help="do it, instead of showing it")
    repair.set_defaults(run=repair_directory)

    strays = verbs.add_parser("strays", help="list, adopt or delete partitions that no topic is known for")
    stray_verbs = strays.add_subparsers(metavar="VERB", required=True)
    listing = stray_verbs.add_parser(
        "list", help="show the strays of a log directory", examples=("moldau log strays list moldau-data",)
    )
    listing.add_argument("directory", type=Path, help="a log directory, one of log.dirs")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=list_strays)
    example = "orders-0.0123456789abcdef0123456789abcdef-stray"
    for verb, help_text, run in (
        ("adopt", "make strays the partitions that they were, of a topic that was created again", adopt_strays),
        ("delete", "delete strays with all their records", delete_strays),
    ):
        parser = stray_verbs.add_parser(
            verb, help=help_text, examples=(f"moldau log strays {verb} moldau-data {example}",)
        )
        parser.add_argument("directory", type=Path, help="a log directory, one of log.dirs; its broker is stopped")
        parser.add_argument("name", nargs="+", help="as `moldau log strays list` shows it")
        parser.set_defaults(run=run)


def repair_directory(arguments: argparse.Namespace) -> int:
    """Exit code 0 if nothing is damaged or all is repaired; 1 if damage was only shown."""
    from moldau.shell.io.dry_run import DryRunDisk
    from moldau.shell.node import repair

    with locked(arguments.directory) as disk:
        count = 0
        wanted: Disk = disk if arguments.execute else DryRunDisk(disk)
        for sentence in repair.repair_directory(wanted, now_ms=_now_ms()):
            count += 1
            print(sentence if arguments.execute else f"would have {sentence}")
    if not count:
        print("no damage that would prevent a start")
    elif not arguments.execute:
        print("nothing was changed: --execute does it")
    return 1 if count and not arguments.execute else 0


def list_strays(arguments: argparse.Namespace) -> int:
    from moldau.shell.io.disk import OsDisk
    from moldau.shell.node import repair

    _check_is_log_directory(arguments.directory)
    found = repair.list_strays(OsDisk(str(arguments.directory)))
    rows = [{"name": name, "bytes": size} for name, size in found]
    print_rows(rows, ("name", "bytes"), as_json=arguments.json, empty="no strays")
    return 0


def adopt_strays(arguments: argparse.Namespace) -> int:
    from moldau.shell.node import repair

    def adopt(disk: Disk, name: str) -> str:
        return f"adopted {name} as {repair.adopt_stray(disk, name, now_ms=_now_ms())}"

    return _for_each(arguments, adopt)


def delete_strays(arguments: argparse.Namespace) -> int:
    from moldau.shell.node import repair

    def delete(disk: Disk, name: str) -> str:
        repair.delete_stray(disk, name)
        return f"deleted {name}"

    return _for_each(arguments, delete)


def _for_each(arguments: argparse.Namespace, work: Callable[[Disk, str], str]) -> int:
    with locked(arguments.directory) as disk:
        for name in arguments.name:
            print(work(disk, name))
    return 0


@contextmanager
def locked(directory: Path) -> Iterator[Disk]:
    """The disk port of a log directory that no broker uses. Turns errors inside the block into CommandErrors."""
    from moldau.cli.nodes.up import explained_failures
    from moldau.shell.io.disk import OsDisk
    from moldau.shell.node.directories import LOCK_FILE

    _check_is_log_directory(directory)
    with explained_failures(directory):
        disk = OsDisk(str(directory))
        release = disk.lock(LOCK_FILE)
    try:
        with explained_failures(directory):
            yield disk
    finally:
        release()


def _check_is_log_directory(directory: Path) -> None:
    from moldau.shell.node.storage_format import META_PROPERTIES

    if not (directory / META_PROPERTIES).is_file() and not (directory / "__cluster_metadata-0").is_dir():
        raise CommandError(f"{directory} is no log directory: there is no {META_PROPERTIES} in it")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
