"""The type of a scalar expression from the types of its parts; Spark's type errors, with a place.

``infer`` looks at one node whose parts already carry types. What it does not know is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from spark_trickle.ir.aggregates import arguments, function_name
from spark_trickle.ir.decimals import decimal_type
from spark_trickle.ir.scalars import whole_number
from spark_trickle.sql.text import Text
from spark_trickle.sql.types import coercion as c
from spark_trickle.sql.types.result_types import TypedCall, result_type

ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
)


def infer(node: exp.Expression, text: Text) -> exp.DataType:
    """The type of a node; raises BindError where Spark would refuse it."""
    for kinds, rule in _RULES:
        if isinstance(node, kinds):
            return rule(node, text)
    if isinstance(node, exp.Predicate):
        return c.BOOLEAN
    if isinstance(node, exp.Func):
        return _function(node, text)
    return c.UNKNOWN


def type_of(node: exp.Expr | None) -> exp.DataType:
    """The type that was inferred before."""
    return c.UNKNOWN if node is None or node.type is None else node.type


def require_boolean(node: exp.Expression, text: Text, clause: str) -> None:
    """A condition must be BOOLEAN."""
    type = type_of(node)
    if not c.is_unknown(type) and type.this != c.Type.BOOLEAN:
        raise text.error(
            node,
            f"{clause} needs a condition, but this is {c.spell(type)}",
            hint="compare it with something, for example: … <> 0 or … IS NOT NULL",
        )


def literal(node: exp.Literal) -> exp.DataType:
    """The type of a literal as Spark reads it."""
    if node.is_string:
        return c.STRING
    digits = node.name.lower()
    if "e" in digits:
        return c.DOUBLE
    if "." in digits:
        whole, _, fraction = digits.partition(".")
        significant = len(whole.lstrip("0")) + len(fraction)
        return decimal_type(max(significant, len(fraction), 1), len(fraction))
    value = int(digits)
    if value < 2**31:
        return c.INT
    return c.BIGINT if value < 2**63 else decimal_type(len(digits), 0)


def _literal(node: exp.Expression, _: Text) -> exp.DataType:
    return literal(node) if isinstance(node, exp.Literal) else c.UNKNOWN


def _arithmetic(node: exp.Expression, text: Text) -> exp.DataType:
    left, right = type_of(node.this), type_of(node.expression)
    if c.Type.UNKNOWN in (left.this, right.this):
        return c.UNKNOWN
    temporal = _temporal(node, left, right)
    if temporal is not None:
        return temporal
    for side, type in ((node.this, left), (node.expression, right)):
        if not (c.is_numeric(type) or type.this in (c.Type.TEXT, c.Type.NULL)):
            raise text.error(
                side,
                f"arithmetic needs numbers, but this is {c.spell(type)}",
                hint=_arithmetic_hint(left, right),
            )
    return _numbers(node, left, right)


def _arithmetic_hint(left: exp.DataType, right: exp.DataType) -> str:
    if left.this in c.TEMPORAL or right.this in c.TEMPORAL:
        return "add an INTERVAL to a date or timestamp, or subtract two of the same type"
    return "cast it to a number first"


def _numbers(node: exp.Expression, left: exp.DataType, right: exp.DataType) -> exp.DataType:
    if c.Type.NULL in (left.this, right.this):
        left, right = (right, right) if left.this == c.Type.NULL else (left, left)
        if left.this == c.Type.NULL:
            return c.DOUBLE
    if isinstance(node, exp.IntDiv):
        return c.BIGINT
    if c.Type.TEXT in (left.this, right.this):
        other = right if left.this == c.Type.TEXT else left
        return c.with_string(other, integral=not isinstance(node, exp.Div))
    if left.this in c.FLOATS or right.this in c.FLOATS:
        return c.common(left, right) or c.DOUBLE
    if c.Type.DECIMAL in (left.this, right.this):
        a, b = _digits(node.this, left), _digits(node.expression, right)
        return c.decimal_result(type(node), a, b)
    if isinstance(node, exp.Div):
        return c.DOUBLE
    return c.common(left, right) or c.UNKNOWN


def _digits(node: exp.Expr, type: exp.DataType) -> tuple[int, int]:
    """Precision and scale of an operand; an integer literal counts only the digits it has."""
    digits = whole_number(node)
    if digits is not None and type.this in c.INTEGERS:
        return len(digits.lstrip("0")) or 1, 0
    return c.as_decimal(type) or (38, 18)


def _temporal(node: exp.Expression, left: exp.DataType, right: exp.DataType) -> exp.DataType | None:
    """Dates, timestamps and intervals in arithmetic; None where the rule for numbers applies."""
    if isinstance(node, exp.Add) and left.this not in c.TEMPORAL:
        left, right = (right, left) if right.this in c.TEMPORAL else (left, right)
    if isinstance(node, exp.Add | exp.Sub) and left.this in c.TEMPORAL:
        return _shifted(node, left, right)
    if c.is_interval(left):
        if isinstance(node, exp.Add | exp.Sub) and c.is_interval(right):
            return left if left == right else c.UNKNOWN
        if isinstance(node, exp.Mul | exp.Div) and (c.is_numeric(right) or c.is_unknown(right)):
            return left
    if isinstance(node, exp.IntDiv) and c.is_interval(left) and c.is_interval(right):
        return c.BIGINT
    if isinstance(node, exp.Mul) and c.is_interval(right) and c.is_numeric(left):
        return right
    return None


def _shifted(node: exp.Expression, moment: exp.DataType, by: exp.DataType) -> exp.DataType | None:
    if by.this in c.TEMPORAL and isinstance(node, exp.Sub):
        return c.DAY_TIME
    if c.is_interval(by):
        if moment.this == c.Type.DATE and by == c.DAY_TIME and not _whole_days(node):
            return c.TIMESTAMP
        return moment
    if moment.this == c.Type.DATE and by.this in (*c.INTEGERS[:3], c.Type.NULL):
        return c.DATE
    return None


def _whole_days(node: exp.Expression) -> bool:
    """Whether every interval literal in a date's arithmetic counts days or weeks."""
    units = [
        interval.args["unit"].name.upper()
        for interval in node.find_all(exp.Interval)
        if isinstance(interval.args.get("unit"), exp.Var)
    ]
    return bool(units) and all(unit in ("DAY", "DAYS", "WEEK", "WEEKS") for unit in units)


