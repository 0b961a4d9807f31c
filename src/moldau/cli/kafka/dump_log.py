"""`kafka-dump-log`: prints files of a log directory, with the readers of `moldau log dump` (`cli/dump`)."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Final

from moldau.cli.dump import index_checks, indexes
from moldau.cli.dump.batches import Decoder, DumpSettings, Gaps, as_text, dump_batches, read_file
from moldau.cli.kafka.client_settings import number_of
from moldau.cli.kafka.options import ArgumentError, Arguments, Option, check_required, split_list
from moldau.core.metadata.snapshot import BOOTSTRAP_CHECKPOINT

SUMMARY = (
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly "
    "corrupt log segment."
)

_DECODER_CLASSES: Final = "org.apache.kafka.tools.api."
_WHOLE_FILE = "2147483647"

OPTIONS = (
    Option("files", "The files, with commas between them.", "file1, file2, ...", is_required=True),
    Option("print-data-log", "Print the keys and values of records; any decoder does this, too."),
    Option("deep-iteration", "Print the records, not batches alone; --print-data-log does this, too."),
    Option("skip-record-metadata", "Print keys and values alone. Nothing is printed of control records."),
    Option(
        "max-bytes", "Only the whole batches among the first bytes of a file.", "size", kind="int", default=_WHOLE_FILE
    ),
    Option("max-message-size", "The largest batch that an index may point to.", "size", kind="int", default="5242880"),
    Option("index-sanity-check", "Say only whether a start would take the index as it is, or make it again."),
    Option("verify-index-only", "Say only what does not fit in indexes, without their entries."),
    Option("offsets-decoder", "Read the records as those of __consumer_offsets."),
    Option("transaction-log-decoder", "Read the records as those of __transaction_state."),
    Option("cluster-metadata-decoder", "Read the records as those of the metadata log."),
    Option("share-group-state-decoder", "Read the records as those of __share_group_state."),
    Option("remote-log-metadata-decoder", "Not served: the records of __remote_log_metadata."),
    Option(
        "key-decoder-class",
        f"What reads keys: {_DECODER_CLASSES}StringDecoder, IntegerDecoder or LongDecoder.",
        "class",
        is_argument_optional=True,
        default=f"{_DECODER_CLASSES}StringDecoder",
    ),
    Option(
        "value-decoder-class",
        "What reads values, as --key-decoder-class.",
        "class",
        is_argument_optional=True,
        default=f"{_DECODER_CLASSES}StringDecoder",
    ),
)

_DECODERS: Final[tuple[tuple[str, Decoder], ...]] = (
    ("offsets-decoder", "offsets"),
    ("transaction-log-decoder", "transactions"),
    ("cluster-metadata-decoder", "metadata"),
    ("share-group-state-decoder", "share"),
)
"""The decoders in order of precedence, if several are given."""


def _number(code: str) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        if len(data) < struct.calcsize(code):
            raise ValueError(f"java.nio.BufferUnderflowException: {len(data)} bytes")
        return str(struct.unpack_from(code, data)[0])

    return read


_READERS: Final[dict[str, Callable[[bytes], str]]] = {
    f"{_DECODER_CLASSES}StringDecoder": as_text,
    f"{_DECODER_CLASSES}IntegerDecoder": _number(">i"),
    f"{_DECODER_CLASSES}LongDecoder": _number(">q"),
}


def run(arguments: Arguments) -> int:
    check_required(arguments, "files")
    dump = _Dump(arguments)
    for name in split_list(arguments.required("files")) or [""]:
        print(f"Dumping {name}")
        try:
            dump.file(Path(name), name)
        except FileNotFoundError as error:
            raise ArgumentError(f"java.nio.file.NoSuchFileException: {error.filename}") from error
        except OSError as error:
            raise ArgumentError(f"{error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise ArgumentError(str(error)) from error
    dump.tell_findings()
    return 0


class _Dump:
    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._findings = index_checks.IndexFindings()
        self._gaps: dict[str, Gaps] = {}

    @cached_property
    def _settings(self) -> DumpSettings:
        """Raises ArgumentError, but as in Kafka's tool only when a file needs the settings."""
        arguments = self._arguments
        if arguments.has("remote-log-metadata-decoder"):
            raise ArgumentError("--remote-log-metadata-decoder is not served: Moldau has no tiered storage")
        with_contents = arguments.has(
            "print-data-log", "key-decoder-class", "value-decoder-class", *(name for name, _ in _DECODERS)
        )
        max_bytes = number_of(arguments, "max-bytes")
        return DumpSettings(
            with_records=with_contents or arguments.has("deep-iteration"),
            with_contents=with_contents,
            decoder=next((decoder for name, decoder in _DECODERS if arguments.has(name)), "plain"),
            skips_record_metadata=arguments.has("skip-record-metadata"),
            max_bytes=None if max_bytes == int(_WHOLE_FILE) else max_bytes,
            ends_at_bad_records=True,
            read_key=_reader(arguments, "key-decoder-class"),
            read_value=_reader(arguments, "value-decoder-class"),
        )

    def file(self, path: Path, name: str) -> None:
        """Prints one file. Raises OSError, ValueError and ProtocolError."""
        suffix = path.name[path.name.rfind(".") :] if "." in path.name else ""
        if suffix in (".log", ".checkpoint"):
            self._print(self._segment(path, suffix, self._settings))
        elif suffix in (".index", ".timeindex"):
            self._index(path, suffix)
        elif suffix == ".txnindex":
            self._print(indexes.dump_transaction_index(path))
        elif suffix == ".snapshot":
            try:
                self._print(indexes.dump_producer_snapshot(path))
            except ValueError as error:
                print(error, file=sys.stderr)
        else:
            print(f"Ignoring unknown file {name}", file=sys.stderr)

    def tell_findings(self) -> None:
        for line in self._findings.lines():
            print(line, file=sys.stderr)
        for name, gaps in self._gaps.items():
            if gaps.found:
                print(f"Non-consecutive offsets in {name}", file=sys.stderr)
            for offset, following in sorted(gaps.found.items()):
                print(f"  {offset} is followed by {following}", file=sys.stderr)

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            print(line)

    def _segment(self, path: Path, suffix: str, settings: DumpSettings) -> Iterable[str]:
        if suffix == ".log":
            yield f"Log starting offset: {_base_offset(path)}"
        elif path.name == BOOTSTRAP_CHECKPOINT:
            yield "KRaft bootstrap snapshot"
        else:
            offset, _, epoch = path.stem.partition("-")
            if not (offset.isdecimal() and epoch.isdecimal()):
                raise ValueError(f"{path}: no snapshot has such a name")
            yield f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"
        gaps = self._gaps.setdefault(str(path.absolute()), Gaps())
        yield from dump_batches(read_file(path), settings, name=path.name, gaps=gaps)

    def _index(self, path: Path, suffix: str) -> None:
        _base_offset(path)
        read_file(path.with_suffix(".log"))  # raises if it is missing
        if suffix == ".index" and not any(indexes.offset_entries(path)):
            print(f"{path} is empty.")
            return
        if self._arguments.has("index-sanity-check"):
            index_checks.check_sanity(path)
            print(f"{path} passed sanity check.")
            return
        if suffix == ".index":
            lines = self._findings.check_offset_index(path, number_of(self._arguments, "max-message-size"))
        else:
            lines = self._findings.check_time_index(path)
        for line in lines:
            if not self._arguments.has("verify-index-only"):
                print(line)


def _base_offset(path: Path) -> int:
    digits = path.name.partition(".")[0]
    if not digits.isdecimal():
        raise ValueError(f'java.lang.NumberFormatException: For input string: "{digits}"')
    return int(digits)


def _reader(arguments: Arguments, name: str) -> Callable[[bytes], str]:
    wanted = arguments.required(name)
    if wanted not in _READERS:
        served = ", ".join(sorted(_READERS))
        raise ArgumentError(f"Failed to load decoder class {wanted}: no Java runs here, served are {served}")
    return _READERS[wanted]
