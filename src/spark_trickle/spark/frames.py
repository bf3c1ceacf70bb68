"""Scan plans as DataFrames.

Law: a row of a file is in the DataFrame iff the plan's version sees it. Files are read by one scan
that tests a bit of each row's position; files with very many dead rows go through an anti join on
one int64 key (crc32 of the file's name shifted by 31 bits, plus the row's position), unique because
the names' checksums are.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import types as t

from spark_trickle.errors import CatalogError, InternalError
from spark_trickle.spark import bitmaps
from spark_trickle.spark.asked import asked, shown
from spark_trickle.spark.bitmaps import KEY, POSITION_BITS
from spark_trickle.spark.constants import among_ranges, constant
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.known import may_be_named, read_named
from spark_trickle.spark.sessions.classic import active_kept
from spark_trickle.spark.sessions.names import drop_view
from spark_trickle.spark.types import FIELD_ID, spark_schema
from spark_trickle.storage.files.disk import LOST_FILE
from spark_trickle.storage.files.filesystem import FileSystem
from spark_trickle.storage.records import (
    FILE_ROW_ID,
    FILE_ROW_ID_FIELD,
    FILE_VERSION,
    FILE_VERSION_FIELD,
    ROW_ID,
    DataFile,
    ScanPlan,
    Table,
)

ROW = "__trickle_row"
"""Hidden column of located scans: the row id."""
_BEGIN = "__trickle_begin"
_CACHED = 256
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
"""Names that Spark's metadata show as they are; what else there is in a path is escaped there."""
_DECODED = "url_decode(replace(regexp_replace(_metadata.file_path, '^file:/+', '/'), '+', '%2B'))"


@dataclass(frozen=True)
class _Group:
    """What files must share to be read by one Spark scan."""

    names: frozenset[tuple[int, str]] | None
    missing: frozenset[int]
    after: int | None
    through: int | None
    joined: bool
    """Whether they have more dead rows than a test of each position is good for."""
    has_row_ids: bool
    doubtful: frozenset[int]


class FileKeys:
    """The int64 keys of rows in a set of files."""

    def __init__(self, files: Iterable[DataFile]) -> None:
        self._files = tuple(files)
        names = {os.path.basename(f.path) for f in self._files}
        distinct = len(names) == len({f.path for f in self._files})
        self._whole_path = not distinct or not all(_PLAIN.fullmatch(name) for name in names)
        self.salt = 0
        while len({self.code(f) for f in self._files}) < len({f.path for f in self._files}):
            self.salt += 1

    def code(self, file: DataFile) -> int:
        whole = FileSystem().for_spark(file.path).removeprefix("file://")
        name = whole if self._whole_path else os.path.basename(file.path)
        return zlib.crc32((name + self._suffix).encode())

    @property
    def _suffix(self) -> str:
        return str(self.salt) if self.salt else ""

    @property
    def code_text(self) -> str:
        """SQL text of the checksum of a row's file in a Parquet scan."""
        name = _DECODED if self._whole_path else "_metadata.file_name"
        if self._suffix:
            name = f"concat({name}, '{self._suffix}')"
        return f"crc32(cast({name} AS BINARY))"

    @property
    def text(self) -> str:
        """SQL text of the key of a row of a Parquet scan."""
        return f"shiftleft({self.code_text}, {POSITION_BITS}) + _metadata.row_index"

    def encode(self, file: DataFile, positions: pa.Array) -> pa.Array:
        return pc.add(positions, pa.scalar(self.code(file) << POSITION_BITS, pa.int64()))

    def decode(self, keys: pa.Array) -> tuple[pa.Array, pa.Array]:
        """File ids and positions."""
        codes = pc.shift_right(keys, pa.scalar(POSITION_BITS, pa.int64()))
        positions = pc.bit_wise_and(keys, pa.scalar((1 << POSITION_BITS) - 1, pa.int64()))
        known = pa.array([self.code(f) for f in self._files], pa.int64())
        ids = pa.array([f.id for f in self._files], pa.int64())
        places = pc.index_in(codes, value_set=known)
        if places.null_count > codes.null_count:
            raise InternalError("Spark named a row of a file that was not asked for")
        return ids.take(places), positions

    def by_file(self, keys: pa.Array) -> dict[int, pa.Array]:
        """Positions by file id."""
        files, positions = self.decode(keys)
        return {file.as_py(): positions.filter(pc.equal(files, file)) for file in pc.unique(files)}


