"""The writer of a database: `write` makes changes of rows, `commit` applies them in one transaction, once.

The changes of a batch travel in its commit messages, so a batch must fit into the memory of the process that commits:
that of the light task, or of Spark's driver. The table `moldau_connect_batches` has the newest batch of each writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import DataType, StructType, VariantType

from moldau.connect.contract.columns import SINK_COLUMNS
from moldau.connect.contract.schemas import to_connect, value_maker
from moldau.connect.data.schema import Field, Schema, Type
from moldau.connect.handling.stages import RowsRejectedError
from moldau.connectors.databases.dialect import Database, DatabaseError, RowError, Session
from moldau.connectors.databases.settings import KAFKA_KEY, SinkSettings
from moldau.connectors.databases.statements import (
    BATCHES,
    IdentifierError,
    add_column,
    create_table,
    delete,
    insert,
    path_of,
    update,
    upsert,
)
from moldau.connectors.written_batch import written_batch

_BATCH_COLUMNS = (("writer", "TEXT NOT NULL"), ("batch", "BIGINT NOT NULL"))
_TOPIC = "${topic}"


class Change(NamedTuple):
    """One row. `deletes`: `columns` are those of the key."""

    table: tuple[str, ...]
    columns: tuple[str, ...]
    deletes: bool
    values: tuple[object, ...]


@dataclass
class Written(WriterCommitMessage):
    """The changes of one partition of a batch, in their order. `places`: of their rows in it. `rejected`: places of
    rows, and reasons."""

    writer: str
    changes: list[Change]
    places: list[int]
    rejected: list[tuple[int, str]]


class DatabaseWriter(DataSourceStreamWriter):
    """`schema`: of the rows, in the form "record" (SINK_COLUMNS) or "value"."""

    def __init__(self, database: Database, settings: SinkSettings, schema: StructType) -> None:
        self._database = database
        self._settings = settings
        self._reader = RecordReader(settings, schema)

    def write(self, iterator: Iterator[Any]) -> Written:
        batch = written_batch()
        if batch is None:
            raise DatabaseError("The writer runs in a streaming query or a task of a connector only")
        parameter = self._database.parameter
        changes, places, rejected = [], [], []
        for place, row in enumerate(iterator):
            try:
                change = self._reader.change_of(row)
                self._check_names(change)
                changes.append(change._replace(values=tuple(parameter(value) for value in change.values)))
                places.append(place)
            except (DatabaseError, IdentifierError) as error:
                rejected.append((place, str(error)))
        return Written(batch.query, changes, places, rejected)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [one for one in messages if isinstance(one, Written)]
        if written_batch() is None:  # Spark, which does not know of rejected rows
            for _, reason in (pair for one in written for pair in one.rejected):
                raise DatabaseError(reason)
        changes = [change for one in written for change in one.changes]
        if not changes:
            return
        try:
            with self._database.transaction() as session:
                if self._is_new(session, written[0].writer, batchId):
                    self._prepare(session, changes)
                    self._apply_all(session, changes)
        except RowError:
            if written_batch() is not None:
                self._find_rejected(changes, [place for one in written for place in one.places])
            raise

    def _find_rejected(self, changes: Sequence[Change], places: Sequence[int]) -> None:
        """Raises RowsRejectedError with all rows that the database rejects, and changes nothing. Returns if it finds
        none: the constraint is checked at the end of a transaction."""
        with self._database.transaction() as session:
            self._prepare(session, changes)
            found = self._rejected(session, list(zip(places, changes, strict=True)))
            if found:
                raise RowsRejectedError(found)

    def _rejected(self, session: Session, placed: list[tuple[int, Change]]) -> list[tuple[int, str]]:
        """Applies these changes, in halves where one of them is rejected."""
        try:
            with session.savepoint():
                self._apply_all(session, [change for _, change in placed])
            return []
        except RowError as error:
            if len(placed) == 1:
                return [(placed[0][0], str(error))]
        middle = len(placed) // 2
        return self._rejected(session, placed[:middle]) + self._rejected(session, placed[middle:])

    def _apply_all(self, session: Session, changes: Sequence[Change]) -> None:
        for (table, columns, deletes), rows in groupby(changes, key=lambda one: one[:3]):
            self._apply(session, table, columns, deletes, [one.values for one in rows])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing was written."""

    def _is_new(self, session: Session, writer: str, batch: int) -> bool:
        """Notes the batch. False: it is in the database already."""
        value = self._database.placeholder
        if session.columns((BATCHES,)) is None:
            session.locks(BATCHES)
            session.execute(create_table((BATCHES,), _BATCH_COLUMNS, ("writer",)))
        names = [name for name, _ in _BATCH_COLUMNS]
        noted = f"{insert((BATCHES,), names, value)} ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch"
        newer = f'{noted} WHERE "{BATCHES}".batch < excluded.batch RETURNING batch'
        return bool(session.execute(newer, (writer, batch)))

    def _prepare(self, session: Session, changes: Sequence[Change]) -> None:
        """Creates and alters tables where the settings allow it. Raises DatabaseError."""
        needed: dict[tuple[str, ...], dict[str, None]] = {}
        for change in changes:
            if not change.deletes:
                needed.setdefault(change.table, {}).update(dict.fromkeys(change.columns))
        for table, names in needed.items():
            present = session.columns(table)
            if present is None or not names.keys() <= set(present):
                session.locks(path_of(table))
                present = session.columns(table)  # another task may have been faster
                self._fit(session, table, list(names), present)

    def _fit(self, session: Session, table: tuple[str, ...], names: list[str], present: list[str] | None) -> None:
        schemas = self._reader.schemas
        if present is None:
            if not self._settings.creates:
                raise DatabaseError(f"The table {path_of(table)} does not exist, and auto.create is false")
            columns = [(name, self._type(table, name, schemas.get(name), is_new_table=True)) for name in names]
            session.execute(create_table(table, columns, self._reader.key_names))
            return
        missing = [name for name in names if name not in present]
        if missing and not self._settings.evolves:
            raise DatabaseError(f"The table {path_of(table)} lacks {', '.join(missing)}, and auto.evolve is false")
        for name in missing:
            session.execute(add_column(table, name, self._type(table, name, schemas.get(name), is_new_table=False)))

    def _type(self, table: tuple[str, ...], name: str, schema: Schema | None, *, is_new_table: bool) -> str:
        """A new column may be null, because older rows have no value there."""
        if schema is None:
            raise DatabaseError(f"The column {name} of {path_of(table)} has no type: the records have no schema")
        is_required = is_new_table and not schema.optional
        return self._database.type_of(schema) + (" NOT NULL" if is_required else "")

    def _apply(
        self,
        session: Session,
        table: tuple[str, ...],
        columns: tuple[str, ...],
        deletes: bool,
        rows: list[tuple[object, ...]],
    ) -> None:
        value, key = self._database.placeholder, self._reader.key_names or columns
        if deletes:
            session.execute_many(delete(table, columns, value), rows)
        elif self._settings.insert_mode == "insert":
            session.execute_many(insert(table, columns, value), rows)
        elif self._settings.insert_mode == "upsert":
            session.execute_many(upsert(table, columns, key, value), rows)
        else:
            order = [*(name for name in columns if name not in key), *key]
            if len(order) > len(key):
                places = [columns.index(name) for name in order]
                session.execute_many(
                    update(table, columns, key, value), [[row[place] for place in places] for row in rows]
                )

    def _check_names(self, change: Change) -> None:
        for name in (*change.table, *change.columns):
            if not name or "\x00" in name or len(name.encode()) > self._database.longest_name:
                raise IdentifierError(f"{name!r} cannot be the name of a table or a column")


