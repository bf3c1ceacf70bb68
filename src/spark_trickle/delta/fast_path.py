"""Whether a query can be kept by folding: each commit's own changes added to the stored groups.

It can if it is one additive state over filters and projections of one table, shown by projections and
HAVING, and if every expression is proven (``prove/scalars.py``). Then the change of the state and of the
result follow from the changed rows and the stored groups alone, without reading the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.delta.segment import Part, Strategy, core
from spark_trickle.delta.state import ROWS
from spark_trickle.ir.aggregates import Other, classify
from spark_trickle.ir.exact import (
    KEYS,
    Constant,
    Exact,
    ExactKind,
    ExactType,
    Input,
    Op,
    Operation,
    show,
)
from spark_trickle.ir.nodes import (
    Aggregate,
    AntiJoin,
    Filter,
    Join,
    Node,
    OuterJoin,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Window,
)
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import nodes, scans
from spark_trickle.prove.refusal import Unproven, readable
from spark_trickle.prove.scalars import Prover
from spark_trickle.prove.types import BIGINT, OPAQUE, exact_type


@dataclass(frozen=True)
class FastPlan:
    """What to compute of a changed row, what is stored of a group, and what is shown of it."""

    source: str
    reads: tuple[Input, ...]
    """The columns of the source that rows consist of; ``filter``, ``keys`` and ``sums`` read them."""
    filter: Exact | None
    keys: tuple[Exact, ...]
    sums: tuple[Exact, ...]
    """What a row adds to each sum, never NULL."""
    segment: str
    """The name of the part that stores the groups."""
    state: tuple[Input, ...]
    """The columns of that part: keys, then sums."""
    rows: int
    """Which of the sums counts the rows of a group."""
    having: Exact | None
    outputs: tuple[tuple[str, Exact], ...]
    """The columns of the result; they and ``having`` read ``state``."""

    def __str__(self) -> str:
        names = [column.name for column in self.state]
        lines = [f"source: {self.source} ({', '.join(column.name for column in self.reads)})"]
        if self.filter is not None:
            lines.append(f"filter: {show(self.filter)}")
        lines += [f"key {n} = {show(e)}" for n, e in zip(names, self.keys, strict=False)]
        added = zip(names[len(self.keys) :], self.sums, strict=True)
        lines += [f"add to {name}: {show(value)}" for name, value in added]
        if self.having is not None:
            lines.append(f"having: {show(self.having)}")
        lines += [f"show {name} = {show(value)}" for name, value in self.outputs]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class NoFastPath:
    """Why a query cannot be folded."""

    code: str
    reason: str

    def __str__(self) -> str:
        return f"{self.reason}\n"


FastPath = FastPlan | NoFastPath


def describe_fast_path(found: FastPath) -> str:
    """Yes with the plan, or no with the reason."""
    return f"no, {found.code}: {found}" if isinstance(found, NoFastPath) else f"yes\n{found}"


def fast_path(parts: Sequence[Part], *, ansi: bool = True) -> FastPath:
    """The plan of the fast path for the parts of a query, or why there is none."""
    try:
        return _plan(parts, ansi)
    except Unproven as error:
        return NoFastPath(error.code, str(error))
    except RecursionError:
        return NoFastPath("EXPRESSION", "an expression is nested too deeply")


def _plan(parts: Sequence[Part], ansi: bool) -> FastPlan:
    segment, result = _state_and_result(parts)
    assert isinstance(segment.plan, Aggregate)
    scan = scans(segment.plan)[0]
    read = tuple(Input(i, c.name, _offered(c)) for i, c in enumerate(scan.columns))
    below, filter = _chain(segment.plan.input, scan, read, ansi)
    state = tuple(Input(i, c.name, exact_type(c.type)) for i, c in enumerate(segment.columns))
    keys = tuple(_key(below[key.id], key) for key in segment.plan.keys)
    calls = segment.plan.calls
    sums = tuple(_term(Prover(below, ansi), column, call) for column, call in calls)
    if not keys:
        _scalar(calls)
    (stored,) = scans(result.plan)
    shown, having = _chain(result.plan, stored, state, ansi)
    outputs = tuple((c.name, _shown(shown[c.id], c)) for c in result.columns)
    rows = next(i for i, (column, _) in enumerate(calls) if column.name == ROWS)
    return FastPlan(
        scan.source, read, filter, keys, sums, segment.name, state, rows, having, outputs
    )


def _state_and_result(parts: Sequence[Part]) -> tuple[Part, Part]:
    """The one segment and the result over it."""
    whole = [node for part in parts for node in nodes(part.plan)]
    for kinds, code, reason in _OBSTACLES:
        if any(isinstance(node, kinds) for node in whole):
            raise Unproven(code, reason)
    if any(part.strategy is Strategy.EXTREMUM for part in parts):
        raise Unproven("MIN_MAX", "min and max need their group again when a row goes")
    for part in parts:
        if part.strategy is Strategy.TOUCHED:
            raise _recomputed(part)
    if len(parts) < 2:
        raise Unproven("NO_AGGREGATE", "the query has no aggregate: there are no groups to fold")
    if len(parts) > 2:
        raise Unproven("SEVERAL_STATES", "the query keeps more than one state")
    segment, result = parts
    read = [scan.source for part in parts for scan in scans(part.plan)]
    if not isinstance(segment.plan, Aggregate) or len(read) != 2 or read[1] != segment.name:
        raise Unproven("SHAPE", "the query is no aggregate over one table")
    return segment, result


def _recomputed(part: Part) -> Unproven:
    plan = core(part.plan)
    calls = plan.calls if isinstance(plan, Aggregate) else ()
    names = [readable(call) for _, call in calls if isinstance(classify(call), Other)]
    what = ", ".join(names) or "the query"
    return Unproven("NOT_ADDITIVE", f"{what}: recomputed for each group, not added up exactly")


_OBSTACLES: tuple[tuple[type[Node] | tuple[type[Node], ...], str, str], ...] = (
    (
        (Join, OuterJoin, SemiJoin, AntiJoin),
        "SEVERAL_TABLES",
        "the query joins tables or has a subquery",
    ),
    (UnionAll, "SEVERAL_TABLES", "the query is a union"),
    ((TopK, Window), "NOT_ADDITIVE", "the query has a LIMIT or a window function"),
)


def _chain(
    plan: Node, bottom: Scan, inputs: Sequence[Exact], ansi: bool
) -> tuple[dict[int, Exact], Exact | None]:
    """The exact expressions of a plan's columns over its one scan, and what rows must meet."""
    if plan is bottom:
        return {c.id: e for c, e in zip(bottom.columns, inputs, strict=True)}, None
    match plan:
        case Project():
            below, filter = _chain(plan.input, bottom, inputs, ansi)
            prover = Prover(below, ansi)
            return {column.id: prover.prove(value) for column, value in plan.outputs}, filter
        case Filter():
            below, filter = _chain(plan.input, bottom, inputs, ansi)
            own = Prover(below, ansi).condition(plan.predicate)
            if filter is not None:
                own = Operation(Op.AND, (filter, own), ExactType(ExactKind.BOOLEAN))
            return below, own
        case _:
            raise Unproven("SHAPE", f"{type(plan).__name__} is not a filter or a projection")


