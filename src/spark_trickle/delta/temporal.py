"""Temporal filters become sources: the rows of a table that the clock lets through.

Law: with p the filters at the clock before, q at the clock after, the change of such a source is
the change of the table as far as p lets it through, and of the table as it is after: plus the rows
that q lets through and p does not, minus those of p and not q. All above it is as over any source.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from spark_trickle.ir.nodes import Filter, Node, Scan
from spark_trickle.ir.scalars import column_id, column_ids, conjunction, conjuncts
from spark_trickle.ir.temporal import Timed, TimeEdge, clock_calls
from spark_trickle.ir.trees import duplicate, holds
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import expressions, nodes, transform_up

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.EQ: "=",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_NEGATED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}
_T = exp.DataType.Type
_DATE = frozenset((_T.DATE,))
_MOMENT = frozenset((_T.TIMESTAMP, _T.TIMESTAMPTZ, _T.TIMESTAMPLTZ))
_WALL = frozenset((_T.TIMESTAMPNTZ,))


def timed_sources(plan: Node) -> tuple[Node, tuple[Timed, ...]]:
    """The plan with temporal filters taken into the scans below them, and what is scanned then."""
    found: dict[str, Timed] = {}

    def rule(node: Node) -> Node:
        if not isinstance(node, Filter) or not isinstance(node.input, Scan):
            return node
        edges, rest = _split(node.predicate, node.input)
        if not edges:
            return node
        timed = Timed(node.input.source, tuple(dict.fromkeys(edges)))
        found[timed.name] = timed
        scan = replace(node.input, source=timed.name)
        return Filter(scan, conjunction(rest)) if rest else scan

    return transform_up(plan, rule), tuple(found.values())


def clock_left(plan: Node) -> exp.Expression | None:
    """A call that reads the clock elsewhere than in a temporal filter."""
    calls = (call for node in nodes(plan) for e in expressions(node) for call in clock_calls(e))
    return next(calls, None)


def _split(predicate: exp.Expression, scan: Scan) -> tuple[list[TimeEdge], list[exp.Expression]]:
    """The temporal filters of a conjunction over a scan, and what else it asks."""
    columns = {column.id: column for column in scan.columns}
    edges: list[TimeEdge] = []
    rest: list[exp.Expression] = []
    for part in conjuncts(predicate):
        comparisons = list(_comparisons(part))
        own = [_edge(each, columns) for each in comparisons]
        timed = any(edge is not None for edge in own)
        edges += [edge for edge in own if edge is not None]
        plain = [c for c, edge in zip(comparisons, own, strict=True) if edge is None]
        rest += plain if timed else [part]
    return edges, rest


def _comparisons(part: exp.Expression) -> Iterable[exp.Expression]:
    """``x BETWEEN a AND b`` is two comparisons; NOT of one is the opposite one, NULL included."""
    inner = part
    negated = isinstance(part, exp.Not)
    if negated:
        inner = part.this.unnest()
    if isinstance(inner, exp.Between) and not negated and not inner.args.get("symmetric"):
        low, high = inner.args["low"], inner.args["high"]
        return _comparison(exp.GTE, inner.this, low), _comparison(exp.LTE, inner.this, high)
    opposite = _NEGATED.get(type(inner)) if negated else None
    if opposite is not None:
        return (_comparison(opposite, inner.this, inner.expression),)
    return (part,)


def _comparison(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expression:
    made = kind(this=duplicate(left), expression=duplicate(right))
    made.type = exp.DataType(this=_T.BOOLEAN)
    assert isinstance(made, exp.Expression)
    return made


def _edge(part: exp.Expression, columns: dict[int, Column]) -> TimeEdge | None:
    """A comparison of one column with the clock that says: the column lies in a range."""
    operator = _OPERATORS.get(type(part))
    if operator is None:
        return None
    left, right = part.this.unnest(), part.expression.unnest()
    if not isinstance(left, exp.Column):
        left, right, operator = right, left, _MIRRORED[operator]
    if not isinstance(left, exp.Column) or column_id(left) not in columns:
        return None
    column = columns[column_id(left)]
    value = right if isinstance(right, exp.Expression) else None
    if value is None or column_ids(value) or next(clock_calls(value), None) is None:
        return None
    if not _meet(column.type, value.type) or holds(value, exp.Query, exp.Lambda):
        return None
    return TimeEdge(column.name, column.type, operator, value)


def _meet(column: exp.DataType, value: object) -> bool:
    """Whether Spark compares them in an order that is the column's own.

    A wall time beside a moment is taken for a moment, and where clocks are put forward the order of
    moments is not that of wall times.
    """
    if not isinstance(value, exp.DataType):
        return False
    known = _DATE | _MOMENT | _WALL
    if column.this not in known or value.this not in known:
        return False
    return column.this not in _WALL or value.this not in _MOMENT