def _comparison(node: exp.Expression, text: Text) -> exp.DataType:
    require_comparison(node, node.this, node.expression, text)
    return c.BOOLEAN


def require_comparison(node: exp.Expr, left: exp.Expr, right: exp.Expr, text: Text) -> None:
    """Two operands Spark can compare."""
    if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple | exp.Any | exp.All):
        return
    a, b = type_of(left), type_of(right)
    if not c.can_compare(a, b):
        raise text.error(
            node,
            f"{c.spell(a)} cannot be compared with {c.spell(b)}",
            hint=f"cast one side, for example: CAST(… AS {c.spell(a)})",
        )


def _connector(node: exp.Expression, text: Text) -> exp.DataType:
    operands = [node.this] if isinstance(node, exp.Not) else [node.this, node.expression]
    for operand in operands:
        type = type_of(operand)
        if not c.is_unknown(type) and type.this not in (c.Type.BOOLEAN, c.Type.TEXT):
            raise text.error(
                operand,
                f"{node.key.upper()} needs conditions, but this is {c.spell(type)}",
                hint="compare it with something",
            )
    return c.BOOLEAN


def _between(node: exp.Expression, text: Text) -> exp.DataType:
    for bound in ("low", "high"):
        require_comparison(node, node.this, node.args[bound], text)
    return c.BOOLEAN


def _in(node: exp.Expression, text: Text) -> exp.DataType:
    if not node.expressions:
        raise text.error(node, "IN of an empty list", hint="list at least one value")
    for value in node.expressions:
        require_comparison(node, node.this, value, text)
    return c.BOOLEAN


def _negative(node: exp.Expression, text: Text) -> exp.DataType:
    type = type_of(node.this)
    if isinstance(node.this, exp.Literal) and node.this.name in (str(2**31), str(2**63)):
        # The sign belongs to the number: -2147483648 is an INT.
        return c.INT if node.this.name == str(2**31) else c.BIGINT
    fits = c.is_numeric(type) or c.is_interval(type) or c.is_unknown(type)
    if not fits and type.this not in (c.Type.TEXT, c.Type.NULL):
        raise text.error(
            node, f"{c.spell(type)} cannot be negated", hint="cast it to a number first"
        )
    return c.DOUBLE if type.this in (c.Type.TEXT, c.Type.NULL) else type


def _bits(node: exp.Expression, _: Text) -> exp.DataType:
    if isinstance(node, exp.Binary):
        return c.common(type_of(node.this), type_of(node.expression)) or c.UNKNOWN
    return type_of(node.this)


def _same_as_inside(node: exp.Expression, _: Text) -> exp.DataType:
    return type_of(node.this)


def _cast(node: exp.Expression, text: Text) -> exp.DataType:
    target = c.canonical(node.args["to"])
    given = type_of(node.this)
    if c.is_nested(given) and not c.is_nested(target) and target.this != c.Type.TEXT:
        raise text.error(
            node,
            f"{c.spell(given)} cannot be cast to {c.spell(target)}",
            hint="take an element or a field of it first",
        )
    return target


