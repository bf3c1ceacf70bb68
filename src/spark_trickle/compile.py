"""The whole pipeline on one page: parse -> bind -> normalize -> verdict -> segment -> delta -> SQL.

``compile_query`` runs the stages that need only the query, once per stream table, and keeps the
value of each. ``CompiledQuery.delta`` finishes the job once it is known which sources changed, and
``PartDelta.query`` / ``CompiledQuery.full_query`` give the SELECTs to run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from sqlglot import exp

from spark_trickle.delta.describe import describe_delta, describe_parts, describe_strategy
from spark_trickle.delta.fast_path import FastPath, NoFastPath, describe_fast_path, fast_path
from spark_trickle.delta.keys.needs import Need, needs
from spark_trickle.delta.parts import delta_part
from spark_trickle.delta.reserve import Reserve, reserve_of, top_of, with_reserve
from spark_trickle.delta.segment import Part, Strategy, cut
from spark_trickle.delta.support import FullOnly, Verdict, incremental, obstacle, silent_overflow
from spark_trickle.delta.temporal import clock_left, timed_sources
from spark_trickle.delta.views import KEPT, beside_names, with_view
from spark_trickle.errors import NameHint, Position, UnsupportedQueryError, UserError
from spark_trickle.ir.check import check
from spark_trickle.ir.decimals import decimal_parameters
from spark_trickle.ir.exact_plan import ExactPlan
from spark_trickle.ir.explain import explain
from spark_trickle.ir.nodes import Node, TopK
from spark_trickle.ir.temporal import NUMBER, Timed
from spark_trickle.ir.types import Notice, Side, TableSchema
from spark_trickle.ir.walk import scans, used_columns
from spark_trickle.lower.query import TableNames, lower, lower_delta
from spark_trickle.normalize.merge import merge
from spark_trickle.normalize.pipeline import normalize
from spark_trickle.prove.plans import NotLocal, local_plan
from spark_trickle.prove.settings import unproven_setting
from spark_trickle.sql.bind.plan import BoundQuery, bind, columns_of
from spark_trickle.sql.dialects import TrickleSpark
from spark_trickle.sql.parse import Parsed, parse_query
from spark_trickle.sql.types.builtins import BUILTINS
from spark_trickle.sql.types.clock import names_moment
from spark_trickle.sql.types.coercion import rules
from spark_trickle.sql.types.functions import UNPROVEN_CODE, VOLATILE_CODE, is_volatile

_CHANCE = (VOLATILE_CODE, UNPROVEN_CODE, "TABLESAMPLE")
CLOCK_CODE = "TEMPORAL_FILTER"
"""Of what is refused because the clock decides which rows count."""
STAGES: tuple[str, ...] = ("parsed", "bound", "normalized", "verdict", "segments", "strategy")
STAGES += ("fast_path", "delta", "sql")


@lru_cache(maxsize=1_000)
def functions_called(sql: str, dialect: str) -> Mapping[str, int]:
    """The functions of a query that are not Spark's own, with the number of their arguments."""
    if dialect != "spark":
        return {}  # what has a translation is Spark's own
    calls = parse_query(sql, dialect).tree.find_all(exp.Anonymous)
    named = {str(call.name).lower(): len(call.expressions) for call in calls}
    return {name: n for name, n in named.items() if name not in BUILTINS}


def compile_query(
    sql: str,
    sources: Mapping[str, TableSchema],
    *,
    dialect: str = "spark",
    views: Mapping[str, str] | None = None,
    hint: NameHint | None = None,
    functions: Mapping[str, bool] | None = None,
    ansi: bool = True,
    settings: Mapping[str, str] | None = None,
    temporal: bool = True,
) -> CompiledQuery:
    """Every stage of one query; raises ParseError, BindError or UnsupportedQueryError.

    ``ansi``: by which rules types meet; Spark's setting decides. ``settings``: all of those that
    give the text its meaning. ``temporal``: whether filters that compare with the clock are maintained.
    """
    with rules(ansi=ansi):
        bound = bind(sql, sources, views, dialect, hint, functions, settings)
        if dialect != "spark":
            tree = parse_query(sql, dialect, columns_of(sources)).tree
            sql, dialect = tree.sql(TrickleSpark), "spark"
        found = _compiled(bound, sql, sources, dialect, ansi, temporal)
    return replace(found, unproven=unproven_setting(settings or {}))