class Frames:
    """DataFrames and temporary views of scan plans, kept per (table, file set)."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._frames: OrderedDict[str, DataFrame] = OrderedDict()
        self._views: dict[str, str] = {}
        self.files_opened = 0
        self.bytes_opened = 0

    def scan(self, plan: ScanPlan, *, located: bool = False) -> DataFrame:
        """The plan's rows: the table's columns, and KEY and ROW when ``located``."""
        return self._frame(_fingerprint(plan, located), plan, located)

    def view(self, plan: ScanPlan, *, located: bool = False) -> str:
        """The name of a temporary view of the plan's rows."""
        key = _fingerprint(plan, located)
        frame = self._frame(key, plan, located)
        if key not in self._views:
            name = f"__trickle_{uuid4().hex}"
            frame.createTempView(name)
            self._views[key] = name
        return self._views[key]

    def local_view(self, rows: pa.Table) -> str:
        """A temporary view of Arrow rows."""
        return self.frame_view(arrow_frame(self.spark, rows))

    def frame_view(self, frame: DataFrame) -> str:
        """A temporary view of a query's rows."""
        name = f"__trickle_{uuid4().hex}"
        frame.createTempView(name)
        self._views[name] = name
        self._keep(name, frame)
        return name

    def _frame(self, key: str, plan: ScanPlan, located: bool) -> DataFrame:
        check_present(plan.table, plan.files)
        self.files_opened += len(plan.files)
        self.bytes_opened += plan.bytes
        if key in self._frames:
            self._frames.move_to_end(key)
            return self._frames[key]
        with spark_errors():
            frame = scan_frame(self.spark, plan, located=located)
        self._keep(key, frame)
        return frame

    def _keep(self, key: str, frame: DataFrame) -> None:
        self._frames[key] = frame
        while len(self._frames) > _CACHED:
            self._drop(next(iter(self._frames)))

    def _drop(self, key: str) -> None:
        del self._frames[key]
        view = self._views.pop(key, None)
        if view is not None:
            drop_view(self.spark, view)

    def close(self) -> None:
        for key in list(self._frames):
            self._drop(key)


def check_present(table: Table, files: Sequence[DataFile]) -> None:
    """CatalogError that names a local file which the catalog lists and the disk lacks."""
    lost = table.files.missing(file.path for file in files)
    if lost is not None:
        raise CatalogError(
            f"the data file {lost} is missing",
            hint=LOST_FILE,
        )


def scan_frame(spark: SparkSession, plan: ScanPlan, *, located: bool) -> DataFrame:
    keys = FileKeys(plan.files)
    parts = [
        read_group(spark, plan.table, group, files, keys, located=located)
        for group, files in grouped(plan.table, plan.files, located=located)
    ]
    if plan.within:
        tests = among_ranges(plan.table, plan.within)
        parts = [part.where(tests) for part in parts]
    if plan.inlined.num_rows or not parts:
        parts.append(_inlined(spark, plan, located))
    return union(parts)


def union(parts: Sequence[DataFrame]) -> DataFrame:
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionAll(part)
    return frame


def grouped(
    table: Table, files: Iterable[DataFile], *, located: bool
) -> list[tuple[_Group, list[DataFile]]]:
    filled = {c.id for c in table.columns if c.initial_default is not None}
    groups: dict[_Group, list[DataFile]] = {}
    files = list(files)
    dead = {place: file.deleted for place, file in enumerate(files) if len(file.deleted)}
    many = bool(dead) and not bitmaps.sparse(dead)
    for file in files:
        group = _Group(
            file.names,
            frozenset(file.missing & filled),
            file.inserted_after,
            file.inserted_through,
            many and len(file.deleted) > 0,
            located and file.has_row_ids,
            file.doubtful,
        )
        groups.setdefault(group, []).append(file)
    return list(groups.items())


def read_group(
    spark: SparkSession,
    table: Table,
    group: _Group,
    files: list[DataFile],
    keys: FileKeys,
    *,
    located: bool,
    versions: bool = False,
) -> DataFrame:
    """The rows of files; ``located``: with KEY and ROW, ``versions``: these and FILE_VERSION."""
    columns = asked(table.columns, group.names, group.doubtful)
    present = [c for c in columns if c.id not in group.missing]
    schema = spark_schema(present, ids=group.names is None)
    if group.after is not None or group.through is not None or versions:
        schema.add(FILE_VERSION, t.LongType(), True, {FIELD_ID: FILE_VERSION_FIELD})
    if located and group.has_row_ids:
        schema.add(FILE_ROW_ID, t.LongType(), True, {FIELD_ID: FILE_ROW_ID_FIELD})
    frame = _opened(spark, table, schema, files)
    dead = {keys.code(file): file.deleted for file in files if len(file.deleted)}
    if dead and not group.joined:
        frame = bitmaps.living(spark, frame, dead, keys.code_text)
    plain = columns is table.columns and len(schema) == len(present)
    if plain and not (located or group.joined or group.missing):
        return frame
    # Texts and not Column objects: each of those is a call or more to the Java side.
    hidden = [f"{keys.text} AS {KEY}"] if located or group.joined else []
    hidden += [f"{_row_id(group, files, keys)} AS {ROW}"] if located else []
    begins = {keys.code(file): file.begin for file in files}
    hidden += [f"{_by_file(begins, keys)} AS {_BEGIN}"] if versions else []
    frame = _in_versions(frame.selectExpr("*", *hidden), group)
    if group.joined:
        frame = bitmaps.without(spark, frame, dead)
    pairs = list(zip(table.columns, columns, strict=True))
    for column, inside in pairs:
        if column.id in group.missing:
            frame = frame.withColumn(inside.name, constant(column))
    own = [shown(*pair) for pair in pairs]
    if versions:
        own.append(f"coalesce({FILE_VERSION}, {_BEGIN}) AS {FILE_VERSION}")
    return frame.selectExpr(*own, *([KEY, ROW] if located else []))


