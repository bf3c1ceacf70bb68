"""Bound expressions as exact ones (``ir/exact.py``), or the reason why one is not proven.

The list is closed: a node is translated by the rule of its very class or refused. Types follow
Spark's rules and are compared with those that the binder gave; every coercion becomes a cast. No rule
depends on the time zone. With ANSI off what would be an error is NULL or wraps: such nodes are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.ir.exact import Constant, Exact, ExactKind, ExactType, Input, Op, Operation
from spark_trickle.ir.scalars import column_id, conjuncts, disjuncts
from spark_trickle.prove import functions
from spark_trickle.prove.meeting import compared, compared_pair, literal_as_decimal, together
from spark_trickle.prove.refusal import Unproven, readable, unproven
from spark_trickle.prove.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    VOID,
    cast,
    day_of,
    decimal_result,
    exact_type,
    holds,
    meet,
    number,
)

NEGATED_DIGITS = 34
"""Spark rounds the negative of a decimal to so many digits."""


@dataclass(frozen=True)
class Prover:
    """Translates expressions over columns whose exact expressions are known."""

    columns: Mapping[int, Exact]
    ansi: bool = True

    def prove(self, node: exp.Expression) -> Exact:
        """The exact expression; raises Unproven."""
        rule = _RULES.get(type(node))
        if rule is None:
            raise unproven(node, f"{_name(node)} is not on the list of proven expressions")
        result = rule(self, node)
        if node.type is None or node.type.this == exp.DType.UNKNOWN or isinstance(result, Input):
            return result
        known = exact_type(node.type)
        if known != result.type and VOID not in (known, result.type):
            raise unproven(node, f"its type is {result.type} by one rule, {known} by another")
        return result

    def condition(self, node: exp.Expression) -> Exact:
        """A BOOLEAN expression."""
        found = self.prove(node)
        if found.type.kind not in (ExactKind.BOOLEAN, ExactKind.VOID):
            raise unproven(node, f"a condition of type {found.type}")
        return found

    def may_fail(self, node: exp.Expression) -> None:
        """Note that a node raises on some values, which only ANSI mode does."""
        if not self.ansi:
            raise Unproven("ANSI_OFF", f"with ANSI off an overflow is no error: {readable(node)}")


def _name(node: exp.Expr) -> str:
    return node.sql_name().lower() if isinstance(node, exp.Func) else node.key.upper()


# Rules, one per class of node


def _column(prover: Prover, node: exp.Expression) -> Exact:
    assert isinstance(node, exp.Column)
    found = prover.columns.get(column_id(node))
    if found is None:  # under an aggregate that is not on the list, or a variable of a lambda
        raise unproven(node, "it is not a column of the row")
    return found


def _literal(_: Prover, node: exp.Expression) -> Exact:
    if node.is_string:
        return Constant(node.name, STRING)
    return _number(node, node.name.lower())


def _number(node: exp.Expr, text: str) -> Exact:
    found = number(text)
    if found is None:
        raise unproven(node, "more than 38 digits")
    return found


def _negative(prover: Prover, node: exp.Expression) -> Exact:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(node, f"-{node.this.name.lower()}")
    value = prover.prove(node.this)
    if value.type.integral:
        prover.may_fail(node)
    elif value.type.kind is not ExactKind.DECIMAL or value.type.precision > NEGATED_DIGITS:
        raise unproven(node, f"the negative of {value.type}")
    return Operation(Op.NEGATE, (value,), value.type)


def _arithmetic(op: Op) -> _Rule:
    def rule(prover: Prover, node: exp.Expression) -> Exact:
        left, right = prover.prove(node.this), prover.prove(node.expression)
        prover.may_fail(node)
        if left.type.integral and right.type.integral:
            return _integers(op, left, right)
        if op is Op.QUOTIENT:
            raise unproven(node, f"{op.value} of {left.type} and {right.type}")
        return _numbers(op, node, left, right)

    return rule


def _integers(op: Op, left: Exact, right: Exact) -> Exact:
    target = meet(left.type, right.type)
    if op is Op.QUOTIENT:
        target = BIGINT
    if op is Op.DIVIDE:
        target = DOUBLE
    assert target is not None
    return Operation(op, (cast(left, target), cast(right, target)), target)


def _numbers(op: Op, node: exp.Expression, left: Exact, right: Exact) -> Exact:
    if op in _OF_DOUBLES and DOUBLE in (left.type, right.type) and meet(left.type, right.type):
        return Operation(op, (cast(left, DOUBLE), cast(right, DOUBLE)), DOUBLE)
    if ExactKind.DECIMAL not in (left.type.kind, right.type.kind):
        raise unproven(node, f"{op.value} of {left.type} and {right.type}")
    left = literal_as_decimal(node.this, left)
    right = literal_as_decimal(node.expression, right)
    a, b = left.type.digits, right.type.digits
    if a is None or b is None or (op is Op.REMAINDER and a[0] - a[1] + b[1] > 38):
        raise unproven(node, f"{op.value} of {left.type} and {right.type}")
    sides = [cast(v, ExactType(ExactKind.DECIMAL, *d)) for v, d in ((left, a), (right, b))]
    return Operation(op, tuple(sides), decimal_result(op, a, b))


_OF_DOUBLES = (Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE)


def _comparison(op: Op, *, negated: bool = False) -> _Rule:
    def rule(prover: Prover, node: exp.Expression) -> Exact:
        left, right = node.this, node.expression
        sides = compared_pair(node, (left, prover.prove(left)), (right, prover.prove(right)))
        found = Operation(op, tuple(sides), BOOLEAN)
        return Operation(Op.NOT, (found,), BOOLEAN) if negated else found

    return rule


def _and(prover: Prover, node: exp.Expression) -> Exact:
    return Operation(Op.AND, tuple(map(prover.condition, conjuncts(node))), BOOLEAN)


def _or(prover: Prover, node: exp.Expression) -> Exact:
    return Operation(Op.OR, tuple(map(prover.condition, disjuncts(node))), BOOLEAN)


def _not(prover: Prover, node: exp.Expression) -> Exact:
    return Operation(Op.NOT, (prover.condition(node.this),), BOOLEAN)


def _is(prover: Prover, node: exp.Expression) -> Exact:
    value = prover.prove(node.this)
    if isinstance(node.expression, exp.Null):
        return Operation(Op.IS_NULL, (value,), BOOLEAN)
    if isinstance(node.expression, exp.Boolean) and value.type == BOOLEAN:
        return Operation(Op.SAME, (value, prover.prove(node.expression)), BOOLEAN)
    raise unproven(node, "IS of something else than NULL, TRUE and FALSE")


def _between(prover: Prover, node: exp.Expression) -> Exact:
    if node.args.get("symmetric"):
        raise unproven(node, "BETWEEN SYMMETRIC is not on the list of proven expressions")
    value = (node.this, _cheap(prover, node.this))
    low, high = ((node.args[bound], prover.prove(node.args[bound])) for bound in ("low", "high"))
    tests = [
        Operation(op, tuple(compared_pair(node, value, bound)), BOOLEAN)
        for op, bound in ((Op.AT_LEAST, low), (Op.AT_MOST, high))
    ]
    return Operation(Op.AND, tuple(tests), BOOLEAN)


def _cheap(prover: Prover, node: exp.Expression) -> Exact:
    """An operand that Spark may compute before its turn: it must not fail."""
    value = prover.prove(node)
    if not isinstance(value, Input | Constant) and _can_fail(value):
        raise unproven(node, "it may fail, and Spark may compute it before its turn")
    return value


def _can_fail(value: Exact) -> bool:
    if not isinstance(value, Operation):
        return False
    if value.op is Op.CAST:
        failing = not holds(value.args[0].type, value.type)
    elif value.op is Op.REMAINDER:
        failing = not (isinstance(value.args[1], Constant) and value.args[1].value)
    else:
        failing = value.op in _FAILING
    return failing or any(map(_can_fail, value.args))


_FAILING = frozenset({Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE, Op.QUOTIENT, Op.NEGATE})


def _in(prover: Prover, node: exp.Expression) -> Exact:
    if not node.expressions or any(node.args.get(a) for a in ("query", "unnest", "field")):
        raise unproven(node, "IN of something else than a list")
    values = compared(node, [prover.prove(value) for value in (node.this, *node.expressions)])
    if values[0].type == DOUBLE:
        raise unproven(node, "a long list of doubles tells 0 from -0, a short one does not")
    return Operation(Op.IN, tuple(values), BOOLEAN)


def _case(prover: Prover, node: exp.Expression) -> Exact:
    branches = node.args["ifs"]
    tests = [_test(prover, node.this, branch) for branch in branches]
    default = node.args.get("default")
    values = [prover.prove(branch.args["true"]) for branch in branches]
    values.append(Constant(None, VOID) if default is None else prover.prove(default))
    return _choice(node, tests, values)


def _test(prover: Prover, subject: exp.Expression | None, branch: exp.Expression) -> Exact:
    if subject is None:
        return prover.condition(branch.this)
    sides = together(branch, [prover.prove(subject), prover.prove(branch.this)])
    return Operation(Op.EQUAL, tuple(sides), BOOLEAN)


def _choice(node: exp.Expr, tests: list[Exact], values: list[Exact]) -> Exact:
    values = together(node, values)
    pairs = [part for pair in zip(tests, values, strict=False) for part in pair]
    return Operation(Op.CASE, (*pairs, values[-1]), values[-1].type)


def _if(prover: Prover, node: exp.Expression) -> Exact:
    default = node.args.get("false")
    values = [prover.prove(node.args["true"])]
    values.append(Constant(None, VOID) if default is None else prover.prove(default))
    return _choice(node, [prover.condition(node.this)], values)


def _coalesce(prover: Prover, node: exp.Expression) -> Exact:
    values = together(node, [prover.prove(v) for v in (node.this, *node.expressions)])
    return Operation(Op.COALESCE, tuple(values), values[0].type)


def _nullif(prover: Prover, node: exp.Expression) -> Exact:
    value, other = _cheap(prover, node.this), prover.prove(node.expression)
    test = Operation(Op.EQUAL, tuple(together(node, [value, other])), BOOLEAN)
    return Operation(Op.CASE, (test, Constant(None, value.type), value), value.type)


def _cast(prover: Prover, node: exp.Expression) -> Exact:
    value, target = prover.prove(node.this), exact_type(node.args["to"])
    if target == STRING and value.type != VOID:
        raise unproven(node, "a cast to text")
    if isinstance(value, Constant) and isinstance(value.value, str) and target == DATE:
        day = day_of(value.value)
        if day is not None:
            return day
    if value.type == target or value.type == VOID:
        return cast(value, target)
    if value.type == BOOLEAN and target.integral:
        one, zero, null = (Constant(v, target) for v in (1, 0, None))
        no = Operation(Op.NOT, (value,), BOOLEAN)
        return Operation(Op.CASE, (value, one, no, zero, null), target)
    if value.type == DOUBLE and target == BIGINT:
        prover.may_fail(node)
        return cast(value, target)
    if value.type.digits is None or (target.digits is None and target != DOUBLE):
        raise unproven(node, f"a cast of {value.type} to {target}")
    if target.integral and target != BIGINT and value.type.scale > 5 and value.type.precision > 15:
        # Spark goes through a double, which may round up to the next whole number.
        raise unproven(node, f"a cast of {value.type} to {target}")
    if not holds(value.type, target):
        prover.may_fail(node)
    return cast(value, target)


def _like(prover: Prover, node: exp.Expression) -> Exact:
    return functions.like(prover.prove(node.this), node, lambda reason: unproven(node, reason))


def _substring(prover: Prover, node: exp.Expression) -> Exact:
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    values = [prover.prove(part) for part in parts if part is not None]
    return functions.substring(values, lambda reason: unproven(node, reason))


def _function(prover: Prover, node: exp.Expression) -> Exact:
    return _named(prover, node, str(node.name).lower(), node.expressions)


def _part(prover: Prover, node: exp.Expression) -> Exact:
    return _named(prover, node, str(node.name).lower(), [node.expression])


def _concat(prover: Prover, node: exp.Expression) -> Exact:
    return _named(prover, node, "concat", [node.this, node.expression])


def _named(
    prover: Prover, node: exp.Expression, name: str, arguments: list[exp.Expression]
) -> Exact:
    found = functions.named(name, [prover.prove(argument) for argument in arguments])
    if found is None:
        raise unproven(node, f"{name} of these is not on the list of proven expressions")
    return found


def _paren(prover: Prover, node: exp.Expression) -> Exact:
    return prover.prove(node.this)


def _boolean(_: Prover, node: exp.Expression) -> Exact:
    return Constant(bool(node.this), BOOLEAN)


def _null(_: Prover, __: exp.Expression) -> Exact:
    return Constant(None, VOID)


_Rule = Callable[[Prover, exp.Expression], Exact]
_RULES: dict[type[exp.Expr], _Rule] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
    exp.Neg: _negative,
    exp.Add: _arithmetic(Op.ADD),
    exp.Sub: _arithmetic(Op.SUBTRACT),
    exp.Mul: _arithmetic(Op.MULTIPLY),
    exp.Div: _arithmetic(Op.DIVIDE),
    exp.IntDiv: _arithmetic(Op.QUOTIENT),
    exp.Mod: _arithmetic(Op.REMAINDER),
    exp.EQ: _comparison(Op.EQUAL),
    exp.NEQ: _comparison(Op.UNEQUAL),
    exp.LT: _comparison(Op.LESS),
    exp.LTE: _comparison(Op.AT_MOST),
    exp.GT: _comparison(Op.GREATER),
    exp.GTE: _comparison(Op.AT_LEAST),
    exp.NullSafeEQ: _comparison(Op.SAME),
    exp.NullSafeNEQ: _comparison(Op.SAME, negated=True),
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Cast: _cast,
    exp.Like: _like,
    exp.Substring: _substring,
    exp.Extract: _part,
    exp.DPipe: _concat,
    exp.Anonymous: _function,
}