def _compiled(
    bound: BoundQuery,
    sql: str,
    sources: Mapping[str, TableSchema],
    dialect: str,
    ansi: bool,
    temporal: bool,
) -> CompiledQuery:
    normalized = None if bound.plan is None else normalize(bound.plan)
    plan, timed = normalized, tuple[Timed, ...]()
    blockers = bound.blockers
    if normalized is not None and temporal:
        plan, timed = timed_sources(normalized)
        left = clock_left(plan)
        told = None if left is None else left.meta[NUMBER]
        blockers = tuple(b for n, b in enumerate(blockers) if not b.clock or n == told)
    refused = obstacle(normalized, blockers)
    if refused is None and normalized is not None and not ansi:
        refused = silent_overflow(normalized)
    if refused is not None:
        return CompiledQuery(sql, dialect, bound, normalized, refused, (), ansi)
    assert plan is not None
    check(plan, stage="the plan with temporal filters in its scans")
    known = {source.name: source for source in sources.values()}
    known |= {t.name: replace(known[t.source], name=t.name) for t in timed}
    parts = with_reserve(cut(plan, known, bound.names))
    parts = tuple(replace(part, plan=merge(part.plan)) for part in parts)
    verdict = incremental(parts, {each.name for each in timed})
    return CompiledQuery(sql, dialect, bound, normalized, verdict, parts, ansi, timed)


