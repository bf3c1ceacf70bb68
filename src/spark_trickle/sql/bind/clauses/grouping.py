"""GROUP BY: keys, aggregate calls, grouping sets, and what an expression may still refer to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from spark_trickle.ir.nodes import Aggregate, Expand, Node
from spark_trickle.ir.scalars import column_id, enclosed, is_chain, rebuilt_chain, ref
from spark_trickle.ir.trees import duplicate, holds
from spark_trickle.ir.types import Column
from spark_trickle.sql.bind.build import as_nullable, extended, nullable, typed
from spark_trickle.sql.bind.session import Environment, Nested, Unbuildable, query_of
from spark_trickle.sql.bind.subqueries.conditions import reads_outside, with_values
from spark_trickle.sql.types import coercion as c
from spark_trickle.sql.types.functions import is_aggregate, is_generator, unwrapped
from spark_trickle.sql.types.infer import type_of

Sets = list[tuple[int, ...]]


@dataclass(frozen=True)
class GroupBy:
    """The bound expressions of GROUP BY, and which of them each grouping set has."""

    expressions: tuple[exp.Expression, ...]
    sets: tuple[tuple[int, ...], ...] | None = None
    """Positions in ``expressions``; None for a plain GROUP BY."""


def contains_aggregate(expression: exp.Expr) -> bool:
    """Whether there is an aggregate call that is no window function."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Window):
            waiting += unwrapped(node.this).iter_expressions()
            waiting += [part for key, part in _parts(node) if key != "this"]
        elif is_aggregate(node):
            return True
        else:
            waiting += node.iter_expressions()
    return False


def _parts(node: exp.Expr) -> Iterable[tuple[str, exp.Expr]]:
    for key, value in node.args.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, exp.Expr):
                yield key, item