class RecordReader:
    """Makes changes of rows. `schemas`: those of the columns, empty for values without a schema."""

    def __init__(self, settings: SinkSettings, schema: StructType) -> None:
        self._settings = settings
        self._is_record = sorted(schema.names) == sorted(SINK_COLUMNS)
        kinds = {one.name: one.dataType for one in schema.fields}
        key_kind = kinds["key"] if self._is_record else None
        value_kind = kinds["value"] if self._is_record else schema
        if not self._is_record and (settings.key_mode in ("record_key", "kafka") or _TOPIC in settings.table_format):
            raise DatabaseError(
                "Rows without the columns of a record have no key and no topic: "
                "set pk.mode to none or record_value, and table.name.format to a table"
            )
        self._key = value_maker(key_kind) if key_kind is not None else None
        self._value = value_maker(value_kind)
        self._key_fields = _fields_of(key_kind)
        self._value_fields = _fields_of(value_kind)
        self._has_struct_key = isinstance(key_kind, StructType | VariantType)
        self._key_schema = None if key_kind is None or self._has_struct_key else to_connect(key_kind, False)
        self.key_names = self._names_of_key()
        self.schemas = self._schemas()

    def change_of(self, row: Any) -> Change:
        """Raises DatabaseError for a record without what the settings need."""
        if not self._is_record:
            return self._change(_table(self._settings.table_format, ""), {}, self._value(row))
        table = _table(self._settings.table_format, row["topic"])
        key = self._key_values(row)
        if row["value"] is not None:
            return self._change(table, key, self._value(row["value"]))
        if not self._settings.deletes:
            raise DatabaseError(f"{_place(row)} has no value, and delete.enabled is false")
        return Change(table, tuple(key), True, tuple(key.values()))

    def _change(self, table: tuple[str, ...], key: dict[str, object], value: object) -> Change:
        if not isinstance(value, dict):
            raise DatabaseError(f"A value must be a struct, or a map, got {type(value).__name__}")
        fields = self._settings.fields
        if self._settings.key_mode == "record_value":
            lacking = [name for name in self.key_names if value.get(name) is None]
            if lacking:
                raise DatabaseError(f"The value has no {', '.join(lacking)}, which is in the primary key")
            fields = (*fields, *self.key_names) if fields else ()
        others = {str(name): one for name, one in value.items() if name not in key and (not fields or name in fields)}
        columns = key | others
        if not columns:
            raise DatabaseError("The record has no fields to write")
        return Change(table, tuple(columns), False, tuple(columns.values()))

    def _key_values(self, row: Any) -> dict[str, object]:
        mode = self._settings.key_mode
        if mode == "kafka":
            return dict(zip(self.key_names, (row["topic"], row["partition"], row["offset"]), strict=True))
        if mode != "record_key":
            return {}
        key = None if self._key is None else self._key(row["key"])
        if not self._has_struct_key:
            key = {self.key_names[0]: key}
        names = self.key_names or tuple(key or ())
        found = {name: None if not isinstance(key, dict) else key.get(name) for name in names}
        lacking = [name for name, one in found.items() if one is None]
        if lacking or not found:
            raise DatabaseError(f"{_place(row)} has no {', '.join(lacking) or 'key'}, which is in the primary key")
        return found

    def _names_of_key(self) -> tuple[str, ...]:
        given = self._settings.key_fields
        match self._settings.key_mode:
            case "none":
                return ()
            case "kafka":
                return given or KAFKA_KEY
            case "record_key":
                known = tuple(one.name for one in self._key_fields)
                if not self._has_struct_key and len(given) != 1:
                    raise DatabaseError("The key is no struct: pk.fields must have the name of one column")
            case _:
                known = tuple(one.name for one in self._value_fields)
        unknown = [name for name in given if known and name not in known]
        if unknown:
            raise DatabaseError(f"pk.fields names {', '.join(unknown)}, and the schema has {', '.join(known)}")
        return given or known

    def _schemas(self) -> dict[str, Schema]:
        found = {one.name: one.schema for one in self._value_fields}
        match self._settings.key_mode:
            case "kafka":
                kinds = (Type.STRING, Type.INT32, Type.INT64)
                found |= {name: Schema(kind) for name, kind in zip(self.key_names, kinds, strict=True)}
            case "record_key" if self._key_schema is not None:
                found[self.key_names[0]] = self._key_schema
            case "record_key":
                found |= {one.name: one.schema for one in self._key_fields if one.name in self.key_names}
        return found


def _fields_of(kind: DataType | None) -> Sequence[Field]:
    return to_connect(kind).fields if isinstance(kind, StructType) else ()


def _table(table_format: str, topic: str) -> tuple[str, ...]:
    """The points of a topic are part of the table's name."""
    return tuple(part.replace(_TOPIC, topic) for part in table_format.split("."))


def _place(row: Mapping[str, Any]) -> str:
    return f"The record {row['topic']}-{row['partition']} at offset {row['offset']}"