def _offered(column: Column) -> ExactType:
    """Of a float of the source we only look whether it is NULL."""
    found = exact_type(column.type)
    return OPAQUE if found.kind is ExactKind.DOUBLE else found


def _key(value: Exact, column: Column) -> Exact:
    if value.type.kind not in KEYS:
        shown = column.type.sql("spark")
        raise Unproven("KEY_TYPE", f"the key {column.name} is of type {shown}, which is not exact")
    return _of_type(value, column)


def _shown(value: Exact, column: Column) -> Exact:
    if value.type.kind in (ExactKind.OPAQUE, ExactKind.VOID):
        raise Unproven("TYPE", f"{column.name} is of type {column.type.sql('spark')}")
    return _of_type(value, column)


def _of_type(value: Exact, column: Column) -> Exact:
    known = exact_type(column.type)
    if known != value.type:
        raise Unproven("TYPE", f"{column.name} is {value.type} by one rule, {known} by another")
    return value


def _term(prover: Prover, column: Column, call: exp.Expression) -> Exact:
    """What a row adds to a sum: the argument of ``[coalesce(] cast(sum(…)) [, 0)]``, 1 for count."""
    if isinstance(call, exp.Coalesce):
        call = call.this
    if type(call) is exp.Cast:
        call = call.this
    if isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
        return Constant(1, BIGINT)
    total = exact_type(column.type)
    if type(call) is not exp.Sum or total.digits is None:
        raise Unproven("NOT_ADDITIVE", f"{column.name} is no sum of exact numbers")
    value = prover.prove(call.this)
    if value.type.digits is None or value.type.scale != total.scale:
        raise Unproven("TYPE", f"{column.name} is {total}, but sums {value.type}")
    if not prover.ansi and column.name != ROWS and value.type != ExactType(ExactKind.INT):
        raise Unproven("ANSI_OFF", f"with ANSI off a sum that is too large is no error: {column}")
    return value


def _scalar(calls: Sequence[tuple[Column, exp.Expression]]) -> None:
    """Without keys the one row is there from the start; its sums are 0, not NULL."""
    for column, call in calls:
        if not isinstance(call, exp.Coalesce | exp.Count):
            raise Unproven("SHAPE", f"{column.name} may be NULL")
