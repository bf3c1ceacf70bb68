"""What the storage layer hands out: immutable records of tables, files, plans and changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from spark_trickle.display import html_rows
from spark_trickle.storage.file_records import Bounds, DataFile, Files
from spark_trickle.storage.files.filesystem import FileSystem

__all__ = ["Bounds", "DataFile", "Files"]

ROW_ID = "__row_id"
"""Name of the row id column of inlined rows in plans."""
WEIGHT = "__weight"
"""Name of the weight column of inlined rows in change plans."""
FILE_ROW_ID = "_ducklake_internal_row_id"
"""Parquet column (field id below) that holds row ids where they are not start + position."""
FILE_ROW_ID_FIELD = 2147483540
FILE_VERSION = "_ducklake_internal_snapshot_id"
"""Parquet column (field id below) that says in which version each row of the file was inserted."""
FILE_VERSION_FIELD = 2147483539
DEFAULT_SCHEMA = "main"
HIDDEN_SCHEMA = "__trickle"
"""The schema of tables that hold private state; users do not see it listed."""
RESERVED_SCHEMAS = {
    "trickle": "its relations tell of stream tables",
    "information_schema": "its relations tell what the lake holds",
    "pgtrickle": "its functions and relations are pg_trickle's",
    "pgivm": "its functions and relations are pg_ivm's",
}
"""Names that queries read otherwise than as schemas of the lake, in lower case."""
_OUR_PREFIXES = ("__trickle", "__beside_", "_ducklake_internal_")
_OUR_NAMES = frozenset({ROW_ID, WEIGHT, "__row", "__rows", "__kept", "__branch", "__position"})


def is_reserved(column: str) -> bool:
    """Whether the name of a column is one that may stand beside users' columns in our own queries.

    New names of ours begin with ``__trickle_``.
    """
    return column.lower().startswith(_OUR_PREFIXES) or column.lower() in _OUR_NAMES


@dataclass(frozen=True)
class TableName:
    """A two-part name, in the spelling of its creator; compared without regard to case."""

    schema: str
    name: str

    @classmethod
    def of(cls, name: str | TableName) -> TableName:
        """A name from text such as ``t``, ``s.t`` or `` `odd.schema`.`odd name` ``."""
        if isinstance(name, TableName):
            return name
        parts = name_parts(name)
        if len(parts) == 1:
            return cls(DEFAULT_SCHEMA, parts[0])
        return cls(".".join(parts[:-1]), parts[-1])

    @cached_property
    def key(self) -> tuple[str, str]:
        """What two spellings of one name have in common."""
        return self.schema.lower(), self.name.lower()

    def __str__(self) -> str:
        """Text that ``of`` reads as this name."""
        if self.schema == DEFAULT_SCHEMA:
            return spelled(self.name)
        return f"{spelled(self.schema)}.{spelled(self.name)}"


def spelled(name: str) -> str:
    """One part of a name, in backticks where it holds a point or a backtick."""
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name


def name_parts(text: str) -> list[str]:
    """The parts of a name."""
    if "`" not in text:
        return text.split(".")
    parts, part, quoted, i = [], "", False, 0
    while i < len(text):
        c = text[i]
        if c == "`":
            if quoted and text[i + 1 : i + 2] == "`":
                part += "`"
                i += 1
            else:
                quoted = not quoted
        elif c == "." and not quoted:
            parts.append(part)
            part = ""
        else:
            part += c
        i += 1
    return [*parts, part]


@dataclass(frozen=True)
class NewColumn:
    """A column to be made. ``type`` is Spark's text, such as ``decimal(12,2)``."""

    name: str
    type: str
    nullable: bool = True
    default: str | None = None
    """SQL text of the DEFAULT clause."""
    initial: Any = None
    """ADD COLUMN: the Python value (as pyarrow gives it) that rows already there shall have."""
    comment: str | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table at one version."""

    id: int
    """Unique in the table for ever; the Parquet field id."""
    name: str
    type: str
    """Spark's type text in simpleString form: ``int``, ``decimal(12,2)``, ``array<struct<a:int>>``."""
    nullable: bool = True
    default: str | None = None
    """SQL text of the DEFAULT clause."""
    initial_default: Any = None
    """What rows in files that are older than the column have (``DataFile.missing``): the Python
    value, but of a date or timestamp the number of days or microseconds since 1970."""
    children: tuple[Column, ...] = ()
    """Nested types: struct fields; ``element`` of an array; ``key`` and ``value`` of a map."""
    storage_type: str = ""
    """The catalog's name of the type."""
    comment: str | None = None
    length: int | None = None
    """Of VARCHAR(n), which is a string otherwise: the most characters of a value."""

    @property
    def declared(self) -> str:
        """The type as the user declared it."""
        return self.type if self.length is None else f"varchar({self.length})"


