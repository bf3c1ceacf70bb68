"""Expressions: each node that is known has a rule, every other node is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.literals import interval, number_literal
from spark_trickle.sql.pg.meeting import PgScope, bracketed, met, named, opposite
from spark_trickle.sql.pg.parts import all_known
from spark_trickle.sql.pg.rules import aggregates, numbers, texts, times
from spark_trickle.sql.pg.rules.casts import coerced, converted
from spark_trickle.sql.pg.rules.functions import function
from spark_trickle.sql.pg.types import PgType, common, from_postgres, length_of, refusal, refuse
from spark_trickle.sql.pg.values import PgValue, call, number, text


class Expressions:
    """Translates the expressions of one scope."""

    def __init__(self, scope: PgScope) -> None:
        self._scope = scope

    def value(self, node: exp.Expr) -> PgValue:
        rule = _RULES.get(type(node))
        if rule is None:
            refuse(f"{named(node)} has no proven translation")
        all_known(node)
        return rule(self, node)

    def plain(self, node: exp.Expr) -> exp.Expr:
        """The translation of a value whose type does not matter; a bare literal is a text."""
        value = self.value(node)
        return coerced(value, t.TEXT).tree if value.type == t.UNKNOWN else value.tree

    def condition(self, node: exp.Expr) -> exp.Expr:
        value = self.value(node)
        if value.type == t.UNKNOWN:
            value = coerced(value, t.BOOL)
        if value.type not in (t.BOOL, t.OPAQUE):
            refuse(f"a condition of type {value.type}")
        return value.tree

    def _column(self, node: exp.Column) -> PgValue:
        if isinstance(node.this, exp.Star):
            return PgValue(node, t.OPAQUE)
        return PgValue(node.copy(), self._scope.column(node))

    def _literal(self, node: exp.Expr) -> PgValue:
        if isinstance(node, exp.Literal) and not node.is_string:
            return number_literal(str(node.this))
        return PgValue(text(str(node.this)), t.UNKNOWN, str(node.this))

    def _null(self, _: exp.Expr) -> PgValue:
        return PgValue(exp.Null(), t.UNKNOWN)

    def _boolean(self, node: exp.Expr) -> PgValue:
        return PgValue(node.copy(), t.BOOL)

    def _paren(self, node: exp.Expr) -> PgValue:
        value = self.value(node.this)
        return PgValue(exp.Paren(this=value.tree), value.type, value.constant)

    def _neg(self, node: exp.Expr) -> PgValue:
        return numbers.negated(self.value(node.this))

    def _not(self, node: exp.Expr) -> PgValue:
        return PgValue(exp.Not(this=exp.Paren(this=self.condition(node.this))), t.BOOL)

    def _logical(self, node: exp.Expr) -> PgValue:
        sides = [exp.Paren(this=self.condition(side)) for side in (node.this, node.expression)]
        return PgValue(type(node)(this=sides[0], expression=sides[1]), t.BOOL)

    def _arithmetic(self, node: exp.Expr) -> PgValue:
        left, right = self.value(node.this), self.value(node.expression)
        if isinstance(node, exp.Add | exp.Sub):
            moved = times.added(left, right, minus=isinstance(node, exp.Sub))
            if moved is not None:
                return moved
        if left.type == right.type == t.UNKNOWN:
            refuse("arithmetic of literals in quotes")
        left, right = met(left, right)
        for side in (left, right):
            if not side.type.is_number:
                refuse(f"{node.key} of {left.type} and {right.type}")
        return numbers.arithmetic(type(node), left, right)  # type: ignore[arg-type]

    def _pipe(self, node: exp.Expr) -> PgValue:
        return texts.joined(self.value(node.this), self.value(node.expression))

    def _compared(self, node: exp.Expr) -> PgValue:
        kind: Any = type(node)
        tuples = [side for side in (node.this, node.expression) if isinstance(side, exp.Tuple)]
        if tuples:
            return self._rows(node)
        quantified = node.expression
        if isinstance(quantified, exp.Any | exp.All):
            return self._any(node, quantified)
        left, right = met(self.value(node.this), self.value(node.expression))
        type_ = common([left.type, right.type], "comparison")
        return PgValue(
            exp.Paren(
                this=kind(
                    this=bracketed(coerced(left, type_).tree),
                    expression=bracketed(coerced(right, type_).tree),
                )
            ),
            t.BOOL,
        )

    def _rows(self, node: exp.Expr) -> PgValue:
        pairs = (node.this, node.expression)
        if not isinstance(node, exp.EQ) or not all(isinstance(side, exp.Tuple) for side in pairs):
            refuse("a comparison of rows by other than =")
        found = [
            self._compared(exp.EQ(this=left.copy(), expression=right.copy())).tree
            for left, right in zip(node.this.expressions, node.expression.expressions, strict=True)
        ]
        return PgValue(exp.Paren(this=exp.and_(*found, copy=False)), t.BOOL)

    def _any(self, node: exp.Expr, quantified: exp.Expr) -> PgValue:
        inner = quantified.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(quantified, exp.All) or not isinstance(node, exp.EQ):
            refuse("ANY and ALL by other than = ANY")
        if isinstance(inner, exp.Subquery | exp.Query):
            return self._in(exp.In(this=node.this.copy(), query=inner.copy()))
        if isinstance(inner, exp.Array):
            return self._in(exp.In(this=node.this.copy(), expressions=inner.expressions))
        raise refusal("= ANY of an array that is not written out")

    def _distinct_from(self, node: exp.Expr) -> PgValue:
        left, right = met(self.value(node.this), self.value(node.expression))
        type_ = common([left.type, right.type], "IS DISTINCT FROM")
        same = exp.Paren(
            this=exp.NullSafeEQ(
                this=bracketed(coerced(left, type_).tree),
                expression=bracketed(coerced(right, type_).tree),
            )
        )
        return PgValue(same if isinstance(node, exp.NullSafeEQ) else exp.Not(this=same), t.BOOL)

    def _is(self, node: exp.Expr) -> PgValue:
        what = node.expression
        if isinstance(what, exp.Null):
            test = exp.Is(this=bracketed(self.plain(node.this)), expression=exp.Null())
        elif isinstance(what, exp.Boolean):
            inner = exp.Paren(this=self.condition(node.this))
            test = exp.NullSafeEQ(this=inner, expression=what.copy())  # type: ignore[assignment]
        else:
            raise refusal(f"IS {what.sql('postgres')}")
        found = PgValue(exp.Paren(this=test), t.BOOL)
        return opposite(found) if node.args.get("negate") else found

    def _between(self, node: exp.Expr) -> PgValue:
        if node.args.get("symmetric"):
            refuse("BETWEEN SYMMETRIC")
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        sides = [self._compared(side).tree for side in (low, high)]
        return PgValue(exp.Paren(this=exp.And(this=sides[0], expression=sides[1])), t.BOOL)

    def _in(self, node: exp.Expr) -> PgValue:
        query = node.args.get("query")
        if query is not None:
            query = query.copy()
            types = self._scope.subquery(query)
            left = self.value(node.this)
            if len(types) != 1 or isinstance(node.this, exp.Tuple):
                refuse("IN with several columns")
            type_ = common([left.type, types[0]], "IN")
            if types[0] not in (type_, t.UNKNOWN) and not types[0].is_exact:
                refuse(f"IN of {left.type} and {types[0]}")
            return PgValue(exp.In(this=bracketed(coerced(left, type_).tree), query=query), t.BOOL)
        if isinstance(node.this, exp.Tuple):
            refuse("IN with rows")
        values = [self.value(item) for item in (node.this, *node.expressions)]
        type_ = common([v.type for v in values], "IN")
        trees = [coerced(v, type_).tree for v in values]
        return PgValue(
            exp.Paren(this=exp.In(this=bracketed(trees[0]), expressions=trees[1:])), t.BOOL
        )

    def _like(self, node: exp.Expr) -> PgValue:
        escape = None
        if isinstance(node, exp.Escape):
            escape, node = str(node.expression.this), node.this
            all_known(node)
        value, by = self.value(node.this), self.value(node.expression)
        found = texts.like(value, by, any_case=isinstance(node, exp.ILike), escape=escape)
        return opposite(found) if node.args.get("negate") else found

    def _matches(self, node: exp.Expr) -> PgValue:
        value, by = self.value(node.this), self.value(node.expression)
        return texts.matches(value, by, any_case=isinstance(node, exp.RegexpILike))

    def _case(self, node: exp.Expr) -> PgValue:
        base, branches = node.this, node.args["ifs"]
        conditions = [
            self._compared(exp.EQ(this=base.copy(), expression=b.this.copy())).tree
            if base is not None
            else self.condition(b.this)
            for b in branches
        ]
        default = node.args.get("default")
        values = [self.value(b.args["true"]) for b in branches]
        values += [self.value(default)] if default is not None else []
        type_ = common([v.type for v in values], "CASE")
        trees = [coerced(v, type_).tree for v in values]
        ifs = [exp.If(this=c, true=v) for c, v in zip(conditions, trees, strict=False)]
        return PgValue(exp.Case(ifs=ifs, default=trees[-1] if default is not None else None), type_)

    def _cast(self, node: exp.Expr) -> PgValue:
        inner, to = node.this, node.args["to"]
        if to.this == exp.DType.INTERVAL:
            return self._interval(exp.Interval(this=inner.copy()))
        if isinstance(inner, exp.Array):
            return self._array(inner, from_postgres(to).element)
        value = converted(self.value(inner), from_postgres(to))
        longest = length_of(to)
        if longest is None:
            return value
        return PgValue(call("left", value.tree, number(longest)), t.TEXT)

    def _interval(self, node: exp.Expr) -> PgValue:
        unit = node.args.get("unit")
        content = node.this
        if not isinstance(content, exp.Literal):
            refuse("an interval that is not a constant")
        return PgValue(
            exp.Null(), t.INTERVAL, interval(str(content.this), unit.name if unit else None)
        )

    def _array(self, node: exp.Expr, element: PgType | None = None) -> PgValue:
        values = [self.value(item) for item in node.expressions]
        if not values and element is None:
            refuse("an empty array without a type", "CAST it: ARRAY[]::integer[]")
        type_ = element or common([v.type for v in values], "ARRAY")
        trees = [converted(v, type_).tree if element else coerced(v, type_).tree for v in values]
        return PgValue(call("array", *trees), PgType("array", element=type_))

    def _extract(self, node: exp.Expr) -> PgValue:
        return times.extract(node.this.name, self.value(node.expression))

    def _substring(self, node: exp.Expr) -> PgValue:
        parts = [node.args.get(name) for name in ("start", "length")]
        start, length = (None if part is None else self.value(part) for part in parts)
        return texts.substring(self.value(node.this), start, length)

    def _trim(self, node: exp.Expr) -> PgValue:
        characters = node.args.get("expression")
        where = str(node.args.get("position") or "BOTH").upper()
        found = None if characters is None else self.value(characters)
        return texts.trimmed(self.value(node.this), found, where)

    def _position(self, node: exp.Expr) -> PgValue:
        return texts.position(self.value(node.args["substr"]), self.value(node.this))

    def _exists(self, node: exp.Expr) -> PgValue:
        result = node.copy()
        self._scope.subquery(result.this)
        return PgValue(result, t.BOOL)

    def _scalar(self, node: exp.Expr) -> PgValue:
        result = node.copy()
        types = self._scope.subquery(result)
        if len(types) != 1:
            refuse("a subquery with several columns as a value")
        return PgValue(result, types[0])

    def _call(self, node: exp.Expr) -> PgValue:
        name = str(node.this).lower()
        if name in aggregates.AGGREGATES:
            return self._aggregate(name, node)
        if name == "string_agg":
            return self._string_agg(node)
        if name in aggregates.WINDOWS:
            refuse(f"{name} without OVER")
        if name in ("array_agg", "json_agg"):
            refuse(f"{name}: its order is left open")
        return function(name, [self.value(item) for item in node.expressions])

    def _aggregate(self, name: str, node: exp.Expr) -> PgValue:
        if len(node.expressions) != 1:
            refuse(f"{name} with {len(node.expressions)} arguments")
        inner, distinct = node.expressions[0], False
        if isinstance(inner, exp.Star):
            return aggregates.counted()
        if isinstance(inner, exp.Distinct):
            inner, distinct = inner.expressions[0], True
        if isinstance(inner, exp.Order):
            refuse(f"ORDER BY inside {name}")
        return aggregates.aggregate(name, self.value(inner), distinct)

    def _string_agg(self, node: exp.Expr) -> PgValue:
        """Only in a stated order, and by a constant separator."""
        if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Order):
            refuse("string_agg without ORDER BY: its order is left open")
        order = node.expressions[1].copy()
        separator = self.value(order.this)
        if not isinstance(separator.constant, str):
            refuse("string_agg with a separator that is not a constant")
        content = texts.as_text(self.value(node.expressions[0]), "string_agg")
        for item in order.expressions:
            item.set("this", self.plain(item.this))
        order.set("this", None)
        tree = exp.WithinGroup(
            this=call("listagg", content, text(separator.constant)), expression=order
        )
        return PgValue(tree, t.TEXT)

    def _filter(self, node: exp.Expr) -> PgValue:
        """The parts of an average are filtered alike."""
        inner = self.value(node.this)
        condition = self.condition(node.expression.this)

        def filtered(tree: exp.Expr) -> exp.Expr:
            if isinstance(tree, exp.Anonymous) and str(tree.this) in aggregates.AGGREGATES:
                where = exp.Where(this=condition.copy())
                return exp.Filter(this=tree.copy(), expression=where)
            return tree

        return PgValue(inner.tree.transform(filtered), inner.type)

    def _window(self, node: exp.Expr) -> PgValue:
        if node.args.get("alias") is not None or not isinstance(node.this, exp.Anonymous):
            refuse("a window of this form")
        name = str(node.this.this).lower()
        over = node.copy()
        if over.args.get("spec") is not None:
            all_known(over.args["spec"])
        partition = [self.plain(item) for item in node.args.get("partition_by") or []]
        over.set("partition_by", partition)
        order = over.args.get("order")
        for item in order.expressions if order is not None else []:
            all_known(item)
            item.set("this", self.plain(item.this))
        if name in aggregates.WINDOWS:
            arguments = [self.value(item) for item in node.this.expressions]
            tree, type_, wide = aggregates.ranked(name, arguments)
            over.set("this", tree)
            return aggregates.widened(over, type_, wide)
        inner = self.value(node.this)

        def windowed(tree: exp.Expr) -> exp.Expr:
            if isinstance(tree, exp.Anonymous) and str(tree.this) in aggregates.AGGREGATES:
                placed = over.copy()
                placed.set("this", tree.copy())
                return placed
            return tree

        return PgValue(inner.tree.transform(windowed), inner.type)


_E = Expressions
_RULES: dict[type[exp.Expr], Callable[[Expressions, Any], PgValue]] = {
    exp.Column: _E._column,
    exp.Literal: _E._literal,
    exp.RawString: _E._literal,
    exp.ByteString: _E._literal,
    exp.Null: _E._null,
    exp.Boolean: _E._boolean,
    exp.Paren: _E._paren,
    exp.Neg: _E._neg,
    exp.Not: _E._not,
    **dict.fromkeys((exp.And, exp.Or), _E._logical),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), _E._arithmetic),
    exp.DPipe: _E._pipe,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _E._compared),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _E._distinct_from),
    exp.Is: _E._is,
    exp.Between: _E._between,
    exp.In: _E._in,
    **dict.fromkeys((exp.Like, exp.ILike, exp.Escape), _E._like),
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike), _E._matches),
    exp.Case: _E._case,
    exp.Cast: _E._cast,
    exp.Interval: _E._interval,
    exp.Array: _E._array,
    exp.Extract: _E._extract,
    exp.Substring: _E._substring,
    exp.Trim: _E._trim,
    exp.StrPosition: _E._position,
    exp.CurrentDate: lambda *_: PgValue(call("current_date"), t.DATE),
    exp.CurrentTimestamp: lambda *_: PgValue(call("current_timestamp"), t.TIMESTAMPTZ),
    exp.Exists: _E._exists,
    exp.Subquery: _E._scalar,
    exp.Anonymous: _E._call,
    exp.Filter: _E._filter,
    exp.Window: _E._window,
}
