"""The rows near a delta: of each source just those that an equality ties to a changed row.

Starting from the changes, the needs of a delta plan are met one source at a time, each by the
values that those before it have found. What comes of it is small enough to be worked on as Arrow
tables; where it would not be, the answer is None and the delta reads its sources itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.compile import PartDelta
from spark_trickle.delta.keys.needs import KeyBounds, Need, Origins, by_deltas
from spark_trickle.ir.types import Side
from spark_trickle.ir.walk import scans
from spark_trickle.maintain.gather.finding import may_pass
from spark_trickle.storage.files.by_columns import grouped
from spark_trickle.storage.files.types import arrow_type
from spark_trickle.storage.read.search import Restriction, meets
from spark_trickle.storage.records import WEIGHT, Table

_HALF = 2
"""A source that nothing ties to a delta is near as a whole if it has half of the rows, or fewer,
that may be near."""
CUT = 1_000
"""A delta of so few rows is not worth cutting down."""
_COUNT = "__trickle_count"


BEFORE, AFTER = "__trickle_before", "__trickle_after"
MARKS = {Side.BEFORE: BEFORE, Side.AFTER: AFTER, Side.DELTA: WEIGHT}


@dataclass(frozen=True)
class Nearby:
    """The rows of a source near a delta, at both versions; they differ by the source's delta."""

    rows: pa.Table
    """If the source changed, with marks: ``BEFORE`` and ``AFTER`` are 1 where the side has the
    row, else 0; ``WEIGHT`` stands at the first of equal rows. If its change alone is read: that."""
    changed: bool


def columns_read(delta: PartDelta) -> dict[str, set[str]]:
    """The columns that are read of each source that is read at before or after, delta included."""
    found = (*scans(delta.plan), *scans(delta.nearby))
    read = {scan.source: set[str]() for scan in found if scan.side is not Side.DELTA}
    for scan in found:
        read.get(scan.source, set()).update(column.name for column in scan.columns)
    return read


class Finder(Protocol):
    """Reads sources as they are after their change."""

    def cost(self, source: str) -> int:
        """Of reading the source; only the order matters."""

    def expected(self, source: str, restriction: Restriction) -> float:
        """About how many rows meet a restriction; an empty one is met by all."""

    def find(self, source: str, restrictions: Sequence[Restriction], most: int) -> pa.Table | None:
        """The rows that meet one of the restrictions, in the columns that are needed of the source.

        None if they are more than ``most``, or too large to be held here.
        """


def nearby(
    sources: Iterable[str],
    needs: Sequence[Need],
    deltas: Mapping[str, pa.Table],
    finder: Finder,
    most: int,
    cut: int = CUT,
) -> dict[str, Nearby] | None:
    """The rows of the sources near ``deltas``, which are net and have weights.

    Of a source that is read at DELTA only, and of more than ``cut`` rows, those that meet something;
    such deltas also lead to nothing by rows that meet nothing.
    None if more than ``most`` rows of a source are near.
    """
    for need in needs:
        endless = need.side is not Side.DELTA and not need.keys
        if endless and finder.expected(need.source, {}) > most // _HALF:
            return None
    search = _Search(needs, deltas, finder, most, cut)
    while search.waiting:
        if not search.step():
            return None
    near = {}
    for source in sources:
        found = search.found.get(source) or [finder.find(source, [], most)]
        near[source] = _versions([rows for rows in found if rows is not None], deltas.get(source))
    for source in {need.source for need in needs if need.side is Side.DELTA} - near.keys():
        if deltas[source].num_rows > cut:
            near[source] = Nearby(search.meeting(source), True)
    return near


