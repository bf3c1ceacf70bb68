"""The uncommitted work on one table, how it changes what a scan of the table shows, and who owns its
files: the transaction that made them, until a commit hands them to a version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import (
    BindError,
    CommitUnknownError,
    InvalidDataError,
    TrickleError,
    invalid_text,
)
from spark_trickle.storage.files import positions
from spark_trickle.storage.files.filesystem import FileSystem
from spark_trickle.storage.files.parquet import FileFacts
from spark_trickle.storage.files.types import arrow_type, leaves
from spark_trickle.storage.files.values import PlainRows
from spark_trickle.storage.manifest.file_list import FileList, found_in
from spark_trickle.storage.manifest.statistics import LazyBounds
from spark_trickle.storage.records import (
    ROW_ID,
    ChangePlan,
    Column,
    DataFile,
    FileChange,
    Files,
    ScanPlan,
    Table,
)
from spark_trickle.storage.versions.deaths import DeathFile
from spark_trickle.storage.versions.planning import conform, plain_schema, weighted


@dataclass(frozen=True)
class StagedFile:
    """A data file of the transaction; ``id`` is negative until the commit gives it one."""

    id: int
    facts: FileFacts


@dataclass(frozen=True)
class Staged:
    """What a transaction has done to one table. Immutable, so that savepoints are free."""

    rows: tuple[pa.Table, ...] = ()
    """Inserted rows: columns named by column id, and ``ROW_ID`` (negative: a new row)."""
    plain: PlainRows | None = None
    """More of them; under the write lock only, where nobody looks at them any more."""
    files: tuple[StagedFile, ...] = ()
    dead: Mapping[int, pa.Array] = field(default_factory=dict)
    """Positions deleted by file id, of committed and staged files."""
    written: Mapping[int, DeathFile] = field(default_factory=dict)
    """Delete files that are written already, by file id: of other files than ``dead``."""
    dead_inlined: pa.Array = field(default_factory=lambda: positions.EMPTY)
    """Row ids of committed inlined rows that were deleted."""
    truncated: bool = False
    """Everything that was there at the base version is gone."""
    assumes: bool = False
    """What was done holds only as long as others add no rows."""

    @property
    def empty(self) -> bool:
        return not (
            self.files
            or self.truncated
            or self.written
            or self.kept_rows
            or any(len(p) for p in self.dead.values())
            or len(self.dead_inlined)
        )

    @property
    def kept_rows(self) -> int:
        """How many inserted rows are in no file."""
        plain = 0 if self.plain is None else len(self.plain.ids)
        return plain + sum(int(r.num_rows) for r in self.rows)

    @property
    def paths(self) -> list[str]:
        """The files that were written for it."""
        return [*(f.facts.path for f in self.files), *(f.path for f in self.written.values())]

    @property
    def inserts(self) -> bool:
        return bool(self.files or self.kept_rows)

    @property
    def deletes(self) -> bool:
        committed = any(len(p) for i, p in self.dead.items() if i >= 0)
        committed = committed or any(i >= 0 for i in self.written)
        return self.truncated or committed or bool(len(self.dead_inlined))

    def loaded(self, numbers: Iterable[int] | None = None) -> Staged:
        """With the positions of delete files, all or those of some data files, read back."""
        chosen = set(self.written if numbers is None else numbers) & self.written.keys()
        if not chosen:
            return self
        dead = dict(self.dead) | {i: self.written[i].positions for i in chosen}
        left = {i: made for i, made in self.written.items() if i not in chosen}
        return replace(self, dead=dead, written=left)

    def with_written(self, made: Mapping[int, DeathFile], row_ids: pa.Array) -> Staged:
        """With more deletes whose files are written; those of a file that has others are read back."""
        both = [i for i in made if i in self.dead or i in self.written]
        more = Staged(written=made).loaded(both)
        merged = self.loaded(both).with_deletes(more.dead, row_ids)
        return replace(merged, written={**merged.written, **more.written})

    def with_deletes(self, dead: Mapping[int, pa.Array], row_ids: pa.Array) -> Staged:
        if self.written.keys() & dead.keys():
            return self.loaded(dead).with_deletes(dead, row_ids)
        merged = dict(self.dead)
        for file, found in dead.items():
            merged[file] = positions.union(merged.get(file, positions.EMPTY), found)
        own = positions.EMPTY
        rows = []
        for part in self.rows:
            hit = pc.is_in(part.column(ROW_ID), row_ids)
            own = positions.union(own, part.column(ROW_ID).filter(hit).combine_chunks())
            rows.append(part.filter(pc.invert(hit)))
        committed = positions.minus(row_ids, own)
        return replace(
            self,
            rows=tuple(rows),
            dead=merged,
            dead_inlined=positions.union(self.dead_inlined, committed),
        )


def overlaid(plan: ScanPlan | None, table: Table, base: int, staged: Staged) -> ScanPlan:
    """The plan of the base version with the transaction's own work on top."""
    staged = staged.loaded()
    own = tuple(_staged_file(f, table, staged) for f in staged.files)
    files: Files | tuple[DataFile, ...] = tuple(file for file in own if file.live)
    inlined = [
        conform(r, table.columns).append_column(ROW_ID, r.column(ROW_ID)) for r in staged.rows
    ]
    if plan is not None and not staged.truncated:
        assert isinstance(plan.files, FileList), "the catalog's own list"
        files = plan.files.of(table).with_work(staged.dead, files)
        kept = pc.invert(pc.is_in(plan.inlined.column(ROW_ID), staged.dead_inlined))
        inlined.insert(0, restructured(plan.inlined.filter(kept), plan.table, table))
    schema = plain_schema(table).append(pa.field(ROW_ID, pa.int64()))
    rows = pa.concat_tables([*inlined, schema.empty_table()]) if inlined else schema.empty_table()
    return ScanPlan(table, base, files, rows)