def _in_versions(frame: DataFrame, group: _Group) -> DataFrame:
    """The rows that the versions of a window inserted."""
    if group.after is not None:
        frame = frame.where(f"{FILE_VERSION} > {group.after}")
    if group.through is not None:
        frame = frame.where(f"{FILE_VERSION} <= {group.through}")
    return frame


def _opened(
    spark: SparkSession, table: Table, schema: t.StructType, files: Sequence[DataFile]
) -> DataFrame:
    reader = parquet_reader(spark, schema)
    if all(table.files.stored(file.path) for file in files) and may_be_named(spark):
        return read_named(reader, [(table.files.escaped(f.path), f.bytes) for f in files])
    return reader.parquet(*(table.files.pattern(file.path) for file in files))


def parquet_reader(spark: SparkSession, schema: t.StructType) -> DataFrameReader:
    reader = spark.read.schema(schema)
    # Our files are in today's calendar, whatever the session says of other files.
    for key in ("datetimeRebaseMode", "int96RebaseMode"):
        reader = reader.option(key, "CORRECTED")
    return reader


def _row_id(group: _Group, files: list[DataFile], keys: FileKeys) -> str:
    if group.has_row_ids:
        return FILE_ROW_ID
    starts = {keys.code(file): file.row_id_start or 0 for file in files}
    return f"{_by_file(starts, keys)} + _metadata.row_index"


def _by_file(numbers: Mapping[int, int], keys: FileKeys) -> str:
    """SQL text of a number that is known of each file by its code."""
    if len(numbers) == 1:
        return f"{next(iter(numbers.values()))}L"
    pairs = ", ".join(f"{code}L, {number}L" for code, number in numbers.items())
    return f"element_at(map({pairs}), {keys.code_text})"


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _inlined(spark: SparkSession, plan: ScanPlan, located: bool) -> DataFrame:
    names = [c.name for c in plan.table.columns]
    frame = local_frame(spark, plan.table, plan.inlined.select([*names, ROW_ID]), [ROW_ID])
    if not located:
        return frame.drop(ROW_ID)
    hidden = [f"CAST(NULL AS BIGINT) AS {KEY}", f"{ROW_ID} AS {ROW}"]
    return frame.selectExpr(*(quote(name) for name in names), *hidden)


def local_frame(
    spark: SparkSession, table: Table, rows: pa.Table, extra: Sequence[str] = ()
) -> DataFrame:
    """Arrow rows of a table as a local relation; ``extra`` are int64 columns after the table's."""
    schema = spark_schema(table.columns, ids=False)
    for name in extra:
        schema.add(name, t.LongType())
    return arrow_frame(spark, rows, schema)


def arrow_frame(
    spark: SparkSession, rows: pa.Table, schema: t.StructType | None = None
) -> DataFrame:
    """Arrow rows as a DataFrame; the active session stays the active one."""
    # Spark stops reading at an empty batch, so chunks (some may be empty) must become one.
    rows = rows.combine_chunks()
    with active_kept(spark):
        if schema is None:
            return spark.createDataFrame(rows)
        return spark.createDataFrame(rows, schema)


def _fingerprint(plan: ScanPlan, located: bool) -> str:
    """Equal iff the plans show the same rows of the same files under the same names."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((located, plan.table.id, plan.table.columns, plan.within)).encode())
    for file in plan.files:
        window = (file.path, file.inserted_after, file.inserted_through, len(file.deleted))
        digest.update(repr(window).encode())
        if len(file.deleted):
            digest.update(_buffer(file.deleted))
    if plan.inlined.num_rows:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, plan.inlined.schema) as stream:
            stream.write_table(plan.inlined)
        digest.update(sink.getvalue())
    return digest.hexdigest()


def _buffer(positions: pa.Array) -> Any:
    return positions.to_numpy(zero_copy_only=False).tobytes()
