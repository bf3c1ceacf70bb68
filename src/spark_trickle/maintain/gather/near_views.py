"""The rows near a delta as the delta query names them: one view of a source, several WITH clauses.

Handing rows to Spark costs more than marking them, so a source goes there once, and the query
takes from it what a side has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from spark_trickle.ir.types import WEIGHT, Side
from spark_trickle.maintain.gather.nearby import MARKS, Nearby


@dataclass
class NearViews:
    """``show`` makes a view of rows of a source and gives its name."""

    near: Mapping[str, Nearby]
    show: Callable[[str, pa.Table], str]
    _parts: dict[str, exp.CTE] = field(default_factory=dict)

    def view(self, source: str, side: Side) -> str:
        """The name of one side of a source."""
        rows = self.near[source]
        whole = self.show(source, rows.rows)
        if not rows.changed:
            return whole
        name = f"{whole}_{side.value}"
        self._parts[name] = exp.CTE(
            this=_taken(whole, rows.rows, side), alias=exp.TableAlias(this=_quoted(name))
        )
        return name

    def complete(self, query: exp.Query) -> exp.Query:
        """The query with the WITH clauses that it names."""
        own = query.args.get("with_")
        clauses = [*self._parts.values(), *(own.expressions if own is not None else ())]
        if clauses:
            query.set("with_", exp.With(expressions=clauses))
        return query


def _taken(whole: str, rows: pa.Table, side: Side) -> exp.Select:
    names = [name for name in rows.column_names if name not in MARKS.values()]
    if side is Side.DELTA:
        names.append(WEIGHT)
    test = exp.NEQ(this=_column(MARKS[side]), expression=exp.Literal.number(0))
    shown = exp.select(*(_column(name) for name in names))
    return shown.from_(exp.Table(this=_quoted(whole))).where(test)


def _column(name: str) -> exp.Column:
    return exp.Column(this=_quoted(name))


def _quoted(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)