@dataclass
class Grouping:
    """Collects the calls of an aggregate query and rewrites expressions to read its result."""

    input: Node
    groups: GroupBy
    environment: Environment
    keys: dict[exp.Expression, Column] = field(default_factory=dict)
    calls: dict[exp.Expression, Column] = field(default_factory=dict)
    set_id: Column | None = None
    aliases: Mapping[str, exp.Expression] = field(default_factory=dict)
    """Names of the select list; HAVING prefers them to columns that are not grouped."""
    _over_values: dict[exp.Expression, exp.Expression] = field(default_factory=dict)
    """Calls with subqueries inside, over the columns that hold their values."""
    _outputs: tuple[Column, ...] = ()
    _extra: tuple[Column, ...] = ()

    def __post_init__(self) -> None:
        node, expressions = with_values(self.input, self.groups.expressions, self.environment)
        named = [(_name(e), _unparenthesised(e)) for e in expressions]
        self.input, columns = extended(node, named, self.environment.ids)
        if self.groups.sets is not None:
            columns = self._expand(columns)
        for original, column in zip(self.groups.expressions, columns, strict=True):
            self.keys.setdefault(_unparenthesised(original), column)
        self._outputs = _unique(columns)

    def _expand(self, columns: list[Column]) -> list[Column]:
        """One copy of each row per grouping set, with NULL for the keys the set leaves out."""
        assert self.groups.sets is not None
        ids = self.environment.ids
        copies = [ids.copy(column) for column in as_nullable(tuple(columns))]
        self.set_id = ids.column("grouping_id", c.BIGINT, nullable=False)
        extra = [self.set_id]
        repeated = len(set(self.groups.sets)) < len(self.groups.sets)
        if repeated:
            extra.append(ids.column("grouping_set", c.INT, nullable=False))
        rows = []
        for number, members in enumerate(self.groups.sets):
            row: list[exp.Expression] = [ref(column) for column in self.input.columns]
            row += [ref(k) if i in members else _null(k) for i, k in enumerate(columns)]
            absent = "".join("0" if i in members else "1" for i in range(len(columns)))
            row.append(_number(int(absent or "0", 2), c.BIGINT))
            if repeated:
                row.append(_number(number, c.INT))
            rows.append(tuple(row))
        offered = (*self.input.columns, *copies, *extra)
        self.input = Expand(self.input, offered, tuple(rows))
        self._extra = tuple(extra)
        return copies

    def node(self) -> Aggregate:
        """The aggregate, once all expressions have been rewritten."""
        keys = self._outputs + self._extra
        calls = tuple((column, call) for call, column in self.calls.items())
        return Aggregate(self.input, keys, calls)

    def prepare(self, expressions: Iterable[exp.Expression]) -> None:
        """Subqueries inside aggregate calls are joined before the rows are grouped."""
        calls = [call for each in expressions for call in _aggregate_calls(each)]
        calls = [call for call in calls if holds(call, Nested)]
        self.input, found = with_values(self.input, calls, self.environment)
        self._over_values.update(zip(calls, found, strict=True))

    def over_groups(self, expression: exp.Expression) -> exp.Expression:
        """The expression over the columns of the aggregate."""
        bare = _unparenthesised(expression)
        if bare in self.keys:
            return ref(self.keys[bare])
        if isinstance(expression, Nested):
            return self._nested(expression)
        if isinstance(expression, exp.Window):
            return self._window(expression)
        if is_aggregate(expression):
            return ref(self._call(expression))
        if isinstance(expression, exp.Grouping | exp.GroupingId):
            return self._grouping(expression)
        if isinstance(expression, exp.Column):
            return self._plain(expression)
        return self._rebuilt(expression)

    def _rebuilt(self, node: exp.Expression, keep: str = "") -> exp.Expression:
        if is_chain(node):
            return rebuilt_chain(node, self._operand)
        result = duplicate(node) if not node.args else node.__class__()
        for key, value in node.args.items():
            if isinstance(value, list):
                result.set(key, [self._part(item) for item in value])
            else:
                result.set(key, value if key == keep else self._part(value))
        result.meta.update(node.meta)
        result.type = node.type
        return result

    def _operand(self, value: exp.Expression) -> exp.Expression:
        changed = self._part(value)
        assert isinstance(changed, exp.Expression)
        return changed

    def _part(self, value: object) -> object:
        if not isinstance(value, exp.Expression):
            return duplicate(value) if isinstance(value, exp.Expr) else value
        changed = self.over_groups(value)
        return changed if isinstance(value, exp.Column | exp.Paren) else _fitting(value, changed)

    def _window(self, node: exp.Window) -> exp.Expression:
        """The function of a window call is no aggregate of the groups, its arguments may be."""
        result = self._rebuilt(node, keep="this")
        result.set("this", self._window_call(node.this))
        return result

    def _window_call(self, call: exp.Expression) -> exp.Expression:
        inner = unwrapped(call)
        if inner is call:
            return self._rebuilt(call)
        result = self._rebuilt(call, keep="this")
        result.set("this", self._window_call(call.this))
        return result

    def _call(self, call: exp.Expression) -> Column:
        call = self._over_values.get(call, call)
        known = self.calls.get(call)
        if known is not None:
            return known
        for part in unwrapped(call).iter_expressions():
            if contains_aggregate(part) or holds(part, exp.Window):
                raise self.environment.text.error(
                    call,
                    "an aggregate function inside an aggregate function",
                    hint="aggregate in a subquery first",
                )
            if any(map(is_generator, part.walk())):
                raise self.environment.text.error(
                    call, "a row-making function inside an aggregate", hint="use LATERAL VIEW"
                )
        name = unwrapped(call).sql(dialect="spark").split("(")[0].lower()
        offered = {column.id: column for column in self.input.columns}
        type = type_of(call)
        column = self.environment.ids.column(name, type, nullable(call, offered))
        self.calls[call] = column
        return column

    def _plain(self, column: exp.Column) -> exp.Expression:
        id = column_id(column)
        if all(id != offered.id for offered in self.input.columns):
            return duplicate(column)
        name = column.name.rpartition("#")[0]
        alias = self.aliases.get(name.lower())
        if alias is not None and alias != column:
            return enclosed(self.over_groups(alias))
        raise self._ungrouped(
            column,
            f"column {name} is neither grouped nor aggregated",
            hint=f"add it to GROUP BY, or aggregate it, for example max({name})",
        )

    def _ungrouped(self, node: exp.Expr | None, message: str, hint: str) -> Exception:
        """What to raise; of a subquery that is grouped only Spark knows whether this is the same one."""
        if not any(holds(key, Nested) for key in self.groups.expressions):
            return self.environment.text.error(node, message, hint=hint)
        self.environment.block(
            "UNSUPPORTED_CLAUSE",
            node,
            "a subquery in GROUP BY that is written again elsewhere is not maintained incrementally",
            "give it an alias in SELECT and group by that",
        )
        return Unbuildable()

    def _nested(self, node: Nested) -> exp.Expression:
        session = self.environment.session
        query = query_of(node, session)
        query = replace(query, operands=tuple(map(self.over_groups, query.operands)))
        offered = frozenset(c.id for c in (*self._outputs, *self.calls.values()))
        mine = {column.id: column for column in self.input.columns}
        for id in sorted(reads_outside(query, offered)):
            if id in mine:
                raise self._ungrouped(
                    query.origin,
                    f"the subquery refers to {mine[id].name}, which is not grouped",
                    hint="add it to GROUP BY",
                )
        session.nested.append(query)
        result = Nested(this=exp.Literal.number(len(session.nested) - 1))
        result.type = node.type
        return result

    def _grouping(self, node: exp.Expression) -> exp.Expression:
        count = len(self.groups.expressions)
        if self.set_id is None:
            raise self.environment.text.error(
                node, "GROUPING needs GROUPING SETS, ROLLUP or CUBE", hint="remove it"
            )
        listed = node.expressions
        if isinstance(node, exp.GroupingId) and not listed:
            return ref(self.set_id)
        positions = [self._position(part, node) for part in listed]
        bits: exp.Expression = _bit(self.set_id, count - 1 - positions[0])
        for position in positions[1:]:
            doubled = exp.Mul(this=enclosed(bits), expression=exp.Literal.number(2))
            bits = exp.Add(this=doubled, expression=_bit(self.set_id, count - 1 - position))
        type = c.TINYINT if isinstance(node, exp.Grouping) else c.BIGINT
        return typed(exp.cast(bits, type), type)

    def _position(self, part: exp.Expression, node: exp.Expression) -> int:
        for position, expression in enumerate(self.groups.expressions):
            if _unparenthesised(expression) == _unparenthesised(part):
                return position
        raise self.environment.text.error(
            node, "GROUPING of something that is not in GROUP BY", hint="use a grouped expression"
        )


