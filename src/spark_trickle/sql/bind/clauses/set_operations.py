"""UNION, INTERSECT and EXCEPT, with and without ALL.

Law: a row occurs ``min(l, r)`` times in INTERSECT ALL and ``max(l - r, 0)`` times in EXCEPT ALL,
where l and r count it in the two inputs; without ALL, at most once.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.ir.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Filter,
    Generate,
    Node,
    Project,
    SemiJoin,
    UnionAll,
)
from spark_trickle.ir.scalars import ref
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column, Schema
from spark_trickle.sql.bind.build import boolean, passing, same, typed
from spark_trickle.sql.bind.session import Environment, NamedPlan
from spark_trickle.sql.types.coercion import BIGINT, INT, UNKNOWN, common, spell


def combine(
    tree: exp.SetOperation, left: NamedPlan, right: NamedPlan, environment: Environment
) -> NamedPlan:
    """Two bound queries combined as the set operation says."""
    if tree.args.get("by_name"):
        right = _by_name(tree, left, right, environment)
    left_node, right_node, columns = _aligned(tree, left, right, environment)
    every = not tree.args.get("distinct")
    if isinstance(tree, exp.Union):
        union = UnionAll((*_flat(left_node, every), right_node), columns)
        return NamedPlan(union if every else Distinct(union), left.names)
    if every:
        node = _counted(isinstance(tree, exp.Except), left_node, right_node, columns, environment)
        return NamedPlan(node, left.names)
    pairs = zip(left_node.columns, right_node.columns, strict=True)
    match = tuple(same(ref(mine), ref(theirs)) for mine, theirs in pairs)
    kind = AntiJoin if isinstance(tree, exp.Except) else SemiJoin
    return NamedPlan(Distinct(kind(left_node, right_node, match)), left.names)


def _flat(left: Node, every: bool) -> tuple[Node, ...]:
    """a UNION ALL b UNION ALL c is one union, unless a cast stands between."""
    return left.inputs if every and isinstance(left, UnionAll) else (left,)


def _by_name(
    tree: exp.SetOperation, left: NamedPlan, right: NamedPlan, environment: Environment
) -> NamedPlan:
    lowered = [name.lower() for name in right.names]
    missing = [name for name in left.names if name.lower() not in lowered]
    if missing or len(left.names) != len(right.names):
        raise environment.text.error(
            tree,
            "UNION BY NAME needs the same names on both sides",
            hint=f"select {', '.join(missing) or 'the same columns'} on both sides",
        )
    order = [right.node.columns[lowered.index(name.lower())] for name in left.names]
    return NamedPlan(Project(right.node, passing(order)), left.names)


def _aligned(
    tree: exp.SetOperation, left: NamedPlan, right: NamedPlan, environment: Environment
) -> tuple[Node, Node, Schema]:
    """Both sides cast to their common types, and the columns of the result."""
    mine, theirs = left.node.columns, right.node.columns
    word = tree.key.upper()
    if len(mine) != len(theirs):
        raise environment.text.error(
            tree.expression,
            f"{word} of {len(mine)} and {len(theirs)} columns",
            hint="select the same number of columns on both sides",
        )
    types: list[exp.DataType] = []
    for position, (a, b) in enumerate(zip(mine, theirs, strict=True), start=1):
        type = common(a.type, b.type)
        if type is None:
            raise environment.text.error(
                tree.expression,
                f"column {position} of {word} is {spell(a.type)} on one side and "
                f"{spell(b.type)} on the other",
                hint="cast one of them",
            )
        types.append(type)
    columns = tuple(
        environment.ids.column(a.name, type, a.nullable or b.nullable)
        for a, b, type in zip(mine, theirs, types, strict=True)
    )
    return _cast(left.node, types, environment), _cast(right.node, types, environment), columns


def _cast(node: Node, types: list[exp.DataType], environment: Environment) -> Node:
    outputs: list[tuple[Column, exp.Expression]] = []
    for column, type in zip(node.columns, types, strict=True):
        if column.type == type or type.this == UNKNOWN.this:
            outputs.append((column, ref(column)))
        else:
            cast = typed(exp.cast(ref(column), type), type)
            outputs.append((replace(environment.ids.copy(column), type=type), cast))
    if all(isinstance(value, exp.Column) for _, value in outputs):
        return node
    return Project(node, tuple(outputs))


def _counted(
    difference: bool, left: Node, right: Node, columns: Schema, environment: Environment
) -> Node:
    ids = environment.ids
    sides = ids.column("in_left", INT, False), ids.column("in_right", INT, False)
    union = UnionAll(
        (_tagged(left, (1, 0), environment), _tagged(right, (0, 1), environment)),
        columns + sides,
    )
    counts = ids.column("left_rows", BIGINT), ids.column("right_rows", BIGINT)
    calls = tuple(
        (count, typed(exp.CountIf(this=boolean(_is_one(side))), BIGINT))
        for count, side in zip(counts, sides, strict=True)
    )
    grouped = Aggregate(union, columns, calls)
    times = _times(difference, *counts)
    kept = Filter(grouped, boolean(exp.GT(this=times, expression=exp.Literal.number(0))))
    series = exp.GenerateSeries(start=exp.cast(exp.Literal.number(1), BIGINT), end=duplicate(times))
    number = ids.column("copy", BIGINT, False)
    copies = Generate(kept, exp.Explode(this=series), (number,))
    return Project(copies, passing(columns))


def _is_one(side: Column) -> exp.Expression:
    return exp.EQ(this=ref(side), expression=exp.Literal.number(1))


def _times(difference: bool, left: Column, right: Column) -> exp.Expression:
    if difference:
        times: exp.Expression = exp.Sub(this=ref(left), expression=ref(right))
    else:
        fewer = boolean(exp.LT(this=ref(left), expression=ref(right)))
        times = exp.Case(ifs=[exp.If(this=fewer, true=ref(left))], default=ref(right))
    return typed(exp.cast(times, BIGINT), BIGINT)


def _tagged(node: Node, tags: tuple[int, int], environment: Environment) -> Node:
    names = ("in_left", "in_right")
    added = tuple(
        (environment.ids.column(name, INT, False), typed(exp.Literal.number(tag), INT))
        for name, tag in zip(names, tags, strict=True)
    )
    return Project(node, passing(node.columns) + added)
