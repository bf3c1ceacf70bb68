"""Where lost rows are stored: found in this process, reading no more than tells them apart.

Law: contents(before) hold every lost row. So where a key has just as many stored rows as lost ones,
they are these rows, and the key alone finds them; the other columns are compared where reading them
is cheap, and where a key has more rows than are lost.

Rows are keys of a dictionary, equal iff Spark's ``<=>`` holds in every column: NaN equals NaN, -0.0
equals 0.0, NULL equals NULL; nested values compare by their parts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.settings import Limits
from spark_trickle.storage.files.values import plain
from spark_trickle.storage.read.search import Search
from spark_trickle.storage.records import ROW_ID, WEIGHT, Column

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run

RowKey = tuple[Any, ...]
_NAN = ("NaN",)


def row_keys(rows: pa.Table, columns: Sequence[str]) -> list[RowKey]:
    """One key per row, over the given columns."""
    if not columns:
        return [()] * int(rows.num_rows)
    values = [_keys(rows.column(name)) for name in columns]
    return list(zip(*values, strict=True))


def some_of(rows: pa.Table, columns: Sequence[str], others: pa.Table) -> pa.Array:
    """Indices of the rows that may equal one of the others in these columns, judged one by one."""
    chosen = pa.array(np.arange(rows.num_rows))
    for name in columns:
        wanted = others.column(name)
        if not _inexact(wanted.type):
            values = rows.column(name).take(chosen)
            chosen = chosen.filter(pc.is_in(values, value_set=wanted.combine_chunks().unique()))
    return chosen


def equal_in_arrow(type: str) -> bool:
    """Whether values of a Spark type are equal just when their Arrow values are."""
    return not type.startswith(("float", "double", "array", "struct", "map", "variant"))


def _inexact(type: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type) or pa.types.is_floating(type))


def _keys(column: pa.ChunkedArray) -> Iterable[Any]:
    values = plain(column)
    if _inexact(column.type):
        return [_key(value) for value in values]
    return values


def _key(value: Any) -> Any:
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in value.items())
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map
        return frozenset((_key(name), _key(item)) for name, item in value)
    if isinstance(value, list):
        return tuple(_key(item) for item in value)
    return value


def subtract(rows: pa.Table, others: pa.Table) -> pa.Table:
    """``rows`` (with weights) minus ``others`` (each of weight 1), net."""
    names = [name for name in rows.column_names if name != WEIGHT]
    weights: Counter[RowKey] = Counter()
    places: dict[RowKey, int] = {}
    for place, (key, weight) in enumerate(
        zip(row_keys(rows, names), rows.column(WEIGHT).to_pylist(), strict=True)
    ):
        weights[key] += weight
        places.setdefault(key, place)
    for place, key in enumerate(row_keys(others, names), start=rows.num_rows):
        weights[key] -= 1
        places.setdefault(key, place)
    left = [(places[key], weight) for key, weight in weights.items() if weight]
    both = pa.concat_tables([rows.select(names), others.select(names)])
    chosen = both.take(pa.array([place for place, _ in left], pa.int64()))
    return chosen.append_column(WEIGHT, pa.array([weight for _, weight in left], pa.int64()))


COMPARED = 1 << 20
"""Rows that their key alone finds are compared as a whole where that reads no more than this."""
SHARED = 10
"""A key that more rows share than this, for each lost one, is not worth listing them all."""


@dataclass
class Found:
    """Places of rows: positions by file, and row ids of rows in the catalog."""

    positions: dict[int, list[int]] = field(default_factory=dict)
    row_ids: list[int] = field(default_factory=list)
    count: int = 0
    unclear: set[RowKey] = field(default_factory=set)
    """Keys of lost rows that have other rows too."""
    strange: int = 0
    """Rows with a unique key that are there twice, or are not what was to be lost."""

    def add(self, file: int | None, place: int) -> None:
        (self.row_ids if file is None else self.positions.setdefault(file, [])).append(place)
        self.count += 1


Candidate = tuple[RowKey, int | None, int]
"""The values of a row, its file (None: in the catalog), and its position or row id."""


def searchable(search: Search, names: Sequence[str], limits: Limits) -> bool:
    """Whether rows can be found by these columns in this process at little cost."""
    files = search.plan.files
    if len(files) > limits.read_files or any(file.filtered for file in files):
        return False
    columns = _columns(search, names)
    if not any(equal_in_arrow(c.type) for c in columns) and search.plan.rows > limits.worked_rows:
        return False
    return search.bytes(columns) <= limits.searched_bytes


def find_rows(run: Run, search: Search, names: Sequence[str], lost: pa.Table) -> Found:
    """A place for every lost row that is there, by the values of these columns."""
    missing = weights(lost, names)
    found = Found()
    for values, file, place in _candidates(run, search, names, lost, missing):
        found.add(file, place)
        if missing[values] == 1:
            del missing[values]
        else:
            missing[values] -= 1
    return found


def find_unique(run: Run, search: Search, keys: Sequence[str], lost: pa.Table) -> Found:
    """A place for every lost row, by a key that no two rows share.

    Law: what is stored under the key is the lost row. Its other columns are compared where they are
    read at little cost.
    """
    columns = [column.name for column in search.plan.table.columns]
    cheap = search.bytes(_columns(search, columns)) <= COMPARED
    names = [*keys, *(name for name in columns if cheap and name not in keys)]
    wanted = dict(zip(row_keys(lost, keys), row_keys(lost, names), strict=True))
    missing = Counter(wanted.keys())
    found = Found()
    for key, values, file, place in _rows(run, search, keys, names, lost, missing):
        if missing[key] == 1 and values == wanted[key]:
            missing[key] = 0
            found.add(file, place)
        else:
            found.strange += 1
    return found


def find_by_key(run: Run, search: Search, keys: Sequence[str], lost: pa.Table) -> Found | None:
    """Places of the lost rows whose key no other row has; None if too many rows share the keys."""
    missing = weights(lost, keys)
    most = SHARED * missing.total()
    places: dict[RowKey, list[tuple[int | None, int]]] = {}
    for number, (key, file, place) in enumerate(_candidates(run, search, keys, lost, missing)):
        if number > most:
            return None
        places.setdefault(key, []).append((file, place))
    found = Found(unclear={key for key, seen in places.items() if len(seen) > missing[key]})
    for key, seen in places.items():
        if key not in found.unclear:
            for file, place in seen:
                found.add(file, place)
    return found


def weights(lost: pa.Table, names: Sequence[str]) -> Counter[RowKey]:
    """How many rows are lost, by the values of these columns."""
    counted = Counter[RowKey]()
    for key, weight in zip(row_keys(lost, names), lost.column(WEIGHT).to_pylist(), strict=True):
        counted[key] -= weight
    return counted


def _candidates(
    run: Run, search: Search, names: Sequence[str], lost: pa.Table, missing: Counter[RowKey]
) -> Iterator[Candidate]:
    """Stored rows whose values are still missing; the caller takes out what it has found."""
    for key, _, file, place in _rows(run, search, names, names, lost, missing):
        yield key, file, place


def _rows(
    run: Run,
    search: Search,
    by: Sequence[str],
    names: Sequence[str],
    lost: pa.Table,
    missing: Counter[RowKey],
) -> Iterator[tuple[RowKey, RowKey, int | None, int]]:
    """Stored rows whose values in the columns ``by`` are missing, with those of ``names``."""
    inlined = search.plan.inlined
    rows = inlined.take(some_of(inlined, by, lost))
    for key, values, place in _keyed(rows, by, names, rows.column(ROW_ID)):
        if key in missing:
            yield key, values, None, place
    for piece in search.read(_columns(search, names)):
        run.note_read(piece.decoded, piece.bytes)
        chosen = some_of(piece.rows, by, lost)
        rows = piece.rows.take(chosen)
        for key, values, place in _keyed(rows, by, names, piece.positions.take(chosen)):
            if key in missing:
                yield key, values, piece.file.id, place
        if not +missing:
            return


def _keyed(
    rows: pa.Table, by: Sequence[str], names: Sequence[str], places: pa.Array
) -> Iterable[tuple[RowKey, RowKey, int]]:
    keys = row_keys(rows, by)
    values = keys if list(names) == list(by) else row_keys(rows, names)
    return zip(keys, values, places.to_pylist(), strict=True)


def _columns(search: Search, names: Sequence[str]) -> list[Column]:
    return [column for column in search.plan.table.columns if column.name in names]