@dataclass(frozen=True)
class CompiledQuery:
    """A query with the value of every stage."""

    sql: str
    dialect: str
    bound: BoundQuery
    normalized: Node | None
    """None only for a query that is FullOnly because it has no plan."""
    verdict: Verdict
    parts: tuple[Part, ...]
    """All that has a table: segments in the order in which they are computed, the reserve of a TopK,
    then the result; empty if FullOnly."""
    ansi: bool = True
    timed: tuple[Timed, ...] = ()
    """The sources that parts scan through temporal filters; none if FullOnly."""
    unproven: str | None = None  # why only Spark may compute it

    @cached_property
    def parsed(self) -> Parsed:
        """The syntax tree; ``bind`` has read its own."""
        return parse_query(self.sql, self.dialect)

    @cached_property
    def used(self) -> frozenset[int]:
        """The columns of the bound plan that the query makes use of."""
        return frozenset() if self.bound.plan is None else used_columns(self.bound.plan)

    @cached_property
    def volatile(self) -> bool:
        """Whether the query depends on chance, or on the clock in a way that no delta follows: the
        same sources may give other rows."""
        if not isinstance(self.verdict, FullOnly):
            return False
        if any(blocker.code in _CHANCE for blocker in self.bound.blockers):
            return True
        # Where bind stopped early, the rest of the text was not looked at.
        unread = self.parsed.tree.walk() if self.bound.plan is None else ()
        return any(is_volatile(node) or names_moment(node) for node in unread)

    @property
    def result(self) -> Part:
        """The part the user sees."""
        self._incremental()
        return self.parts[-1]

    @property
    def segments(self) -> tuple[Part, ...]:
        """The parts that are private state."""
        return self.parts[:-1]

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """What the user should know about the query."""
        return self.bound.warnings

    @property
    def topk(self) -> TopK | None:
        """ORDER BY with LIMIT at the top of the result, which is a slice of the reserve."""
        return top_of(self.parts[-1].plan) if self.parts else None

    @cached_property
    def reserve(self) -> Reserve | None:
        """What is kept of a TopK's input."""
        return reserve_of(self.parts)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The sources that the query reads, sorted."""
        plan = self.normalized
        return tuple(sorted({scan.source for scan in scans(plan)})) if plan is not None else ()

    @cached_property
    def fast_path(self) -> FastPath:
        """How each commit's changes fold into the stored groups, or why they do not."""
        if isinstance(self.verdict, FullOnly):
            return NoFastPath(self.verdict.code, self.verdict.message)
        if self.timed:
            return NoFastPath(CLOCK_CODE, "rows come and go with the clock, without any commit")
        if self.unproven is not None:
            return NoFastPath("SETTING", self.unproven)
        return fast_path(self.parts, ansi=self.ansi)

    @property
    def clocked(self) -> bool:
        """Whether it is maintained although it names the clock: in temporal filters, or to no effect."""
        named = any(blocker.clock for blocker in self.bound.blockers)
        return named and not isinstance(self.verdict, FullOnly)

    @property
    def clock_position(self) -> Position | None:
        """Where the query reads the clock first."""
        return next((b.position for b in self.bound.blockers if b.clock), None)

    def moved(self, changed: Collection[str]) -> frozenset[str]:
        """What parts scan of these sources, through temporal filters or not."""
        return frozenset(changed) | {timed.name for timed in self.timed if timed.source in changed}

    def delta(self, changed: Collection[str], insert_only: Collection[str] = ()) -> DeltaPlan:
        """The delta of every part when exactly these sources changed.

        ``insert_only`` names those of them whose change is known to hold no deleted row.
        """
        self._incremental()
        moved = frozenset(changed)
        deltas = []
        for part in self.parts:
            delta = self.part_delta(part, moved, insert_only)
            if delta is not None:
                deltas.append(delta)
                moved |= {part.name}
        return DeltaPlan(frozenset(changed), tuple(deltas))

    def part_delta(
        self, part: Part, changed: Collection[str], insert_only: Collection[str] = ()
    ) -> PartDelta | None:
        """The delta of one part, which may be of the caller's making under a name of its own."""
        asked = part.name, frozenset(changed), frozenset(insert_only)
        if asked not in self._deltas:
            self._deltas[asked] = PartDelta.of(part, *asked[1:])
        return self._deltas[asked]

    @cached_property
    def _deltas(self) -> dict[tuple[str, frozenset[str], frozenset[str]], PartDelta | None]:
        """The same sources tend to change again."""
        return {}

    def full_query(self, part: Part, names: TableNames) -> exp.Query:
        """All rows of a part under their stored names; its scans all ask for AFTER."""
        return lower(part.plan, names, outputs=[column.name for column in part.columns])

    def explain(self, stage: str, *, changed: Collection[str] | None = None) -> str:
        """One stage as text; deltas are shown for ``changed``, by default every source."""
        plan = self.normalized
        match stage:
            case "parsed":
                return self.parsed.tree.sql(TrickleSpark, pretty=True) + "\n"
            case "bound":
                return "no plan\n" if self.bound.plan is None else explain(self.bound.plan)
            case "normalized":
                return "no plan\n" if plan is None else explain(plan)
            case "verdict":
                return str(self.verdict)
            case "segments":
                return describe_parts(self.parts)
            case "strategy":
                return describe_strategy(self.parts)
            case "fast_path":
                return describe_fast_path(self.fast_path)
            case "delta":
                return self.delta(self.moved(self.reads if changed is None else changed)).explain()
            case "sql":
                return self.delta(self.moved(self.reads if changed is None else changed)).sql()
            case _:
                raise UserError(f"no such stage: {stage}", hint=f"one of: {', '.join(STAGES)}")

    def _incremental(self) -> None:
        if isinstance(self.verdict, FullOnly):
            raise UnsupportedQueryError(
                self.verdict.message,
                code=self.verdict.code,
                position=self.verdict.position,
                hint=self.verdict.hint,
            )