def restructured(rows: pa.Table, old: Table, new: Table) -> pa.Table:
    """Inlined rows of one structure of a table in another."""
    ids = rows.column(ROW_ID)
    plain = rows.select(range(len(old.columns))).rename_columns([str(c.id) for c in old.columns])
    return conform(plain, new.columns).append_column(ROW_ID, ids)


def _missing(table: Table, stats: Mapping[int, object]) -> frozenset[int]:
    return frozenset(
        c.id for c in table.columns if stats and not any(x.id in stats for x in leaves(c))
    )


def _staged_file(file: StagedFile, table: Table, staged: Staged) -> DataFile:
    facts = file.facts
    dead = staged.dead.get(file.id, positions.EMPTY)
    stats = {i: (s.values, s.nulls, s.low, s.high, s.nan) for i, s in facts.stats.items()}
    return DataFile(
        file.id,
        facts.path,
        facts.rows,
        facts.bytes,
        None if facts.has_row_ids else file.id << 40,
        -1,
        live=facts.rows - len(dead),
        deleted=dead,
        has_row_ids=facts.has_row_ids,
        missing=_missing(table, stats),
        bounds=LazyBounds(table, stats),
        doubtful=_doubtful(table, facts.names),
    )


def _doubtful(table: Table, names: Mapping[int, str]) -> frozenset[int]:
    """The columns that got a name, since the file was written, that is another one's in it."""
    ids = {name.lower(): number for number, name in names.items()}
    return frozenset(
        c.id
        for c in table.columns
        if ids.get(c.name.lower(), c.id) != c.id or (c.children and names.get(c.id) != c.name)
    )


def staged_changes(plan: ScanPlan | None, table: Table, base: int, staged: Staged) -> ChangePlan:
    """What the transaction has changed in the table, net."""
    staged = staged.loaded()
    found: list[FileChange] = []
    parts: list[tuple[pa.Table, int]] = []
    if plan is not None:
        assert isinstance(plan.files, FileList), "the catalog's own list"
        found += _gone(replace(plan, files=plan.files.of(table)), staged)
        rows = plan.inlined
        if not staged.truncated:
            rows = rows.filter(pc.is_in(rows.column(ROW_ID), staged.dead_inlined))
        parts.append((restructured(rows, plan.table, table), -1))
    own = overlaid(None, table, base, staged)
    found += [FileChange(f, 1, f.live) for f in own.files]
    parts.append((own.inlined, 1))
    return ChangePlan(table, base, base, tuple(found), weighted(table, parts))


def _gone(plan: ScanPlan, staged: Staged) -> list[FileChange]:
    if staged.truncated:
        return [FileChange(f, -1, f.live) for f in plan.files]
    result = []
    for number, file in sorted(found_in(plan, staged.dead).items()):
        dead = positions.minus(staged.dead[number], file.deleted)
        if len(dead):
            result.append(FileChange(file, -1, len(dead), dead))
    return result


def fitted(table: Table, rows: pa.Table) -> pa.Table:
    """Rows as the table's columns, named by column id; errors name column and reason."""
    lowered = {name.lower(): i for i, name in enumerate(rows.column_names)}
    unknown = [n for n in rows.column_names if table.column(n) is None and n != ROW_ID]
    if unknown:
        names = ", ".join(c.name for c in table.columns)
        raise BindError(f"table {table} has no column {unknown[0]}", hint=f"columns: {names}")
    arrays = []
    for column in table.columns:
        at = lowered.get(column.name.lower())
        if at is None:
            array = pa.chunked_array([pa.nulls(rows.num_rows, arrow_type(column))])
        else:
            array = _fitted_column(table, column, rows.column(at))
        if not column.nullable and array.null_count:
            raise InvalidDataError(
                f"NULL in column {column.name} of table {table}, which is NOT NULL"
            )
        arrays.append(array)
    return pa.table(arrays, names=[str(c.id) for c in table.columns])


