"""Deaths of rows in files: inlined in the catalog, or in delete files with a version for each."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.storage.catalog.bootstrap import now
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.catalog.structure import resolve
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files import parquet, positions
from spark_trickle.storage.records import FILE_VERSION, FILE_VERSION_FIELD, DataFile, Table
from spark_trickle.storage.versions.conflicts import conflict
from spark_trickle.storage.versions.planning import Planner

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483646"}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483645"}),
        pa.field(FILE_VERSION, pa.int64(), False, {"PARQUET:field_id": str(FILE_VERSION_FIELD)}),
    ]
)


@dataclass(frozen=True)
class Deaths:
    """Positions that died in one data file, with the version of each."""

    positions: pa.Array
    versions: pa.Array

    def __len__(self) -> int:
        return len(self.positions)

    def and_also(self, other: Deaths) -> Deaths:
        return Deaths(
            pa.concat_arrays([self.positions, other.positions]),
            pa.concat_arrays([self.versions, other.versions]),
        )

    def among(self, wanted: pa.Array) -> Deaths:
        """Those at the given positions."""
        chosen = pc.is_in(self.positions, value_set=wanted)
        return Deaths(self.positions.filter(chosen), self.versions.filter(chosen))

    def sorted(self) -> Deaths:
        order = pc.sort_indices(self.positions)
        return Deaths(self.positions.take(order), self.versions.take(order))


NONE = Deaths(positions.EMPTY, positions.EMPTY)


def at_version(dead: pa.Array, version: int) -> Deaths:
    return Deaths(dead, pa.repeat(pa.scalar(version, pa.int64()), len(dead)))


def inlined_name(table: Table) -> str:
    return f"ducklake_inlined_delete_{table.id}"


def inline(connection: Connection, table: Table, number: int, deaths: Deaths) -> None:
    """Keep deaths of a data file in the catalog."""
    name = inlined_name(table)
    if not connection.has_table(name):
        connection.execute(
            f"CREATE TABLE {name} (file_id BIGINT, row_id BIGINT, begin_snapshot BIGINT)"
        )
        for column in ("begin_snapshot", "file_id"):
            connection.execute(f"CREATE INDEX {name}_{column} ON {name} ({column})")
    pairs = zip(deaths.positions.to_pylist(), deaths.versions.to_pylist(), strict=True)
    connection.execute_many(
        f"INSERT INTO {name} VALUES (?, ?, ?)", [(number, p, v) for p, v in pairs]
    )


def so_far(
    connection: Connection, planner: Planner, table: Table, number: int, ended: int | None = None
) -> Deaths:
    """All deaths of a data file, whoever recorded them; ``ended``: the version that ended it."""
    result = NONE
    alive = "data_file_id = ? AND (end_snapshot IS NULL OR end_snapshot = ?)"
    for row in planner.delete_rows(connection, table, alive, (number, ended)):
        found, stamps = planner.delete_file(row, table)
        part = at_version(found, row.begin) if stamps is None else Deaths(found, stamps)
        result = result.and_also(part)
    if connection.has_table(inlined_name(table)):
        rows = connection.execute(
            f"SELECT row_id, begin_snapshot FROM {inlined_name(table)} WHERE file_id = ?", (number,)
        )
        if rows:
            where, when = zip(*rows, strict=True)
            result = result.and_also(
                Deaths(pa.array(where, pa.int64()), pa.array(when, pa.int64()))
            )
    return result.sorted()


def since(
    connection: Connection,
    planner: Planner,
    table: Table,
    seen: tuple[DataFile, Deaths],
    version: int,
) -> Deaths:
    """Deaths in a data file after a version at which it had those of ``seen``.

    CommitConflictError if the file is gone, or if another program's record does not tell when.
    """
    file, known = seen
    rows = connection.execute(
        "SELECT end_snapshot, (SELECT count(*) FROM ducklake_delete_file d WHERE d.data_file_id = "
        "f.data_file_id AND d.begin_snapshot > ? AND d.partial_max IS NULL) "
        "FROM ducklake_data_file f WHERE data_file_id = ?",
        (version, file.id),
    )
    if not rows or rows[0][1]:
        raise conflict(str(table), "deleted_from_table", version + 1)
    end = rows[0][0]
    found = so_far(connection, planner, table, file.id, end)
    new = found.among(positions.minus(found.positions, known.positions))
    if end is None:
        return new
    every = pa.array(range(file.rows), pa.int64())
    return new.and_also(at_version(positions.minus(every, found.positions), end)).sorted()


def new_path(table: Table) -> str:
    """A path for a new delete file of the table."""
    return f"{table.location}trickle-{uuid.uuid4()}-delete.parquet"


def write_file(
    connection: Connection,
    table: Table,
    data_file: tuple[int, str],
    delete_file: tuple[int, str],
    deaths: Deaths,
) -> None:
    """One delete file with all deaths of a data file; of both the id and the path.

    It takes the place of an earlier delete file and of inlined deletes: with the version of each
    death in it, it serves every version, and no death is counted twice.
    """
    ordered = deaths.sorted()
    names = pa.repeat(pa.scalar(data_file[1]), len(ordered))
    number, path = delete_file
    columns = [names, ordered.positions, ordered.versions]
    parquet.write(table.files, path, pa.Table.from_arrays(columns, schema=_SCHEMA))
    table.files.sync([path])
    reach("delete-file-written")
    facts = parquet.facts(path, (), table)
    forget(connection, table, data_file[0])
    versions = pc.min_max(ordered.versions)
    stored, relative = relative_path(path, table)
    connection.execute(
        "INSERT INTO ducklake_delete_file VALUES (?, ?, ?, NULL, ?, ?, ?, 'parquet', ?, ?, ?, NULL, ?)",
        (
            number, table.id, versions["min"].as_py(), data_file[0], stored, relative,
            len(ordered), facts.bytes, facts.footer, versions["max"].as_py(),
        ),
    )  # fmt: skip


def forget(connection: Connection, table: Table, number: int) -> None:
    """Take delete files and inlined deletes of a data file out of the catalog."""
    for path, relative in connection.execute(
        "SELECT path, path_is_relative FROM ducklake_delete_file WHERE data_file_id = ?", (number,)
    ):
        schedule_removal(connection, number, resolve(path, relative, table.location))
    connection.execute("DELETE FROM ducklake_delete_file WHERE data_file_id = ?", (number,))
    if connection.has_table(inlined_name(table)):
        connection.execute(f"DELETE FROM {inlined_name(table)} WHERE file_id = ?", (number,))


def forget_file(connection: Connection, table: Table, number: int, path: str) -> None:
    """Take a data file and all that belongs to it out of the catalog."""
    forget(connection, table, number)
    for kind in ("data_file", "file_column_stats", "file_variant_stats", "file_partition_value"):
        connection.execute(f"DELETE FROM ducklake_{kind} WHERE data_file_id = ?", (number,))
    schedule_removal(connection, number, path)


def schedule_removal(connection: Connection, number: int, path: str) -> None:
    connection.execute(
        "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (?, ?, ?, ?)",
        (number, path, False, now()),
    )


def relative_path(path: str, table: Table) -> tuple[str, bool]:
    inside = path.startswith(table.location)
    return (path.removeprefix(table.location) if inside else path), inside
