"""The only place that makes or edits scalar expressions (sqlglot trees)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from spark_trickle.ir.trees import duplicate, exchanged, parts
from spark_trickle.ir.types import Column


def ref(column: Column) -> exp.Column:
    """A reference to a column of the plan: the quoted identifier ``name#id``, with its type."""
    reference = exp.Column(this=exp.Identifier(this=str(column), quoted=True))
    reference.type = column.type
    return reference


def column_id(reference: exp.Column) -> int:
    """The id of the column that ``ref`` was made from."""
    return int(reference.name.rpartition("#")[2])


def column_ids(expression: exp.Expression) -> frozenset[int]:
    """The ids of all columns an expression reads."""
    return frozenset(column_id(part) for part in parts(expression) if isinstance(part, exp.Column))


def conjuncts(expression: exp.Expression) -> list[exp.Expression]:
    """The parts of a conjunction, without the parentheses around them."""
    return _parts(exp.And, expression)


def conjunction(conditions: Iterable[exp.Expression]) -> exp.Expression:
    """The AND of the parts; TRUE of none."""
    return _chain(exp.And, list(conditions), exp.true())


def disjuncts(expression: exp.Expression) -> list[exp.Expression]:
    """The parts of a disjunction, without the parentheses around them."""
    return _parts(exp.Or, expression)


def disjunction(conditions: Iterable[exp.Expression]) -> exp.Expression:
    """The OR of the parts; FALSE of none."""
    return _chain(exp.Or, list(conditions), exp.false())


def _parts(kind: type[exp.And] | type[exp.Or], expression: exp.Expression) -> list[exp.Expression]:
    """Without recursion: generated queries chain thousands of conditions."""
    waiting, found = [expression], []
    while waiting:
        part = waiting.pop()
        while isinstance(part, exp.Paren):
            part = part.this
        if isinstance(part, kind):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _chain(
    kind: type[exp.And] | type[exp.Or], operands: list[exp.Expression], none: exp.Expression
) -> exp.Expression:
    if not operands:
        return none
    if len(operands) == 1:
        return duplicate(operands[0])
    result = _operand(duplicate(operands[0]), kind)
    for operand in operands[1:]:
        result = kind(this=result, expression=_operand(duplicate(operand), kind))
        result.type = exp.DataType(this=exp.DataType.Type.BOOLEAN)
    return result


def _operand(part: exp.Expression, kind: type[exp.And] | type[exp.Or]) -> exp.Expression:
    if isinstance(part, exp.Connector):
        return part if isinstance(part, kind) else enclosed(part)
    return part if isinstance(part, exp.Predicate | exp.Not) else enclosed(part)


def is_chain(expression: exp.Expr) -> bool:
    """``a op b op c``, which parses as a tree as deep as the chain is long."""
    return isinstance(expression, exp.Binary) and type(expression.this) is type(expression)


def rebuilt_chain(
    node: exp.Expression,
    change: Callable[[exp.Expression], exp.Expression],
    finish: Callable[[exp.Expression, exp.Expression], exp.Expression] | None = None,
) -> exp.Expression:
    """The chain over changed operands, without recursion along it.

    ``finish`` sees every link with the link it was made from, innermost first; without it a link
    keeps the type it had.
    """
    links = [node]
    while is_chain(links[-1]):
        links.append(links[-1].this)
    result = change(links[-1].this)
    for link in reversed(links):
        options = {k: v for k, v in link.args.items() if k not in ("this", "expression")}
        made = type(link)(this=result, expression=change(link.expression), **options)
        made.meta.update(link.meta)
        made.type = link.type
        result = made if finish is None else finish(made, link)
    return result


def whole_number(node: exp.Expr) -> str | None:
    """The digits of a whole number as a literal, which a sign before it belongs to; else None.

    Beside a decimal Spark counts the digits of a literal, and of anything else those of its type:
    ``-(1)`` and ``CAST(1 AS INT)`` are no literals.
    """
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        node = node.this
    if isinstance(node, exp.Cast) and "suffix" in node.meta:
        node = node.this
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return node.name
    return None


_ATOMS = (
    exp.Column,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Case,
    exp.Cast,
    exp.Func,
    exp.Dot,
    exp.Bracket,
    exp.Interval,
    exp.Identifier,
)


def enclosed(expression: exp.Expression) -> exp.Expression:
    """The expression in parentheses unless it is an atom.

    sqlglot prints operands as they are, so whoever builds an operator encloses its operands.
    """
    if isinstance(expression, _ATOMS) and not isinstance(expression, exp.Connector):
        return expression
    result = exp.Paren(this=expression)
    result.type = expression.type
    return result


def substitute(
    expression: exp.Expression, replacements: Mapping[int, exp.Expression]
) -> exp.Expression:
    """A copy in which columns are replaced by id; columns that are not in the map stay."""

    def change(node: exp.Column) -> exp.Expression | None:
        replacement = replacements.get(column_id(node))
        if replacement is None:
            return None
        copy = duplicate(replacement)
        if isinstance(node.parent, _ARITHMETIC) and whole_number(copy) is not None:
            copy = _no_literal(copy, node.type)
        return copy if _stands_alone(node) else enclosed(copy)

    if isinstance(expression, exp.Column):
        return duplicate(replacements.get(column_id(expression), expression))
    return exchanged(expression, change)


def _no_literal(number: exp.Expression, type: exp.DataType | None) -> exp.Expression:
    """The number as a value of the type of the column that it stands for."""
    if type is None or not type.is_type(*exp.DataType.SIGNED_INTEGER_TYPES):
        return number
    made = exp.Cast(this=number, to=duplicate(type))
    made.type = type
    return made


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Paren, exp.Neg)
"""Where a column of whole numbers and a literal in its place would have different digits."""


def _stands_alone(node: exp.Column) -> bool:
    parent = node.parent
    if parent is None or isinstance(parent, exp.Paren):
        return True
    return isinstance(parent, exp.Func) and not isinstance(parent, exp.Connector | exp.Cast)
