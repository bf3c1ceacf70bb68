"""How rows are stored: whether a key leads the order of a source, and by which key to store a result."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from spark_trickle.delta.laws.touched import Keyed, keys_of
from spark_trickle.ir.nodes import Filter, Node, Project, Scan
from spark_trickle.ir.scalars import column_id
from spark_trickle.ir.types import Schema, TableSchema
from spark_trickle.ir.walk import children


def clustered(node: Keyed, sources: Mapping[str, TableSchema]) -> bool:
    """Whether the key of a node leads the order in which its one source is stored."""
    below: Node = node.input
    while isinstance(below, Project | Filter):
        below = below.input
    if not isinstance(below, Scan) or below.source not in sources:
        return False
    order = storage_order(sources[below.source])
    origins = _origins(node.input)
    names = {origins[key.id][1] for key in keys_of(node) if key.id in origins}
    return bool(order) and order[0] in names


def storage_order(source: TableSchema) -> tuple[str, ...]:
    """The columns by which the files of a source are sorted."""
    return source.cluster_by or source.primary_key


def likely_key(
    plan: Node, sources: Mapping[str, TableSchema], segments: Mapping[str, Schema]
) -> Schema:
    """Output columns that are the whole key of a source or segment below, if there are any.

    Rows of the result are found by these columns: few rows share their values.
    """
    keys = {name: storage_order(source) for name, source in sources.items()}
    keys |= {name: tuple(key.name for key in columns) for name, columns in segments.items()}
    origins = _origins(plan)
    shown: dict[int, dict[str, int]] = {}
    for position, column in enumerate(plan.columns):
        if column.id in origins:
            scan, name = origins[column.id]
            shown.setdefault(id(scan), {}).setdefault(name, position)
    for scan in _scans_kept(plan):
        names = keys.get(scan.source, ())
        places = shown.get(id(scan), {})
        if names and all(name in places for name in names):
            return tuple(plan.columns[places[name]] for name in names)
    return ()


def _origins(plan: Node) -> dict[int, tuple[Scan, str]]:
    """For each output that is a column of a scan, passed on unchanged: the scan and the name."""
    match plan:
        case Scan():
            return {column.id: (plan, column.name) for column in plan.columns}
        case Project():
            below = _origins(plan.input)
            passed = [(c, column_id(e)) for c, e in plan.outputs if isinstance(e, exp.Column)]
            return {column.id: below[id] for column, id in passed if id in below}
        case _:
            found: dict[int, tuple[Scan, str]] = {}
            shown = {column.id for column in plan.columns}
            for child in children(plan):
                found |= {id: origin for id, origin in _origins(child).items() if id in shown}
            return found


def _scans_kept(plan: Node) -> list[Scan]:
    """The scans whose columns may reach the output, left to right."""
    if isinstance(plan, Scan):
        return [plan]
    return [scan for child in children(plan) for scan in _scans_kept(child)]