def _aggregate_calls(expression: exp.Expression) -> Iterable[exp.Expression]:
    if is_aggregate(expression):
        yield expression
        return
    for part in expression.iter_expressions():
        yield from _aggregate_calls(part)


def _fitting(before: exp.Expression, after: exp.Expression) -> exp.Expression:
    """A part that was an atom before may need parentheses after."""
    if isinstance(before, exp.Grouping | exp.GroupingId):
        return enclosed(after)
    return after


def _bit(set_id: Column, shift: int) -> exp.Expression:
    """One bit of the grouping id, as arithmetic that every engine has."""
    moved: exp.Expression = ref(set_id)
    if shift:
        whole = exp.IntDiv(this=ref(set_id), expression=exp.Literal.number(2**shift))
        moved = exp.Paren(this=whole)
    return exp.Paren(this=exp.Mod(this=moved, expression=exp.Literal.number(2)))


def _number(value: int, type: exp.DataType) -> exp.Expression:
    return typed(exp.cast(exp.Literal.number(value), type), type)


def _null(column: Column) -> exp.Expression:
    if c.is_unknown(column.type):
        return typed(exp.null(), column.type)
    return typed(exp.cast(exp.null(), column.type), column.type)


def _unparenthesised(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _unique(columns: list[Column]) -> tuple[Column, ...]:
    return tuple({column.id: column for column in columns}.values())


def _name(expression: exp.Expression) -> str:
    if isinstance(expression, exp.Dot):
        return str(expression.expression.name)
    return "key"
