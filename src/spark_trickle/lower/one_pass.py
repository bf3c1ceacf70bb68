"""Several branches of a UNION ALL over the same rows are read in one pass: each row once per branch.

x's rows as they are to be, minus x's rows as they were, is the shape of every delta of a stored
state; Spark would compute x once for each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.ir.nodes import Filter, Negate, Node, Project, UnionAll
from spark_trickle.ir.scalars import conjunction, disjunction, ref, substitute
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Schema
from spark_trickle.lower.block import Block, big, field, identifier

NUMBER = "__branch"


@dataclass(frozen=True)
class Branch:
    """A signed input of a union: what it shows of which of the rows of ``base``."""

    sign: int
    node: Node
    base: Node
    outputs: tuple[exp.Expression, ...]
    predicates: tuple[exp.Expression, ...]


def branches(node: UnionAll, sign: int = 1) -> list[Branch]:
    """The inputs of a union, with the unions and negations directly below it dissolved."""
    found: list[Branch] = []
    for child in node.inputs:
        own = sign
        while isinstance(child, Negate):
            own, child = -own, child.input
        if isinstance(child, UnionAll):
            found += branches(child, own)
        else:
            base, outputs, predicates = _chain(child)
            found.append(Branch(own, child, base, outputs, predicates))
    return found


def _chain(
    node: Node,
) -> tuple[Node, tuple[exp.Expression, ...], tuple[exp.Expression, ...]]:
    """The node without its projections and filters, and these as expressions over it."""
    if not isinstance(node, Project | Filter):
        return node, tuple(ref(column) for column in node.columns), ()
    base, outputs, predicates = _chain(node.input)
    known = dict(zip((column.id for column in node.input.columns), outputs, strict=True))
    if isinstance(node, Filter):
        return base, outputs, (*predicates, substitute(node.predicate, known))
    return base, tuple(substitute(e, known) for _, e in node.outputs), predicates


def one_pass(rows: Block, group: Sequence[Branch], columns: Schema, alias: str) -> Block:
    """The branches of a group over the rows they share, with their signs as weights."""
    number = field(alias, NUMBER)
    lateral = repeated(len(group), alias, NUMBER)
    values: dict[int, exp.Expression] = {}
    for position, column in enumerate(columns):
        choices = [rows.expand(branch.outputs[position]) for branch in group]
        values[column.id] = choose(number, choices)
    tests = []
    for place, branch in enumerate(group):
        here = exp.EQ(this=duplicate(number), expression=exp.Literal.number(place))
        tests.append(conjunction([here, *(rows.expand(p) for p in branch.predicates)]))
    filtered = any(branch.predicates for branch in group)
    return replace(
        rows,
        columns=columns,
        values=values,
        weight=choose(number, [big(branch.sign) for branch in group]),
        joins=(*rows.joins, lateral),
        where=(*rows.where, disjunction(tests)) if filtered else rows.where,
        derived=None,
    )


def repeated(times: int, alias: str, name: str) -> exp.Lateral:
    """Each row ``times`` times, numbered from 0; a generator, because it needs no join."""
    numbers = [exp.Literal.number(number) for number in range(times)]
    return exp.Lateral(
        this=exp.Explode(this=exp.Array(expressions=numbers)),
        view=True,
        alias=exp.TableAlias(this=identifier(alias), columns=[identifier(name)]),
    )


def choose(number: exp.Column, choices: Sequence[exp.Expression]) -> exp.Expression:
    """The choice with the given number."""
    if all(choice == choices[0] for choice in choices):
        return choices[0]
    ifs = [
        exp.If(
            this=exp.EQ(this=duplicate(number), expression=exp.Literal.number(place)), true=choice
        )
        for place, choice in enumerate(choices)
    ]
    return exp.Case(ifs=ifs)