def computed(table: Table, arrays: Sequence[pa.Array], ids: pa.Array) -> pa.Table:
    """Staged rows of values that were computed here, a column of the table each, with their ids."""
    if all(map(_fits_as_it_is, table.columns, arrays)):
        return pa.table([*arrays, ids], names=[*(str(c.id) for c in table.columns), ROW_ID])
    rows = pa.table(arrays, names=[column.name for column in table.columns])
    return fitted(table, rows).append_column(ROW_ID, ids)


def _fits_as_it_is(column: Column, array: pa.Array) -> bool:
    plain = column.length is None and not pa.types.is_floating(array.type)
    known = column.nullable or not array.null_count
    return plain and known and array.type == arrow_type(column)


def numbered(count: int, kept: pa.Array | None, new_id: Callable[[], int] | None) -> pa.Array:
    """The ids of staged rows: those that they keep, below zero for new ones.

    ``new_id``: for rows that stay in memory, where each needs an id of its own.
    """
    if new_id is not None:
        ids = [None] * count if kept is None else kept.to_pylist()
        return pa.array([new_id() if i is None else i for i in ids], pa.int64())
    if kept is None:
        return pa.repeat(pa.scalar(-1, pa.int64()), count)
    return pc.fill_null(kept.cast(pa.int64()), -1)


_FAMILIES = (
    (pa.types.is_integer, "number"),
    (pa.types.is_floating, "number"),
    (pa.types.is_decimal, "number"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (pa.types.is_dictionary, "any"),
    (pa.types.is_null, "any"),
)


def _family(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "zoned time" if kind.tz else "time"
    if kind == pa.string_view():
        return "text"
    return next((name for test, name in _FAMILIES if test(kind)), "nested")


def _fitted_column(table: Table, column: Column, array: pa.ChunkedArray) -> pa.ChunkedArray:
    typed = _typed(table, column, array)
    if pa.types.is_floating(typed.type):
        return pc.add(typed, pa.scalar(0.0, typed.type))  # -0.0 becomes 0.0, as changes have it
    _are_texts(table, column, typed)
    return typed if column.length is None else _short(table, column, column.length, typed)


def _are_texts(table: Table, column: Column, array: pa.ChunkedArray) -> None:
    """InvalidDataError if a text is not UTF-8."""
    if not pa.types.is_string(array.type) and not pa.types.is_nested(array.type):
        return
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise invalid_text(f" for column {column.name} of table {table}") from None


def _short(table: Table, column: Column, most: int, array: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a VARCHAR(n); as Spark does, spaces beyond its end are cut off, no more."""
    long = pc.greater(pc.utf8_length(array), most)
    if not pc.any(long).as_py():
        return array
    least = pc.max(pc.utf8_length(pc.utf8_rtrim(array, " "))).as_py()
    if least > most:
        raise InvalidDataError(
            f"a value of {least} characters does not fit column {column.name} of table {table}, "
            f"which has the type {column.declared}",
            hint="shorten the value, or declare the column as STRING",
        )
    return pc.if_else(long, pc.utf8_slice_codeunits(array, 0, most), array)


def _typed(table: Table, column: Column, array: pa.ChunkedArray) -> pa.ChunkedArray:
    target = arrow_type(column)
    if array.type == target:
        return array
    families = {_family(array.type), _family(target)} - {"any"}
    try:
        if len(families) > 1:
            raise pa.ArrowInvalid(f"{array.type} is not {column.type}")
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidDataError(
            f"a value does not fit column {column.name} {column.type} of table {table}: "
            f"{str(error).splitlines()[0]}"
        ) from error


def may_stand(error: BaseException) -> bool:
    """Whether what was to be committed may be there although ``error`` came out of the commit."""
    return isinstance(error, CommitUnknownError) or not isinstance(error, Exception)


class Owned:
    """Files and folders that go away with their owner, unless a version takes them over.

    Law: nothing that a version has, or may have, taken over is removed, nor a folder it is in.
    """

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._paths: list[str] = []
        self._of_commit: list[str] = []
        self._taken_over: frozenset[str] = frozenset()

    def add(self, path: str) -> None:
        self._paths.append(path)

    def add_of_commit(self, path: str) -> None:
        """A file that is written under the lock: the version's if there will be one."""
        self._paths.append(path)
        self._of_commit.append(path)

    def hand_over(self, used: Iterable[str]) -> None:
        """The commit took effect: these files, and those made in it, are the version's."""
        self._taken_over |= {*used, *self._of_commit}

    def give_up(self) -> None:
        """Nobody knows whether a version needs them: what none does, remove_orphans takes."""
        self._paths.clear()

    def remove(self) -> None:
        while self._paths:
            self._files.remove(self._paths[-1], self._taken_over)
            self._paths.pop()


@contextmanager
def owning(files: FileSystem) -> Iterator[Owned]:
    """For one commit: what was made goes away again if the commit surely failed."""
    owned = Owned(files)
    try:
        yield owned
    except BaseException as error:
        if not may_stand(error):
            with suppress(TrickleError):  # the error that ended the commit is the one to show
                owned.remove()
        raise
