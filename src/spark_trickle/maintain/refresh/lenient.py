"""What Spark itself leaves open is no difference: the order inside collected lists, last digits of floats.

Rule: in a query that aggregates, a FLOAT or DOUBLE column may differ by one part in 10^9; in a query
that collects values into arrays, an array column may hold them in another order. Everything else,
and the number of rows, must be the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pyarrow as pa
from sqlglot import exp

from spark_trickle.storage.records import WEIGHT

_PARTS = 1e-9
_COLLECTS = ("collect_list", "collect_set", "array_agg")
_Row = tuple[Any, ...]


def without_open(rows: pa.Table, tree: exp.Expr) -> pa.Table:
    """The rows of a difference (all of them) without pairs that are equal by the rule."""
    names = [field.name for field in rows.schema if _is_open(field.type, tree)]
    return alike(rows, names) if names else rows


def floats(schema: pa.Schema) -> list[str]:
    """The columns whose last digits depend on an order."""
    return [field.name for field in schema if pa.types.is_floating(field.type)]


def alike(rows: pa.Table, names: list[str]) -> pa.Table:
    """The rows of a difference without pairs that are equal but for what these columns leave open."""
    groups: dict[str, tuple[list[_Row], list[_Row]]] = defaultdict(lambda: ([], []))
    for record in rows.to_pylist():
        weight = record.pop(WEIGHT)
        exact = repr([value for name, value in record.items() if name not in names])
        side = groups[exact][0 if weight > 0 else 1]
        side += [tuple(record.items())] * abs(weight)
    left = [
        (row, weight)
        for missing, surplus in groups.values()
        for row, weight in _unpaired(missing, surplus, names)
    ]
    found = [{**dict(row), WEIGHT: weight} for row, weight in left]
    return pa.Table.from_pylist(found, rows.schema)


def _is_open(kind: pa.DataType, tree: exp.Expr) -> bool:
    if pa.types.is_floating(kind):
        return tree.find(exp.AggFunc) is not None or _calls(tree, None)
    return bool(pa.types.is_list(kind)) and _calls(tree, _COLLECTS)


def _calls(tree: exp.Expr, names: tuple[str, ...] | None) -> bool:
    """Whether one of these functions is called; None: whether rows are grouped at all."""
    if names is None:
        return tree.find(exp.Group) is not None
    called = (call.name.lower() for call in tree.find_all(exp.Anonymous))
    return any(name in names for name in called) or tree.find(exp.ArrayAgg) is not None


def _unpaired(missing: list[_Row], surplus: list[_Row], names: list[str]) -> list[tuple[_Row, int]]:
    rest = list(surplus)
    left = []
    for row in missing:
        same = next((other for other in rest if _same(dict(row), dict(other), names)), None)
        if same is None:
            left.append((row, 1))
        else:
            rest.remove(same)
    return left + [(row, -1) for row in rest]


def _same(one: dict[str, Any], other: dict[str, Any], names: list[str]) -> bool:
    return all(_alike(one[name], other[name]) for name in names)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_PARTS) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list) and isinstance(other, list):
        return sorted(map(repr, one)) == sorted(map(repr, other))
    return repr(one) == repr(other)