class _Search:
    """``rows`` are those of each need that was met, ``found`` all that was read of each source."""

    def __init__(
        self,
        needs: Sequence[Need],
        deltas: Mapping[str, pa.Table],
        finder: Finder,
        most: int,
        cut: int,
    ) -> None:
        self._most = most
        self._cut = cut
        self._needs = needs
        self._deltas = deltas
        self._finder = finder
        self._values: dict[Origins, pa.Array] = {}
        self.rows: dict[int, pa.Table] = {}
        self.found: dict[str, list[pa.Table]] = {}
        self.waiting: set[int] = set()
        for number, need in enumerate(needs):
            if need.side is Side.DELTA:
                self.rows[number] = _sieved(deltas[need.source], need)
            else:
                self.waiting.add(number)
        self._tight = 4 * sum(rows.num_rows for rows in deltas.values()) + 1000

    def step(self) -> bool:
        """Meet all needs of one source that can be met well by what is known."""
        restrictions = {n: self._choice(self._needs[n].keys) for n in self.waiting}
        expected = {
            number: self._finder.expected(self._needs[number].source, restriction)
            for number, restriction in restrictions.items()
        }
        tied = {n for n in self.waiting if restrictions[n] or not self._needs[n].keys}
        whole = self._most // _HALF
        for waiting, limit in ((tied, self._tight), (tied, self._most), (self.waiting, whole)):
            ready = [number for number in waiting if expected[number] <= limit]
            if ready:
                sources = {self._needs[number].source for number in ready}
                source = min(sources, key=lambda name: (self._finder.cost(name), name))
                chosen = [n for n in sorted(ready) if self._needs[n].source == source]
                return self._read(source, {number: restrictions[number] for number in chosen})
        return False

    def meeting(self, source: str) -> pa.Table:
        """The rows of a delta that meet something of what was found."""
        rows = self._deltas[source]
        needed = np.zeros(rows.num_rows, dtype=bool)
        for need in self._needs:
            if (need.source, need.side) == (source, Side.DELTA):
                met = meets(rows, [self._choice(need.ties)]).to_numpy(False)
                passed = may_pass(rows, need.tests)
                needed |= met if passed is None else met & passed
        return rows.filter(pa.array(needed))

    def _cut_deltas(self, met: Collection[int]) -> None:
        """Rows of a delta that meet nothing of what was found lead to nothing either."""
        for number, need in enumerate(self._needs):
            told = {n for bounds in need.ties.values() for origins in bounds for n, _ in origins}
            rows = self.rows.get(number)
            if rows is None or rows.num_rows <= self._cut or told.isdisjoint(met):
                continue
            left = rows.filter(meets(rows, [self._choice(need.ties)]))
            if left.num_rows < rows.num_rows:
                self.rows[number] = left
                self._values = {o: v for o, v in self._values.items() if number not in dict(o)}

    def _choice(self, keys: KeyBounds) -> dict[str, pa.Array]:
        """The values that are known for each column."""
        restriction = {}
        for column, bounds in keys.items():
            known = [self._values_at(o) for o in bounds if all(n in self.rows for n, _ in o)]
            exact = [values for values in known if values is not None]
            if exact:
                restriction[column] = _in_all(exact)
        return restriction

    def _values_at(self, origins: Origins) -> pa.Array | None:
        if origins not in self._values:
            parts = [self.rows[number].column(column) for number, column in origins]
            if any(inexact(part.type) for part in parts):
                return None
            self._values[origins] = distinct(parts)
        return self._values[origins]

    def _read(self, source: str, restrictions: Mapping[int, Restriction]) -> bool:
        possible = [c for c in restrictions.values() if all(len(values) for values in c.values())]
        rows = self._finder.find(source, _without_repetition(possible), self._most)
        if rows is None:
            return False
        gone = self._deltas.get(source)
        both = rows
        if gone is not None:
            both = pa.concat_tables([rows, gone.select(rows.column_names).cast(rows.schema)])
        needed = np.zeros(both.num_rows, dtype=bool)
        for number, restriction in restrictions.items():
            met = meets(both, [restriction]).to_numpy(False)
            passed = may_pass(both, self._needs[number].tests)
            met = met if passed is None else met & passed
            needed |= met
            self.rows[number] = both.filter(pa.array(met))
            self.waiting.remove(number)
        self._cut_deltas(restrictions)
        self.found.setdefault(source, []).append(rows.filter(pa.array(needed[: rows.num_rows])))
        return True


def told(
    needs: Sequence[Need], deltas: Mapping[str, object], source: str, side: Side
) -> list[Restriction]:
    """The values that rows of a source must have to be needed, where deltas tell; [] if not."""
    restrictions: list[Restriction] = []
    for keys in by_deltas(needs).get((source, side)) or ():
        restriction = {}
        for column, bounds in keys.items():
            known = [_in_deltas(needs, deltas, origins) for origins in bounds]
            if values := [each for each in known if each is not None]:
                restriction[column] = min(values, key=len)
        if not restriction:
            return []
        restrictions.append(restriction)
    return restrictions


def _in_deltas(
    needs: Sequence[Need], deltas: Mapping[str, object], origins: Origins
) -> pa.Array | None:
    found = [(deltas.get(needs[number].source), column) for number, column in origins]
    parts = [rows.column(column) for rows, column in found if isinstance(rows, pa.Table)]
    if len(parts) < len(found) or any(inexact(part.type) for part in parts):
        return None
    return distinct(parts)


