"""Which parts of a node its rule looks at: a part that nobody looks at would be lost in silence."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.errors import UnsupportedQueryError
from spark_trickle.sql.pg.types import refusal, refuse

_SHOWN = 60
_USUAL = frozenset({"this", "expression", "expressions"})
_KNOWN: dict[type[exp.Expr], frozenset[str]] = {
    exp.Column: frozenset({"this", "table"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Div: _USUAL | {"typed"},
    exp.DPipe: _USUAL | {"safe"},
    exp.Is: _USUAL | {"negate"},
    exp.Like: _USUAL | {"negate"},
    exp.ILike: _USUAL | {"negate"},
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "query", "expressions"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Trim: frozenset({"this", "expression", "position"}),
    exp.StrPosition: frozenset({"this", "substr"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "over"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side"}),
    exp.CurrentTimestamp: frozenset(),
    exp.CurrentDate: frozenset(),
    exp.Subquery: frozenset({"this", "alias", "with_", "order", "limit", "offset"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Select: frozenset(
        {"expressions", "from_", "joins", "where", "group", "having", "distinct", "order"}
        | {"limit", "offset", "with_"}
    ),
    exp.Values: frozenset({"expressions", "alias", "order", "limit", "offset"}),
    exp.Union: frozenset({"this", "expression", "distinct", "with_", "order", "limit", "offset"}),
    exp.Join: frozenset({"this", "on", "using", "side", "kind", "method"}),
    exp.Table: frozenset({"this", "db", "alias", "joins"}),
    exp.Lateral: frozenset({"this", "alias"}),
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias", "materialized"}),
    exp.Insert: frozenset({"this", "expression", "conflict", "returning", "with_"}),
    exp.Update: frozenset({"this", "expressions", "from_", "where", "returning", "with_"}),
    exp.Delete: frozenset({"this", "using", "where", "returning", "with_"}),
    exp.OnConflict: frozenset({"expressions", "action", "conflict_keys", "where"}),
    exp.Create: frozenset({"this", "kind", "exists", "expression"}),
    exp.TruncateTable: frozenset({"expressions"}),
    exp.Drop: frozenset({"this", "tables", "kind", "exists", "cascade", "restrict"}),
}
_KNOWN |= dict.fromkeys((exp.Except, exp.Intersect), _KNOWN[exp.Union])


def without_counterpart(statement: exp.Expr) -> UnsupportedQueryError:
    """What is said of a statement that a lake does not have."""
    text = " ".join(statement.sql("postgres").split())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return refusal(f"the statement {shown!r} has no counterpart in a lake")


def all_known(node: exp.Expr) -> None:
    """Refuse a node with a part that its rule does not know."""
    known = _KNOWN.get(type(node), _USUAL)
    for name, part in node.args.items():
        if part and name not in known:
            if node.parent is None and not isinstance(
                node, exp.Query | exp.Insert | exp.Update | exp.Delete
            ):
                raise without_counterpart(node)
            shown = part.sql("postgres") if isinstance(part, exp.Expr) else str(part)
            refuse(f"{type(node).__name__} with {name} {shown[:40]}")