def unified(values: list[exp.Expr], node: exp.Expr, text: Text) -> exp.DataType:
    """The common type of alternatives, as in CASE and COALESCE."""
    result = c.NULL
    for value in values:
        wider = c.common(result, type_of(value))
        if wider is None:
            raise text.error(
                node,
                f"the alternatives have no common type: {c.spell(result)} and "
                f"{c.spell(type_of(value))}",
                hint="cast them to one type",
            )
        result = wider
    return result


def _case(node: exp.Expression, text: Text) -> exp.DataType:
    for branch in node.args["ifs"]:
        if node.this is None:
            require_boolean(branch.this, text, "WHEN")
        else:
            require_comparison(branch, node.this, branch.this, text)
    values = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    return unified(values + ([default] if default else []), node, text)


def _if(node: exp.Expression, text: Text) -> exp.DataType:
    require_boolean(node.this, text, "IF")
    alternatives = [node.args["true"], node.args.get("false")]
    return unified([value for value in alternatives if value is not None], node, text)


def _coalesce(node: exp.Expression, text: Text) -> exp.DataType:
    return unified([node.this, *node.expressions], node, text)


def _dot(node: exp.Expression, text: Text) -> exp.DataType:
    given = type_of(node.this)
    found = c.field_of(given, node.expression.name)
    if found is None:
        raise text.error(
            node,
            f"{c.spell(given)} has no field {node.expression.name}",
            hint="check the struct's fields",
        )
    return found


def _bracket(node: exp.Expression, text: Text) -> exp.DataType:
    given = type_of(node.this)
    if given.this == c.Type.STRUCT and node.expressions[0].is_string:
        return c.field_of(given, node.expressions[0].name) or c.UNKNOWN
    if not (c.is_unknown(given) or c.is_nested(given) or given.this == c.Type.VARIANT):
        raise text.error(
            node, f"{c.spell(given)} has no elements", hint="only arrays, maps and structs do"
        )
    return c.element_of(given)


def _interval(node: exp.Expression, _: Text) -> exp.DataType:
    return c.interval_of(node.args.get("unit"))


def _window(node: exp.Expression, _: Text) -> exp.DataType:
    return type_of(node.this)


def _part_of_text(node: exp.Expression, _: Text) -> exp.DataType:
    type = type_of(node.this)
    return type if type.this in (c.Type.BINARY, c.Type.UNKNOWN) else c.STRING


def _joined(node: exp.Expression, text: Text) -> exp.DataType:
    sides = [node.this, node.expression]
    return result_type(TypedCall("concat", node, sides, text))


def _extract(node: exp.Expression, _: Text) -> exp.DataType:
    if type_of(node.expression).this not in (*c.TEMPORAL, c.Type.TEXT):
        return c.UNKNOWN
    return decimal_type(8, 6) if node.name.upper().startswith("SECOND") else c.INT


def _constant(type: exp.DataType) -> Callable[[exp.Expression, Text], exp.DataType]:
    return lambda _node, _text: type


def _function(node: exp.Expression, text: Text) -> exp.DataType:
    return result_type(TypedCall(function_name(node), node, arguments(node), text))


_Rule = Callable[[exp.Expression, Text], exp.DataType]
_RULES: tuple[tuple[tuple[type[exp.Expr], ...], _Rule], ...] = (
    ((exp.Literal,), _literal),
    ((exp.Null,), _constant(c.NULL)),
    ((exp.Boolean,), _constant(c.BOOLEAN)),
    ((exp.RawString, exp.Collate), _constant(c.STRING)),
    ((exp.DPipe,), _joined),
    ((exp.HexString, exp.ByteString), _constant(c.BINARY)),
    (ARITHMETIC, _arithmetic),
    (COMPARISONS, _comparison),
    ((exp.And, exp.Or, exp.Not), _connector),
    ((exp.Between,), _between),
    ((exp.In,), _in),
    ((exp.Neg,), _negative),
    ((exp.Cast,), _cast),
    ((exp.Case,), _case),
    ((exp.If,), _if),
    ((exp.Coalesce,), _coalesce),
    ((exp.Nullif, exp.Paren, exp.Alias, exp.Filter, exp.Distinct), _same_as_inside),
    ((exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls, exp.Ordered), _same_as_inside),
    ((exp.Dot,), _dot),
    ((exp.Bracket,), _bracket),
    ((exp.Interval,), _interval),
    ((exp.Window,), _window),
    ((exp.Extract,), _extract),
    ((exp.Substring, exp.Overlay), _part_of_text),
    ((exp.Trim, exp.Concat), _constant(c.STRING)),
    ((exp.StrPosition,), _constant(c.INT)),
    ((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot), _bits),
    ((exp.BitwiseLeftShift, exp.BitwiseRightShift), _same_as_inside),
    ((exp.Escape,), _constant(c.BOOLEAN)),
    ((exp.CurrentDate,), _constant(c.DATE)),
    ((exp.CurrentTimestamp,), _constant(c.TIMESTAMP)),
)
