"""What formats share whose schema is a file, or stands in a registry under an id that each value begins with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.formats.decoder import CORRUPT_COLUMN, Decoder
from moldau.products.pipelines.formats.registry import (
    HEADER_BYTES,
    MAGIC,
    Registry,
    RegistryUnreachableError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame

Row = Mapping[str, Any]


class SchemaDecoder(Decoder, frozen=True, kw_only=True):
    """`schema_file`: the reader's schema; None: the newest one of `subject` when the pipeline starts. `registry`: None
    where values are bare."""

    KEYS: ClassVar[tuple[str, ...]] = ("schema_file", "registry", "subject")

    schema_file: Path | None = None
    registry: Registry | None = None
    subject: str | None = None

    @classmethod
    def parse(cls, section: Section, directory: Path) -> SchemaDecoder:
        registry = Registry.parse(section)
        schema_file = section.local_path("schema_file", directory) if section.has("schema_file") else None
        subject = section.text("subject", default="") or None
        if registry is None and schema_file is None:
            section.refuse("format", f"{cls.NAMED_BY} needs a `schema_file`, or a `registry`")
        if subject is not None and (registry is None or schema_file is not None):
            section.refuse("subject", "has a meaning only with a `registry` and without a `schema_file`")
        if schema_file is not None and not schema_file.is_file():
            section.refuse("schema_file", f"there is no file {schema_file}")
        if schema_file is None and subject is None:
            if not section.has("topic"):
                section.refuse("format", "needs a `subject` whose newest schema tells the columns, or a `schema_file`")
            subject = f"{section.text('topic')}-value"
        return cls(schema_file=schema_file, registry=registry, subject=subject, **cls.parse_more(section))

    @classmethod
    def parse_more(cls, section: Section) -> dict[str, Any]:
        """What the page says beside KEYS of all."""
        return {}

    def facts(self) -> Facts:
        """None: schemas evolve while a checkpoint stays."""
        return {}

    def decoded(self, records: DataFrame) -> DataFrame:
        from moldau.spark.columns import with_column  # a page is checked without Spark

        values = self.values()
        return with_column(records, "_value", "value", values, values.kind)

    def reason(self) -> str:
        return f"coalesce(_value.{CORRUPT_COLUMN}, 'the record has no value')"

    @abstractmethod
    def values(self) -> Values:
        """With the reader's schema as it is now. Raises FlowError, RegistryError."""


class Values:
    """Decodes values in the tasks. `kind`: a struct of the fields and of CORRUPT_COLUMN: why there are none."""

    def __init__(self, fields: pa.StructType, registry: Registry | None) -> None:
        import pyarrow as pa

        self.kind = pa.struct([*fields, pa.field(CORRUPT_COLUMN, pa.string())])
        self._registry = registry

    def __call__(self, values: pa.Array) -> pa.Array:
        import pyarrow as pa

        rows = [self._row(value) for value in values.to_pylist()]
        try:
            return pa.array(rows, self.kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            # one of them holds what its column cannot: a date of the year 300,000, say
            return pa.array([self._fitting(row) for row in rows], self.kind)

    @abstractmethod
    def reader(self, schema_id: int | None) -> Callable[[bytes], Row]:
        """Decodes what was written with the schema of that id in the registry; None: with the schema of the file.
        Raises RegistryError."""

    def _row(self, value: bytes | None) -> Row | None:
        if value is None:
            return None
        try:
            if self._registry is None:
                return self.reader(None)(value)
            if len(value) < HEADER_BYTES or value[0] != MAGIC:
                return _corrupt("the value does not begin with a zero byte and the id of a schema")
            return self.reader(int.from_bytes(value[1:HEADER_BYTES], "big"))(value[HEADER_BYTES:])
        except RegistryUnreachableError:
            raise  # the record may be well: the batch is tried again
        except Exception as error:  # decoders raise anything for bytes that are damaged
            return _corrupt(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)

    def _fitting(self, row: Row | None) -> Row | None:
        import pyarrow as pa

        try:
            pa.array([row], self.kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            return _corrupt(f"a field does not fit its column: {error}")
        return row


def _corrupt(reason: str) -> Row:
    return {CORRUPT_COLUMN: reason}
