"""`moldau log dump FILE`: prints files of a log directory, without a broker. `log_repair` has the other subcommands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.arguments import STANDARD_INPUT, Subparsers, int64
from moldau.cli.nodes.log_repair import add_verbs
from moldau.cli.output import CommandError

if TYPE_CHECKING:
    from moldau.cli.dump.batches import Decoder

_TEXT_FILES = (
    "partition.metadata",
    "meta.properties",
    "quorum-state",
    ".kafka_cleanshutdown",
)


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("log", help="look into the files of a log directory, and repair them")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    dump = verbs.add_parser(
        "dump",
        help="print batches, records, indexes, snapshots and checkpoints as Kafka's dump-log does",
        description="Prints what files hold, as Kafka's dump-log tool does. A folder stands for its files.",
        examples=(
            "moldau log dump moldau-data/orders-0",
            "moldau log dump --print-data-log moldau-data/orders-0/00000000000000000000.log",
        ),
    )
    dump.add_argument("file", nargs="+", type=Path, help="- is a segment on standard input")
    dump.add_argument("--print-data-log", action="store_true", help="print the records too")
    decoder = dump.add_mutually_exclusive_group()
    decoder.add_argument(
        "--offsets-decoder",
        action="store_const",
        const="offsets",
        dest="decoder",
        help="the records too, as those of __consumer_offsets",
    )
    decoder.add_argument(
        "--cluster-metadata-decoder",
        action="store_const",
        const="metadata",
        dest="decoder",
        help="the records too, as those of the metadata log",
    )
    decoder.add_argument(
        "--transaction-log-decoder",
        action="store_const",
        const="transactions",
        dest="decoder",
        help="the records too, as those of __transaction_state",
    )
    decoder.add_argument(
        "--share-group-state-decoder",
        action="store_const",
        const="share",
        dest="decoder",
        help="the records too, as those of __share_group_state",
    )
    dump.add_argument("--skip-record-metadata", action="store_true", help="print only keys and values of records")
    dump.add_argument("--max-bytes", type=int64, metavar="N", help="only batches within the first N bytes of a segment")
    dump.add_argument("--deep-iteration", action="store_true", help="print the records too, without keys and values")
    dump.set_defaults(run=dump_files)
    add_verbs(verbs)


def dump_files(arguments: argparse.Namespace) -> int:
    """Exit code 0, or 1 if a file is damaged or unreadable; prints the other files in any case."""
    paths: list[Path] = []
    for path in arguments.file:
        if str(path) == STANDARD_INPUT:
            paths.append(path)
        elif path.is_dir():
            paths += sorted(child for child in path.iterdir() if child.is_file())
        elif path.is_file():
            paths.append(path)
        else:
            raise CommandError(f"there is no file {path}")
    problems = 0
    for path in paths:
        print(f"Dumping {'standard input' if str(path) == STANDARD_INPUT else path}")
        try:
            problems += _dump(path, arguments)
        except BrokenPipeError:
            raise  # the reader of our output has ended (`| head`): the file is fine
        except (OSError, ValueError) as error:
            print(f"moldau: {path}: {error}", file=sys.stderr)
            problems += 1
    return 1 if problems else 0


def _dump(path: Path, arguments: argparse.Namespace) -> int:
    """Prints one file; returns the number of its mismatched entries."""
    from moldau.cli.dump import indexes
    from moldau.errors import ProtocolError

    mismatches: list[str] = []
    lines: Iterable[str]
    if path.suffix in (".log", ".checkpoint") or ".log.cut-" in path.name or str(path) == STANDARD_INPUT:
        try:
            _print_segment(path, arguments)
        except ProtocolError as error:
            raise ValueError(str(error)) from error
        return 0
    if path.suffix == ".index":
        lines, mismatches = indexes.dump_offset_index(path)
    elif path.suffix == ".timeindex":
        lines, mismatches = indexes.dump_time_index(path)
    elif path.suffix == ".txnindex":
        lines = indexes.dump_transaction_index(path)
    elif path.suffix == ".snapshot":
        lines = indexes.dump_producer_snapshot(path)
    elif path.name in _TEXT_FILES or path.name.endswith("-checkpoint"):
        lines = indexes.dump_text_file(path)
    else:
        lines = []
        print(f"Ignoring unknown file {path}", file=sys.stderr)
    for line in lines:
        print(line)
    for line in mismatches:
        print(line, file=sys.stderr)
    return len(mismatches)


def _print_segment(path: Path, arguments: argparse.Namespace) -> None:
    from moldau.cli.dump.batches import DumpSettings, dump_batches, read_file
    from moldau.core.metadata.snapshot import BOOTSTRAP_CHECKPOINT

    if str(path) == STANDARD_INPUT:
        content = sys.stdin.buffer.read() if sys.stdin is not None else b""
    else:
        content = read_file(path)
    if path.name == BOOTSTRAP_CHECKPOINT:
        print("KRaft bootstrap snapshot")
    elif path.suffix == ".checkpoint":
        offset, _, epoch = path.stem.partition("-")
        print(f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}")
    elif path.suffix == ".log":
        print(f"Log starting offset: {int(path.stem)}")
    decoder: Decoder = arguments.decoder or "plain"
    with_contents = arguments.print_data_log or arguments.decoder is not None
    settings = DumpSettings(
        with_records=with_contents or arguments.deep_iteration,
        with_contents=with_contents,
        decoder=decoder,
        skips_record_metadata=arguments.skip_record_metadata,
        max_bytes=arguments.max_bytes,
    )
    for line in dump_batches(content, settings):
        print(line)
