"""Deaths of rows in files: inlined in the catalog, or in delete files with a version for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.storage.catalog.database import Connection, now
from spark_trickle.storage.catalog.structure import resolve
from spark_trickle.storage.commits.conflicts import conflict
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files import parquet, positions
from spark_trickle.storage.manifest.pieces import DeleteRow
from spark_trickle.storage.records import FILE_VERSION, FILE_VERSION_FIELD, DataFile, Table
from spark_trickle.storage.versions.planning import Planner

PATH, POSITION = "file_path", "pos"
FIELDS = {PATH: 2147483646, POSITION: 2147483645, FILE_VERSION: FILE_VERSION_FIELD}
_SCHEMA = pa.schema(
    [
        pa.field(name, kind, False, {"PARQUET:field_id": str(FIELDS[name])})
        for name, kind in ((PATH, pa.string()), (POSITION, pa.int64()), (FILE_VERSION, pa.int64()))
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

    def among_versions(self, after: int) -> Deaths:
        """Those after a version."""
        late = pc.greater(self.versions, after)
        return Deaths(self.positions.filter(late), self.versions.filter(late))

    def sorted(self) -> Deaths:
        order = pc.sort_indices(self.positions)
        return Deaths(self.positions.take(order), self.versions.take(order))

    def first(self) -> Deaths:
        """Each position once, with the earliest version that is told of it, in order."""
        order = pc.sort_indices(
            pa.table({"p": self.positions, "v": self.versions}),
            sort_keys=[("p", "ascending"), ("v", "ascending")],
        )
        places = self.positions.take(order).to_numpy()
        new = np.append(True, places[1:] != places[:-1])[: len(places)]
        chosen = order.filter(pa.array(new))
        return Deaths(self.positions.take(chosen), self.versions.take(chosen))


NONE = Deaths(positions.EMPTY, positions.EMPTY)


@dataclass(frozen=True)
class DeathFile:
    """A delete file that waits for its commit: dead positions of one data file.

    Law: where the data file has no other delete file, it tells no versions: all in it die in the version
    that is committed, whichever that will be. Otherwise it has the deaths of the other, whose place it
    takes, and the version of each: that of the new ones is a guess, and if it is wrong, the file is
    written again.
    """

    path: str
    rows: int
    bytes: int
    footer: int
    table: Table = field(compare=False, repr=False)
    begin: int | None = None
    """The first version in it, if it tells versions."""
    guess: int | None = None
    """The version of its new deaths, if it tells versions."""

    @cached_property
    def positions(self) -> pa.Array:
        """Read from the file: only where others got in between, or this transaction looks at it."""
        batches = parquet.batches(self.path, self.table, [POSITION])
        return positions.of(pa.chunked_array([batch.column(0) for batch in batches], pa.int64()))


def opened(
    path: str, table: Table, begin: int | None = None, guess: int | None = None
) -> DeathFile:
    """A delete file that was written for the table."""
    facts = parquet.facts(path, (), table)
    return DeathFile(path, facts.rows, facts.bytes, facts.footer, table, begin, guess)


def ahead(
    table: Table, place: tuple[str, str], dead: pa.Array, earlier: Deaths, guess: int
) -> DeathFile:
    """Write a delete file before its commit; of the data file and of it the path."""
    if len(earlier):
        return stamped(table, place, earlier.and_also(at_version(dead, guess)))
    columns = [pa.repeat(pa.scalar(place[0]), len(dead)), dead]
    schema = pa.schema([_SCHEMA.field(PATH), _SCHEMA.field(POSITION)])
    parquet.write(table.files, place[1], pa.Table.from_arrays(columns, schema=schema))
    return opened(place[1], table)


def stamped(table: Table, place: tuple[str, str], every: Deaths) -> DeathFile:
    """Write a delete file that tells versions; of the data file and of it the path."""
    ordered = every.sorted()
    names = pa.repeat(pa.scalar(place[0]), len(ordered))
    columns = [names, ordered.positions, ordered.versions]
    parquet.write(table.files, place[1], pa.Table.from_arrays(columns, schema=_SCHEMA))
    ends = pc.min_max(ordered.versions)
    return opened(place[1], table, ends["min"].as_py(), ends["max"].as_py())


def filed(planner: Planner, rows: Iterable[DeleteRow], table: Table, version: int) -> Deaths:
    """The deaths up to a version in delete files."""
    result = NONE
    for row in rows:
        found, stamps = planner.delete_file(row, table)
        part = at_version(found, row.begin) if stamps is None else Deaths(found, stamps)
        result = result.and_also(part)
    early = pc.less_equal(result.versions, version)
    return Deaths(result.positions.filter(early), result.versions.filter(early)).first()


def put(
    connection: Connection, table: Table, number: int, place: tuple[int, int], made: DeathFile
) -> None:
    """Record a delete file that was written before; place = (its id, the version)."""
    _forget_files(connection, table, number)
    begin = place[1] if made.begin is None else made.begin
    _insert(connection, table, number, (place[0], begin), made, made.guess)


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


def so_far(connection: Connection, planner: Planner, table: Table, number: int) -> Deaths:
    """All deaths of a data file, whoever recorded them.

    Another program's delete file has all that the one before it had: a death is as old as the first of
    them that has it.
    """
    result = NONE
    for row in planner.delete_rows(connection, table, "data_file_id = ?", (number,)):
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
    return result.first()


def since(
    connection: Connection,
    planner: Planner,
    table: Table,
    seen: tuple[DataFile, Deaths],
    version: int,
) -> Deaths:
    """Deaths in a data file after a version at which it had those of ``seen``.

    CommitConflictError if the file is gone.
    """
    file, known = seen
    rows = connection.execute(
        "SELECT end_snapshot FROM ducklake_data_file WHERE data_file_id = ?", (file.id,)
    )
    if not rows:
        raise conflict(str(table), "deleted_from_table", version + 1)
    end = rows[0][0]
    found = so_far(connection, planner, table, file.id)
    new = found.among(positions.minus(found.positions, known.positions))
    if end is None:
        return new
    every = pa.array(np.arange(file.rows, dtype=np.int64))
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
    number, path = delete_file
    made = stamped(table, (data_file[1], path), deaths)
    table.files.sync([path])
    reach("delete-file-written")
    forget(connection, table, data_file[0])
    assert made.begin is not None
    _insert(connection, table, data_file[0], (number, made.begin), made, made.guess)


def _insert(
    connection: Connection,
    table: Table,
    data_file: int,
    place: tuple[int, int],
    made: DeathFile,
    partial_max: int | None,
) -> None:
    stored, relative = relative_path(made.path, table)
    connection.execute(
        "INSERT INTO ducklake_delete_file VALUES (?, ?, ?, NULL, ?, ?, ?, 'parquet', ?, ?, ?, NULL, ?)",
        (
            place[0], table.id, place[1], data_file, stored, relative,
            made.rows, made.bytes, made.footer, partial_max,
        ),
    )  # fmt: skip


def forget(connection: Connection, table: Table, number: int) -> None:
    """Take delete files and inlined deletes of a data file out of the catalog."""
    _forget_files(connection, table, number)
    if connection.has_table(inlined_name(table)):
        connection.execute(f"DELETE FROM {inlined_name(table)} WHERE file_id = ?", (number,))


def _forget_files(connection: Connection, table: Table, number: int) -> None:
    for path, relative in connection.execute(
        "SELECT path, path_is_relative FROM ducklake_delete_file WHERE data_file_id = ?", (number,)
    ):
        schedule_removal(connection, number, resolve(path, relative, table.location))
    connection.execute("DELETE FROM ducklake_delete_file WHERE data_file_id = ?", (number,))


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
