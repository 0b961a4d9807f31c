"""Files as a source: each is read once, from a directory or an object store.

    sources:
      orders: {files: incoming, format: json, schema: "user string, amount double"}
      visits: {files: "logs/*.csv", format: csv, schema: "at timestamp, page string", header: "at,page"}
      clicks: {files: "s3://lake/clicks/*.json", format: json, schema: "page string"}

A record is a line (formats json, csv and text), or a row (parquet). A file is read as it is when it is first seen, so
move it into the directory when it is complete. Columns: those of the schema, or `value` (text), or those of the Parquet
files; and `_file`, the file of the row.

Spark reads local files, and splits large ones over several tasks. It cannot read object stores without an additional
jar, so files there are a feed (`object_files`).
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from moldau.errors import MoldauError
from moldau.products.pipelines.core.failures import FlowError, what_failed
from moldau.products.pipelines.core.keys import Choice, PathOrAddress
from moldau.products.pipelines.core.places import one_spelling
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes
from moldau.products.pipelines.formats.format import FORMAT
from moldau.products.pipelines.formats.given import json_text
from moldau.products.pipelines.formats.text import HEADER, SCHEMA, SEPARATOR, CsvFormat, JsonFormat
from moldau.products.pipelines.sources.feed_source import check_types
from moldau.products.pipelines.sources.file_patterns import is_match, is_pattern, python_patterns, split_pattern
from moldau.products.pipelines.sources.object_files import (
    ObjectFilesFeed,
    check_store,
    listed,
    parquet_columns,
)
from moldau.products.pipelines.sources.object_form import ObjectFilesError
from moldau.products.pipelines.sources.records import BAD_RECORDS, DEAD_LETTERS_TOPIC, RecordSource
from moldau.products.pipelines.sources.source import EVENT_TIME, MAX_FILES, SpecHead, read_anew

if TYPE_CHECKING:
    from moldau.products.pipelines.checkpoints.checkpoint import BatchSpan
    from moldau.spark import DataFrame, SparkSession, StructType

TEXT, PARQUET = "text", "parquet"
FORMATS = (JsonFormat.NAMED_BY, CsvFormat.NAMED_BY, TEXT, PARQUET)
FILES = PathOrAddress("files", "A directory, or a pattern of files, on disk or in an [object store](files.md).")
FILE_FORMAT = Choice(FORMAT, FORMATS, "How a file becomes [rows](files.md).")
ANY_AGE = "36500d"
"""Spark silently skips files a week older than the newest one that it has seen (`maxFileAge`)."""

LOGS = "found-files"
"""A directory in the pipeline's checkpoint."""

_FILE = "_metadata.file_path as _file"
_IS_NO_PATTERN = (
    "if(_file rlike '%5B|%5D|%7B|%7D|%3F|%5C|[*]', cast(raise_error(concat('rename the file ', _file, "
    "': Spark takes its name for a pattern, and reads other files twice')) as boolean), true)"
)
"""For a file with such a name, Spark 4.3 does not fail, but returns rows of other files of the batch."""

_ODD_LETTERS = re.compile(r"[\[\]{}?\\*]")
_WITHOUT_CHECKSUMS = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""Hadoop looks for a checksum file next to each local file, and cannot build its name from one with a colon
(HADOOP-14217)."""


_NO_TYPE = re.compile(r"(?i)uuid|float16|time\(.*milliseconds")
"""Parquet's logical types that Spark 4.3 cannot read."""


class FilesError(MoldauError):
    """The directory of the files does not exist, or a file in it has a name that Spark cannot read."""