@dataclass(frozen=True)
class PartDelta:
    """How one stored part changes."""

    part: Part
    plan: Node
    changed: frozenset[str]
    insert_only: frozenset[str]

    @classmethod
    def of(
        cls, part: Part, changed: frozenset[str], insert_only: frozenset[str] = frozenset()
    ) -> PartDelta | None:
        """None if the part does not change."""
        plan = delta_part(part, changed, insert_only)
        if plan is None:
            return None
        stage = f"the delta of {part.name}"
        return cls(part, check(plan, stage=stage, shared=True), changed, insert_only)

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """What each scan of the delta needs of its source or part."""
        return needs(self.plan)

    @cached_property
    def nearby(self) -> Node:
        """The plan to run when every source holds just the rows that the delta needs of it."""
        plan = delta_part(self.part, self.changed, self.insert_only, nearby=True)
        assert plan is not None
        return check(plan, stage=f"the delta of {self.part.name} nearby", shared=True)

    @cached_property
    def recomputed(self) -> PartDelta | None:
        """The same change by the touched groups, where sums over the delta may need more digits
        than a decimal has; None where they cannot."""
        if self.part.strategy not in (Strategy.ADDITIVE, Strategy.EXTREMUM):
            return None
        digits = [decimal_parameters(column.type) for column in self.part.columns]
        if not any(found is not None and found[0] == 38 for found in digits):
            return None
        part = replace(self.part, strategy=Strategy.TOUCHED)
        return PartDelta.of(part, self.changed, self.insert_only)

    def query(
        self, names: TableNames, *, nearby: bool = False, view: Part | None = None
    ) -> exp.Query:
        """Rows under their stored names plus ``__weight``, net; those of ``view`` beside them."""
        plan, outputs = self._with(view, nearby, as_stored=True)
        return lower_delta(plan, names, outputs=outputs)

    def exact(self, view: Part | None, *, ansi: bool) -> tuple[ExactPlan | NotLocal, list[str]]:
        """What ``query`` asks nearby as a plan for this process, or why it is for Spark; the names."""
        asked = None if view is None else view.name, ansi
        if asked not in self._exact:
            # No operation that is proven tells -0.0 from 0.0.
            plan, outputs = self._with(view, nearby=True, as_stored=False)
            self._exact[asked] = local_plan(plan, ansi=ansi), outputs
        return self._exact[asked]

    def _with(self, view: Part | None, nearby: bool, *, as_stored: bool) -> tuple[Node, list[str]]:
        plan = self.nearby if nearby else self.plan
        outputs = [column.name for column in self.part.columns]
        if view is None:
            return plan, outputs
        shown = with_view(plan, self.part, view, as_stored=as_stored)
        return shown, [*outputs, *beside_names(view), KEPT]

    @cached_property
    def _exact(self) -> dict[tuple[str | None, bool], tuple[ExactPlan | NotLocal, list[str]]]:
        return {}


@dataclass(frozen=True)
class DeltaPlan:
    """What one refresh computes: the parts that may change, each after those it reads.

    When a part's delta was computed, it can be scanned under the part's name by those that follow.
    """

    changed: frozenset[str]
    parts: tuple[PartDelta, ...]

    def explain(self) -> str:
        """The delta plans as text."""
        shown = [describe_delta(delta.part, delta.plan, delta.needs) for delta in self.parts]
        return "\n".join(shown) or "no change\n"

    def sql(self) -> str:
        """The delta queries as Spark SQL, with ``source@side`` for table names."""
        shown = [
            f"-- {delta.part.name}\n{render(delta.query(shown_name), pretty=True)}\n"
            for delta in self.parts
        ]
        return "\n".join(shown) or "-- no change\n"


def render(query: exp.Query, *, pretty: bool = False) -> str:
    """A lowered query as Spark SQL."""
    return query.sql(TrickleSpark, pretty=pretty, copy=False)


def shown_name(source: str, side: Side) -> exp.Table:
    """``source@side``, for people."""
    return exp.Table(this=exp.Identifier(this=f"{source}@{side.value}", quoted=True))


def explained(compiled: CompiledQuery, stage: str | None) -> str:
    """One stage of a query, or what a reader wants of all of them."""
    if stage is not None:
        return compiled.explain(stage)
    shown = ("normalized", "verdict", *(STAGES[5:] if compiled.parts else ()))
    notes = [f"warning: {notice.message}\n" for notice in compiled.warnings]
    return "\n".join([*notes, *(f"== {s} ==\n{compiled.explain(s)}" for s in shown)])