@dataclass(frozen=True)
class Table:
    """A table at one version. ``id`` is negative while the table exists in a transaction only."""

    id: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    uuid: str = ""
    location: str = ""
    """Folder of the table's files, absolute path or URI, ending in ``/``."""
    schema_version: int = 0
    """Version of the table's structure; two records with equal ids and this have the same columns."""
    comment: str | None = None

    files: FileSystem = field(default_factory=FileSystem, compare=False, repr=False)
    """The way to the table's files."""

    @cached_property
    def full_name(self) -> TableName:
        return TableName(self.schema, self.name)

    @property
    def sort_key(self) -> tuple[str, ...]:
        """The columns files are sorted by: CLUSTER BY, else the primary key."""
        return self.cluster_by or self.primary_key

    def __repr__(self) -> str:
        columns = ", ".join(f"{c.name} {c.declared}" for c in self.columns)
        key = f", PRIMARY KEY ({', '.join(self.primary_key)})" if self.primary_key else ""
        return f"Table({self}: {columns}{key})"

    def _repr_html_(self) -> str:
        rows = [
            (
                c.name,
                c.declared,
                "NULL" if c.nullable else "NOT NULL",
                c.default or "",
                c.comment or "",
            )
            for c in self.columns
        ]
        names = ("column", "type", "", "default", "comment")
        return html_rows(
            f"{self}{'' if self.comment is None else ': ' + self.comment}", names, rows
        )

    def column(self, name: str) -> Column | None:
        """The column of that name in any case, or None."""
        return self._by_name.get(name.lower())

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name.lower(): column for column in reversed(self.columns)}

    def __str__(self) -> str:
        return str(self.full_name)


@dataclass(frozen=True)
class View:
    """A query with a name. ``id`` is negative while it exists in a transaction only."""

    id: int
    schema: str
    name: str
    sql: str
    dialect: str = "spark"
    columns: tuple[str, ...] = ()
    """Names for the query's columns; none: its own."""
    uuid: str = ""
    comment: str | None = None

    @property
    def full_name(self) -> TableName:
        return TableName(self.schema, self.name)

    def __str__(self) -> str:
        return str(self.full_name)


@dataclass(frozen=True)
class Said:
    """What the author of a version says about it."""

    author: str | None = None
    message: str | None = None
    extra: str | None = None


Condition = tuple[Any, Any] | Iterable[Any]
"""``(low, high)``, inclusive, None for open; or a set, list or array of wanted values (NULL included)."""


Ranges = tuple[tuple[str, int | None, int | None], ...]
"""Columns of dates and timestamps with the lowest and the highest value (days, microseconds since
1970), None for open; NULL lies in no range."""


