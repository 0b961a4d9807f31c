"""Upserts in Iceberg: rewrites each file that has an older row, and commits all files in one snapshot.

`pyiceberg` has an upsert of its own. It compares row by row in Python, makes an expression with a branch for each key
of several columns, and needs two or three snapshots.
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
"""A file below that is joined with others, where small files are joined."""
ROW = "_moldau_row"


class OldFile(msgspec.Struct, frozen=True):
    """A file of the table that is written anew. `stays`: of each of its rows, whether no newer one takes its place."""

    table: Table
    task: FileScanTask
    stays: npt.NDArray[np.bool_]

    def rows(self, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows that stay, read as they are asked for."""
        import pyarrow as pa

        begin = 0
        for batch in _scan(self.table, self.table.schema()).to_record_batches([self.task]):
            end = begin + batch.num_rows
            yield batch.filter(pa.array(self.stays[begin:end])).select(columns.names).cast(columns)
            begin = end


def files_to_replace(table: Table, keys: pa.Table, *, also_small: bool) -> list[OldFile]:
    """The files with a row of one of the `keys`, whose columns are the key; with `also_small` small files as well.
    Reads these columns of the whole table."""
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
    """Adds to the transaction one snapshot with these `properties`; none where there is nothing to do. `new`: the
    addresses of Parquet files."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file
    from pyiceberg.table import TableProperties

    if not old and not new:
        return
    if table.name_mapping() is None:
        # the files name their columns, and do not number them
        mapping = table.schema().name_mapping.model_dump_json()
        transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    with transaction.update_snapshot(snapshot_properties=properties).overwrite() as snapshot:
        for file in old:
            snapshot.delete_data_file(file.task.file)
        for address in new:
            snapshot.append_data_file(parquet_file_to_data_file(table.io, transaction.table_metadata, address))


def join_manifests(transaction: Transaction, properties: dict[str, str]) -> None:
    """Adds to the transaction a snapshot without files. A snapshot that replaces files keeps every manifest of the one
    before, also those that only say what was taken out; one that appends leaves them out, and joins the others."""
    with transaction.update_snapshot(snapshot_properties=properties).merge_append():
        pass


def _scan(table: Table, columns: Schema) -> ArrowScan:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    return ArrowScan(table.metadata, table.io, columns, AlwaysTrue())


def _without(older: pa.Table, newer: pa.Table) -> npt.NDArray[np.bool_]:
    """Of each row of `older`, whether `newer`, which has the same columns, lacks such a row."""
    import numpy as np
    import pyarrow as pa

    numbered = older.append_column(ROW, pa.array(np.arange(older.num_rows)))
    left = numbered.join(newer, keys=newer.column_names, join_type="left anti").column(ROW)
    stays = np.zeros(older.num_rows, bool)
    stays[left.to_numpy()] = True
    return stays