class FileSource(RecordSource, frozen=True, kw_only=True):
    """The source of `files`: a LocalFileSource or StoredFileSource. `files`: a directory or a pattern
    (`file_patterns`), as a path or an address. `max_files`: per micro-batch."""

    NAMED_BY = (FILES,)
    KEYS = (FILE_FORMAT, SCHEMA, SEPARATOR, HEADER, BAD_RECORDS, DEAD_LETTERS_TOPIC, MAX_FILES)
    GIVEN_COLUMNS = "value string, _file string"
    RECORD_COLUMNS: ClassVar = {"_file": "_file"}
    ADDRESS: ClassVar = {"moldau.file": "_file"}

    files: str
    max_files: int | None = None

    @classmethod
    def parse(cls, source: Section, head: SpecHead) -> FileSource:
        record_format = FILE_FORMAT.of(source)
        decoded = cls.parse_format(source, record_format, head)
        if record_format == TEXT and source.has(EVENT_TIME):
            source.refuse(EVENT_TIME, f"has no meaning for the format {TEXT}")
        common = cls.parse_common(source)
        cls.check_event_time(source, decoded["decoder"], common["event_time"])
        files = FILES.of(source, head.directory)
        max_files = cls.parse_limit(source, MAX_FILES)
        if "://" not in files:
            return LocalFileSource(files=files, max_files=max_files, format=record_format, **decoded, **common)
        if is_pattern(files.split("/")[2]):
            source.refuse("files", "must name one bucket: a pattern may only come after it")
        logs = head.checkpoint / LOGS
        return StoredFileSource(files=files, max_files=max_files, logs=logs, format=record_format, **decoded, **common)

    def describe(self) -> str:
        return f"files of {self.files} ({self.format})"

    def facts(self) -> Facts:
        return {"files": self.files, **self.format_facts()}

    def places(self) -> tuple[str, ...]:
        """Empty for text, which no target writes. A pattern for all files of a folder is that folder."""
        folder, _, name = self.files.rpartition("/")
        return (one_spelling(folder if name in ("*", "*.parquet") else self.files),) if self.format == PARQUET else ()

    def plain_columns(self, loaded: DataFrame) -> Sequence[str]:
        return [quoted(name) for name in loaded.columns if name not in self.RECORD_COLUMNS]

    def given(self, records: Sequence[object], first: int) -> list[dict[str, object]]:
        """A text is a line. A mapping has `_value`, the line, and `_file`."""
        if self.format == PARQUET:
            return super().given(records, first)
        mappings = [record if isinstance(record, Mapping) else {"_value": record} for record in records]
        for mapping in mappings:
            if set(mapping) - {"_value", "_file"}:
                raise FlowError("a record of a file is its line: a text, or a mapping with _value and _file")
        lines = [mapping.get("_value") for mapping in mappings]
        texts = [line if line is None or isinstance(line, str) else json_text(line) for line in lines]
        return [{"value": text, "_file": mapping.get("_file")} for text, mapping in zip(texts, mappings, strict=True)]

    def _records(self, lines: DataFrame) -> DataFrame:
        return lines if self.format == TEXT else lines.where("trim(value) <> ''")


