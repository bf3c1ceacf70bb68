"""DuckDB as the outside judge: it shares no code with the package.

It runs the query texts on its own copy of the tables, which starts from the generated files and
follows the same changes, and compares results as multisets. That the lake's own tables are equal
to the copy is a test of its own (test_base_tables).

Two things are said to it beyond the text:

- *Ties at a LIMIT.* The rule of stream tables is that the remaining output columns, in order,
  break ties at the cut. All output columns are appended to the outermost ORDER BY, which is the
  same order.
- *Rounding.* AVG and ``/`` of decimals give DECIMAL with six digits after the point in Spark
  (AVG of DECIMAL(15,2) is DECIMAL(19,6); the quotients of q08, q14 and q17 have scale 6 too) and
  DOUBLE in DuckDB. Where DuckDB answers a DOUBLE, it is read as its shortest decimal form and
  rounded half up to the scale of the other side's decimal; nothing else is rounded, and the
  rounded values must be equal. A DOUBLE that meets anything but a DECIMAL is an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from spark_trickle.tpch.churn import Batch, NewRows
from spark_trickle.tpch.schema import TABLES

_LIMIT = re.compile(r"\blimit\s+(\d+)\s*$", re.IGNORECASE)


class Oracle:
    """An in-memory DuckDB with the eight tables."""

    def __init__(self) -> None:
        self._duck = duckdb.connect(":memory:", config={"threads": 2})

    @classmethod
    def of_parquet(cls, folder: Path) -> Oracle:
        """The generated data, untouched by the lake."""
        oracle = cls()
        for table in TABLES:
            path = str(folder / f"{table.name}.parquet")
            oracle._duck.execute(
                f"CREATE TABLE {table.name} AS SELECT * FROM read_parquet(?)", [path]
            )
        return oracle

    def follow(self, batches: Iterable[Batch]) -> None:
        """Do the changes that the lake has done."""
        for batch in batches:
            self._duck.execute("BEGIN")
            for step in batch.steps:
                if isinstance(step, NewRows):
                    self._duck.register("__incoming", step.rows)
                    self._duck.execute(f"INSERT INTO {step.table} BY NAME FROM __incoming")
                    self._duck.unregister("__incoming")
                else:
                    self._duck.execute(step.sql)
            self._duck.execute("COMMIT")

    def run(self, query: str) -> pa.Table:
        """The query's result, ties at a LIMIT broken."""
        columns = len(self._duck.sql(query).columns)
        return self._duck.sql(ordered(query, columns)).to_arrow_table()

    def table_difference(self, name: str, rows: pa.Table) -> Difference:
        """A whole table against the copy of it; DuckDB compares, because the rows are many."""
        self._duck.register("__incoming", rows)
        names = ", ".join(rows.column_names)
        ours, theirs = f"SELECT {names} FROM __incoming", f"SELECT {names} FROM {name}"
        extra = self._duck.sql(f"{ours} EXCEPT ALL {theirs}").fetchall()
        missing = self._duck.sql(f"{theirs} EXCEPT ALL {ours}").fetchall()
        (expected,) = self._duck.sql(f"SELECT count(*) FROM {name}").fetchone()
        self._duck.unregister("__incoming")
        return Difference(rows.num_rows, expected, Counter(extra), Counter(missing))

    def close(self) -> None:
        self._duck.close()


def ordered(query: str, columns: int) -> str:
    """The query with all output columns at the end of an ORDER BY that a LIMIT follows."""
    text = query.strip().rstrip(";")
    found = _LIMIT.search(text)
    if found is None:
        return text
    ordinals = ", ".join(str(place) for place in range(1, columns + 1))
    return f"{text[: found.start()].rstrip()}, {ordinals}\n{found.group(0)}"


@dataclass(frozen=True)
class Difference:
    """Two multisets that should have been equal."""

    got: int
    expected: int
    extra: Counter[tuple[Any, ...]]
    missing: Counter[tuple[Any, ...]]

    @property
    def same(self) -> bool:
        return not (self.extra or self.missing)

    def __str__(self) -> str:
        lines = [
            f"  rows: {self.got}, expected {self.expected}",
            f"  extra: {self.extra.total()}, missing: {self.missing.total()}",
        ]
        for word, rows in (("extra", self.extra), ("missing", self.missing)):
            first = sorted(rows.elements(), key=repr)[:5]
            lines += [f"  {word}: {tuple(str(value) for value in row)}" for row in first]
        return "\n".join(lines)


def compare(got: pa.Table, expected: pa.Table) -> Difference:
    """``got`` from Spark against ``expected`` from DuckDB, columns by position."""
    assert got.num_columns == expected.num_columns, (got.schema, expected.schema)
    left, right = [], []
    for place in range(got.num_columns):
        column, judge = got.column(place), expected.column(place)
        right.append(_rounded(judge, column.type))
        left.append([_value(value) for value in column.to_pylist()])
    found, wanted = _rows(left, got.num_rows), _rows(right, expected.num_rows)
    return Difference(got.num_rows, expected.num_rows, found - wanted, wanted - found)


def _rows(columns: Sequence[Sequence[Any]], count: int) -> Counter[tuple[Any, ...]]:
    rows = list(zip(*columns, strict=True)) if columns else [()] * count
    return Counter(rows)


def _rounded(column: pa.ChunkedArray, other: pa.DataType) -> list[Any]:
    values = column.to_pylist()
    if not pa.types.is_floating(column.type):
        return [_value(value) for value in values]
    assert pa.types.is_decimal(other), f"DuckDB answers {column.type}, Spark {other}"
    step = Decimal(1).scaleb(-other.scale)
    return [
        None if v is None else Decimal(repr(v)).quantize(step, rounding=ROUND_HALF_UP)
        for v in values
    ]


def _value(value: Any) -> Any:
    """Equal numbers hash equally in Python, whatever their scale: 1, 1.0 and 1.00."""
    assert not isinstance(value, float), "a floating-point column is not compared exactly"
    return value