def _sieved(rows: pa.Table, need: Need) -> pa.Table:
    passed = may_pass(rows, need.tests)
    return rows if passed is None else rows.filter(pa.array(passed))


def inexact(type: pa.DataType) -> bool:
    """Whether Arrow does not compare the values as Spark does."""
    return bool(pa.types.is_nested(type) or pa.types.is_floating(type))


def countable(table: Table, columns: Sequence[str]) -> bool:
    """Whether rows of these columns can be counted by their values."""
    types = {column.name: arrow_type(column) for column in table.columns}
    return bool(columns) and not any(pa.types.is_nested(types[name]) for name in columns)


def distinct(parts: Iterable[pa.ChunkedArray]) -> pa.Array:
    """The values that occur in any of the parts."""
    chunks = [part.unique() for part in parts]
    if len({chunk.type for chunk in chunks}) > 1:
        chunks = [chunk.cast(pa.int64()) for chunk in chunks]
    return pa.concat_arrays(chunks).unique()


def _in_all(sets: Sequence[pa.Array]) -> pa.Array:
    smallest = min(sets, key=len)
    for values in sets:
        if values is not smallest:
            smallest = smallest.filter(
                pc.is_in(smallest, value_set=values.cast(smallest.type, safe=False))
            )
    return smallest


def _without_repetition(restrictions: Sequence[Restriction]) -> list[Restriction]:
    """Choices that differ; one without any condition stands for all."""
    if any(not restriction for restriction in restrictions):
        return [{}]
    kept: list[Restriction] = []
    for restriction in restrictions:
        if not any(_same(restriction, other) for other in kept):
            kept.append(restriction)
    return kept


def _same(one: Restriction, other: Restriction) -> bool:
    return one.keys() == other.keys() and all(one[k].equals(other[k]) for k in one)


def _versions(found: Sequence[pa.Table], delta: pa.Table | None) -> Nearby:
    """What was read, and the delta taken back from it.

    Law: a read gives all copies of a row or none, so of several reads the largest count is right.
    A row that came with the delta but was not met is there after it, as often as it came.
    """
    names = found[0].column_names
    if delta is None and len(found) == 1:
        return Nearby(found[0], False)
    counted = [_counted(rows, names) for rows in found]
    count = grouped(pa.concat_tables(counted), names, [(_COUNT, "max")])
    count = count.rename_columns([*names, _COUNT])
    if delta is None:
        return Nearby(_repeated(count.select(names), count.column(_COUNT).to_numpy()), False)
    schema = count.schema.append(pa.field(WEIGHT, pa.int64()))
    zero = pa.repeat(pa.scalar(0, pa.int64()), delta.num_rows)
    moved = delta.select([*names, WEIGHT]).add_column(len(names), _COUNT, zero).cast(schema)
    still = pa.repeat(pa.scalar(0, pa.int64()), count.num_rows)
    both = pa.concat_tables([count.append_column(WEIGHT, still), moved])
    both = grouped(both, names, [(_COUNT, "max"), (WEIGHT, "sum")])
    there = both.column(f"{_COUNT}_max").to_numpy()
    weight = both.column(f"{WEIGHT}_sum").to_numpy()
    after = np.where(there > 0, there, np.maximum(weight, 0))
    return Nearby(_marked(both.select(names), after - weight, after), True)


def _marked(rows: pa.Table, before: np.ndarray, after: np.ndarray) -> pa.Table:
    """Each row as often as the side has it that has more, with marks."""
    most = np.maximum(before, after)
    places = np.repeat(np.arange(rows.num_rows), most)
    copy = np.arange(len(places)) - np.repeat(np.cumsum(most) - most, most)
    marks = {
        BEFORE: copy < before[places],
        AFTER: copy < after[places],
        WEIGHT: np.where(copy == 0, (after - before)[places], 0),
    }
    rows = rows.take(pa.array(places))
    for name, mark in marks.items():
        rows = rows.append_column(name, pa.array(mark.astype(np.int64)))
    return rows


def _counted(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    return grouped(rows, names, [([], "count_all")]).rename_columns([*names, _COUNT])


def _repeated(rows: pa.Table, counts: np.ndarray) -> pa.Table:
    return rows.take(pa.array(np.repeat(np.arange(rows.num_rows), counts)))