class LocalFileSource(FileSource, frozen=True, kw_only=True):
    """Files on storage that the driver and the tasks see at the same path."""

    def check(self) -> None:
        directory = Path(split_pattern(self.files)[0] or "/")
        if not directory.exists():
            raise FilesError(f"{directory} does not exist: make the directory, and files that arrive there are read")
        for file in self._names():
            if _ODD_LETTERS.search(file.name):
                raise FilesError(f"rename the file {file}: Spark takes its name for a pattern")
        beside = directory.iterdir() if is_pattern(self.files) and directory.is_dir() else ()
        for file in beside:
            if ":" in file.name:
                raise FilesError(
                    f"rename {file}, or name its directory in place of a pattern: where Spark matches names with one, "
                    "it takes none with a colon"
                )

    def load(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        stream = spark.readStream.options(
            maxFilesPerTrigger=str(self.max_files or MAX_FILES.number), maxFileAge=ANY_AGE, **_WITHOUT_CHECKSUMS
        )
        if self.format == PARQUET:
            return (
                stream.schema(self._parquet_columns(spark))
                .parquet(self.files)
                .selectExpr("*", _FILE)
                .where(_IS_NO_PATTERN)
            )
        return self._lines(stream.text(self.files))

    def read_again(self, spark: SparkSession, span: BatchSpan, times: SourceTimes) -> DataFrame | None:
        from moldau.products.pipelines.checkpoints.file_log import files_read  # a spec is checked without Spark

        roots = {Path(name) for pattern in python_patterns(self.files) for name in glob.glob(pattern)}
        paths = [str(path) for path in files_read(span) if path in roots or not roots.isdisjoint(path.parents)]
        return self._lines(spark.read.options(**_WITHOUT_CHECKSUMS).text(paths)) if paths else None

    def _lines(self, texts: DataFrame) -> DataFrame:
        return self._records(texts.selectExpr("value", _FILE).where(_IS_NO_PATTERN))

    def _parquet_columns(self, spark: SparkSession) -> StructType:
        from moldau.spark import spark_error

        try:
            return spark.read.options(**_WITHOUT_CHECKSUMS).parquet(self.files).schema
        except spark_error() as error:
            reason = _column_without_type(self._names()) or what_failed(str(error))
            raise FlowError(f"{self.files} tells no columns: {reason}") from error

    def _names(self) -> Iterator[Path]:
        """The files that exist now, without hidden ones."""
        for pattern in python_patterns(self.files):
            found = map(Path, glob.iglob(pattern)) if is_pattern(pattern) else (Path(pattern),)
            for one in found:
                files = one.iterdir() if one.is_dir() else (one,)
                yield from (file for file in files if file.name[:1] not in ("_", "."))


class StoredFileSource(FileSource, frozen=True, kw_only=True):
    """Files in an object store. `logs`: the directory in which queries log the files that they have found; None: they
    do not."""

    logs: Path | None = None

    def check(self) -> None:
        check_store(self.files)

    def load(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        from moldau.spark.source.feeds import stream_of  # a spec is checked without Spark

        feed = self._feed(spark, times)
        check_types(self.describe(), feed.columns)
        stored = stream_of(spark, feed)
        return stored if self.format == PARQUET else self._records(stored)

    def without_notes(self) -> StoredFileSource:
        return msgspec.structs.replace(self, logs=None)

    def read_again(self, spark: SparkSession, span: BatchSpan, times: SourceTimes) -> DataFrame | None:
        from moldau.products.pipelines.checkpoints.found_files import found_between  # a spec is checked without Spark

        found = [] if self.logs is None else found_between(span, self.logs)
        files = [file for file in found if is_match(file.address, self.files)]
        read = partial(self._feed(spark, times).read_again, files)
        return self._records(read_anew(spark, self.GIVEN_COLUMNS, read)) if files else None

    def _feed(self, spark: SparkSession, times: SourceTimes) -> ObjectFilesFeed:
        """Raises FlowError if the columns of the Parquet files cannot be read."""
        from moldau.spark.sink.target_partitions import tasks_of  # a spec is checked without Spark

        patience_ms = times.retry_timeout_ms
        try:
            columns = parquet_columns(listed(self.files, patience_ms)) if self.format == PARQUET else None
        except ObjectFilesError as error:
            raise FlowError(f"{self.files} tells no columns: {error}") from error
        return ObjectFilesFeed(
            self.files,
            columns,
            logs=self.logs,
            max_files=self.max_files or MAX_FILES.number,
            tasks=tasks_of(spark),
            patience_ms=patience_ms,
        )


def _column_without_type(files: Iterator[Path]) -> str | None:
    """A column of the first Parquet file with a type that Spark lacks, and what to do about it; None if it has no such
    column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = next(files, None)
    if file is None:
        return None
    try:
        with pq.ParquetFile(file) as opened:
            columns = [opened.schema.column(place) for place in range(len(opened.schema))]
    except (OSError, pa.ArrowException):
        return None
    for column in columns:
        kind = str(column.logical_type)
        if _NO_TYPE.search(kind):
            return (
                f"the column {column.path!r} of {file} has the type {kind}, which Spark does not read: write it with "
                "another type, such as a text"
            )
    return None