@dataclass(frozen=True)
class ScanPlan:
    """All there is to read for a table at a version (or inside a transaction)."""

    table: Table
    version: int
    files: Files | tuple[DataFile, ...]
    inlined: pa.Table
    """Rows kept in the catalog: the table's columns and ``ROW_ID``."""
    within: Ranges = ()
    """Of the files only the rows whose columns lie in these; of the inlined rows no others are here."""

    @property
    def rows(self) -> int:
        """How many there are; at most, where the plan has ranges."""
        files = self.files
        live = files.live if isinstance(files, Files) else sum(f.live for f in files)
        return live + int(self.inlined.num_rows)

    @property
    def decoded_rows(self) -> int:
        """How many rows are decoded to read them all: dead ones stand between the others."""
        return sum(f.rows for f in self.files) + int(self.inlined.num_rows)

    @property
    def bytes(self) -> int:
        """Bytes of the files, the inlined rows apart."""
        files = self.files
        return files.bytes if isinstance(files, Files) else sum(f.bytes for f in files)

    def prune(self, conditions: Mapping[str, Condition]) -> ScanPlan:
        """The plan without the files that cannot hold a row that meets all conditions."""
        from spark_trickle.storage.read.pruning import by_column, kept

        return replace(self, files=kept(self.files, [by_column(self.table, conditions)]))

    def ends(self, column: Column) -> tuple[Any, Any]:
        """The lowest low and the highest high of a column in the files, as far as they are known."""
        if isinstance(self.files, Files):
            return self.files.ends(column)
        found = [b for f in self.files if (b := f.bounds.get(column.id)) is not None]
        lows = (bounds.low for bounds in found if bounds.low is not None)
        highs = (bounds.high for bounds in found if bounds.high is not None)
        return min(lows, default=None), max(highs, default=None)

    def prune_to_any(self, sets: Iterable[Mapping[str, Condition]]) -> ScanPlan:
        """The plan without the files that cannot hold a row that meets all conditions of one set."""
        from spark_trickle.storage.read.pruning import by_column, kept

        return replace(self, files=kept(self.files, [by_column(self.table, s) for s in sets]))


@dataclass(frozen=True)
class FileChange:
    """Rows of one file that came (+1) or went (-1) between two versions."""

    file: DataFile
    weight: int
    rows: int
    positions: pa.Array | None = field(default=None, compare=False)
    """Exactly these positions, whatever else of the file is ``deleted``; None: all rows the file shows
    (not ``deleted``, inside its filter)."""


@dataclass(frozen=True)
class ChangePlan:
    """The net change of a table between two versions, from metadata alone.

    A row inserted and deleted inside the window appears nowhere (but see ``then``). Columns are those of ``table``
    (its structure at ``after``). Equal rows with opposite weights may both appear, as in an
    UPDATE that changes nothing.
    """

    table: Table
    before: int
    after: int
    files: tuple[FileChange, ...]
    inlined: pa.Table
    """Changes of inlined rows: the table's columns, ``ROW_ID`` and ``WEIGHT`` (int64)."""

    @property
    def empty(self) -> bool:
        return not self.files and self.inlined.num_rows == 0

    @property
    def insert_only(self) -> bool:
        return self.deleted_rows == 0

    @property
    def inserted_rows(self) -> int:
        return sum(f.rows for f in self.files if f.weight > 0) + self._inlined(1)

    @property
    def deleted_rows(self) -> int:
        return sum(f.rows for f in self.files if f.weight < 0) + self._inlined(-1)

    @property
    def decoded_rows(self) -> int:
        """How many rows are decoded where files are read as a whole, as Spark does."""
        return sum(f.file.rows for f in self.files) + int(self.inlined.num_rows)

    @property
    def bytes(self) -> int:
        """Bytes of the files that must be opened."""
        return sum({f.file.path: f.file.bytes for f in self.files}.values())

    def then(self, later: ChangePlan) -> ChangePlan:
        """This change and the one after it; a row that came and went again appears twice."""
        rows = pa.concat_tables([self.inlined, later.inlined])
        return replace(self, after=later.after, files=(*self.files, *later.files), inlined=rows)

    def _inlined(self, weight: int) -> int:
        return int(self.inlined.column(WEIGHT).to_pylist().count(weight))


@dataclass(frozen=True)
class NewFile:
    """A Parquet file to be added to a table; sizes and statistics are read from its footer."""

    path: str
    has_row_ids: bool = False
    """The file carries ``FILE_ROW_ID`` (rows moved or updated: they keep their ids)."""


@dataclass(frozen=True)
class Savepoint:
    """A mark inside a transaction."""

    token: int


Positions = Mapping[int, Sequence[int] | pa.Array]
"""Positions to delete by file id, as ``DataFile.id`` of the transaction's own scan."""
