"""f(DISTINCT x) per group = f(x) over the distinct pairs of group and x: both steps keep state.

Several different arguments, or calls without DISTINCT beside them, become aggregates of their own
that are joined on the group: each has exactly the groups that have rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.ir.aggregates import Other, classify, function_name
from spark_trickle.ir.nodes import Aggregate, Distinct, Join, Node, Project
from spark_trickle.ir.scalars import ref, substitute
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column, Schema
from spark_trickle.ir.walk import ColumnIds, fresh_copy, fresh_ids, transform_up

FUNCTIONS = ("avg", "count", "sum")

AggregateCall = tuple[Column, exp.Expression]


def split_distinct(plan: Node) -> Node:
    """The plan without DISTINCT in those aggregates that can keep state without it."""
    ids = fresh_ids(plan)

    def rule(node: Node) -> Node:
        return _split(node, ids) if isinstance(node, Aggregate) else node

    return transform_up(plan, rule)


@dataclass(frozen=True)
class _Over:
    """A call over the distinct values of one argument."""

    column: Column
    function: exp.Expression
    argument: exp.Expression


def _split(node: Aggregate, ids: ColumnIds) -> Node:
    distinct: dict[str, list[_Over]] = {}
    plain: list[AggregateCall] = []
    for column, call in node.calls:
        over = _over(column, call)
        if over is not None:
            distinct.setdefault(over.argument.sql(), []).append(over)
        elif isinstance(classify(call), Other):
            return node
        else:
            plain.append((column, call))
    if not distinct:
        return node
    branches: list[Aggregate] = []
    if plain:
        branches.append(Aggregate(node.input, node.keys, tuple(plain)))
    for calls in distinct.values():
        branches.append(_branch(node, calls, ids, first=not branches))
    if len(branches) == 1 and branches[0].columns == node.columns:
        return branches[0]
    return _joined(node, branches)


def _over(column: Column, call: exp.Expression) -> _Over | None:
    """The call if it is one that DISTINCT values suffice for; a FILTER goes into the argument."""
    condition: exp.Expression | None = None
    if isinstance(call, exp.Filter):
        condition, call = call.expression.this, call.this
    if function_name(call) not in FUNCTIONS or not isinstance(call.this, exp.Distinct):
        return None
    if len(call.this.expressions) != 1 or call.this.args.get("on"):
        return None
    argument: exp.Expression = call.this.expressions[0]
    if condition is not None:
        kept = exp.Case(ifs=[exp.If(this=duplicate(condition), true=duplicate(argument))])
        kept.type = argument.type
        argument = kept
    return _Over(column, call, argument)


def _branch(node: Aggregate, calls: list[_Over], ids: ColumnIds, *, first: bool) -> Aggregate:
    """The calls over one argument; only the first branch may use the input as it is."""
    argument = calls[0].argument
    input, keys = node.input, node.keys
    if not first:
        input = fresh_copy(node.input, ids)
        renamed = dict(zip((c.id for c in node.input.columns), input.columns, strict=True))
        keys = tuple(replace(renamed[key.id], nullable=key.nullable) for key in keys)
        argument = substitute(argument, {id: ref(c) for id, c in renamed.items()})
    type = argument.type or calls[0].argument.type
    value = ids.column("value", type if type is not None else exp.DataType.build("INT"))
    rows = Project(input, (*((key, ref(key)) for key in keys), (value, duplicate(argument))))
    return Aggregate(Distinct(rows), keys, tuple((o.column, _plain(o, value)) for o in calls))


def _plain(over: _Over, value: Column) -> exp.Expression:
    call = duplicate(over.function)
    call.set("this", ref(value))
    return call


def _joined(node: Aggregate, branches: list[Aggregate]) -> Node:
    """All branches side by side, matched on the group."""
    conditions = tuple(
        exp.NullSafeEQ(this=ref(key), expression=ref(other))
        for branch in branches[1:]
        for key, other in zip(branches[0].keys, branch.keys, strict=True)
    )
    together: Node = branches[0] if len(branches) == 1 else Join(tuple(branches), conditions)
    columns: Schema = node.columns
    return Project(together, tuple((column, ref(column)) for column in columns))
