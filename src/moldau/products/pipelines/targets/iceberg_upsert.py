"""Upserts in Iceberg: rewrites each file that has an older row, and commits all files in one snapshot.

The upsert in `pyiceberg` compares row by row in Python, builds an expression with a branch for each key of several
columns, and needs two or three snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table, Transaction

SMALL_BYTES = 8 * 1024 * 1024
"""Compaction joins files smaller than this."""
ROW = "_moldau_row"


class OldFile(msgspec.Struct, frozen=True):
    """A file of the table that is rewritten. `stays`: for each of its rows, whether no newer row replaces it."""

    table: Table
    task: FileScanTask
    stays: npt.NDArray[np.bool_]

    def rows(self, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The remaining rows, read lazily."""
        import pyarrow as pa

        begin = 0
        for batch in _scan(self.table, self.table.schema()).to_record_batches([self.task]):
            end = begin + batch.num_rows
            yield batch.filter(pa.array(self.stays[begin:end])).select(columns.names).cast(columns)
            begin = end


def files_to_replace(table: Table, keys: pa.Table, *, also_small: bool) -> list[OldFile]:
    """The files with a row for any of the `keys`; with `also_small`, also small files. Reads the key columns of the
    whole table."""
    import pyarrow as pa

    from moldau.columnar.equal_keys import with_equal_keys

    found, columns = [], pa.schema([column.with_nullable(True) for column in keys.schema])
    for task in table.scan().plan_files():
        older = _scan(table, table.schema().select(*keys.column_names)).to_table([task])
        stays = _without(with_equal_keys(older.select(columns.names).cast(columns), columns.names), keys)
        if not stays.all() or (also_small and task.file.file_size_in_bytes < SMALL_BYTES):
            found.append(OldFile(table, task, stays))
    return found


def replace_files(
    transaction: Transaction, table: Table, old: Sequence[OldFile], new: Sequence[str], properties: dict[str, str]
) -> None:
    """Adds a snapshot with these `properties` to the transaction; none if nothing changes. `new`: the addresses of
    Parquet files."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file
    from pyiceberg.table import TableProperties

    if not old and not new:
        return
    if table.name_mapping() is None:
        # the files have column names, but no field ids
        mapping = table.schema().name_mapping.model_dump_json()
        transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    with transaction.update_snapshot(snapshot_properties=properties).overwrite() as snapshot:
        for file in old:
            snapshot.delete_data_file(file.task.file)
        for address in new:
            snapshot.append_data_file(parquet_file_to_data_file(table.io, transaction.table_metadata, address))


def join_manifests(transaction: Transaction, properties: dict[str, str]) -> None:
    """Adds a snapshot without files to the transaction. A snapshot that replaces files keeps every manifest of the
    previous one, even those that only list deleted files. An appending snapshot drops those, and joins the others."""
    with transaction.update_snapshot(snapshot_properties=properties).merge_append():
        pass


def _scan(table: Table, columns: Schema) -> ArrowScan:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    return ArrowScan(table.metadata, table.io, columns, AlwaysTrue())


def _without(older: pa.Table, newer: pa.Table) -> npt.NDArray[np.bool_]:
    """For each row of `older`, whether no row of `newer` equals it. Both have the same columns."""
    import numpy as np
    import pyarrow as pa

    numbered = older.append_column(ROW, pa.array(np.arange(older.num_rows)))
    left = numbered.join(newer, keys=newer.column_names, join_type="left anti").column(ROW)
    stays = np.zeros(older.num_rows, bool)
    stays[left.to_numpy()] = True
    return stays
