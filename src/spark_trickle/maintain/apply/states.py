"""What stored sums can never be: fewer rows than none, more rows counted than there are.

Law: of a group with n rows, 0 <= every count <= n; with no rows all sums are 0, and a group with a
key is gone. A state without a key is one row. Anything else was wrong before the delta came: a row
was taken away that was not there.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import InvariantError
from spark_trickle.storage.records import Table

HINT = "the contents are not what the frontier says: run repair_stream_table"


@dataclass(frozen=True)
class SumColumns:
    """The columns of a table that stores sums over groups."""

    rows: str
    """The number of rows of the group."""
    counts: tuple[str, ...]
    sums: tuple[str, ...]
    """All others that are 0 where there are no rows."""
    keyed: bool

    def wrong(self, rows: pa.Table) -> int:
        """How many of some new states cannot be."""
        count = rows.column(self.rows)
        found = [pc.less(count, 0)]
        for name in self.counts:
            found += [pc.less(rows.column(name), 0), pc.greater(rows.column(name), count)]
        empty = pc.equal(count, 0)
        if self.keyed:
            found.append(empty)
        for name in self.sums:
            left = pc.not_equal(rows.column(name), pa.scalar(0, rows.column(name).type))
            found.append(pc.and_(empty, left))
        wrong = found[0]
        for test in found[1:]:
            wrong = pc.or_kleene(wrong, test)
        return pc.sum(wrong).as_py() or 0

    def wrong_sql(self) -> str:
        """The same test for Spark, of one row."""
        rows = _quoted(self.rows)
        tests = [f"{rows} {'<=' if self.keyed else '<'} 0"]
        tests += [f"{_quoted(c)} < 0 OR {_quoted(c)} > {rows}" for c in self.counts]
        tests += [f"({rows} = 0 AND {_quoted(s)} <> 0)" for s in self.sums]
        return f"coalesce({' OR '.join(tests)}, false)"


def one_row(table: Table, found: int) -> None:
    """InvariantError if an aggregate without a key is not stored as one row."""
    if found != 1:
        raise InvariantError(f"{table} should be one row, and is {found}", hint=HINT)


def breach(table: Table, count: int) -> InvariantError:
    """A delta takes away what is not there."""
    return InvariantError(
        f"{count} groups of {table} would lose rows that they do not have", hint=HINT
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
