"""What one run of the binder carries: ids, sources, notices, and where a query stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from spark_trickle.errors import NameHint
from spark_trickle.ir.nodes import Node
from spark_trickle.ir.types import Blocker, Notice, TableSchema
from spark_trickle.ir.walk import ColumnIds
from spark_trickle.sql.bind.scope import Scope
from spark_trickle.sql.text import Text


@dataclass(frozen=True)
class NamedPlan:
    """A bound query: a plan and the names of its columns, position by position."""

    node: Node
    names: tuple[str, ...]


@dataclass
class BindSession:
    """State shared by all queries of one run."""

    sources: Mapping[str, TableSchema]
    views: Mapping[str, str]
    ids: ColumnIds = field(default_factory=ColumnIds)
    notices: list[Notice] = field(default_factory=list)
    blockers: list[Blocker] = field(default_factory=list)
    nested: list[NestedQuery] = field(default_factory=list)
    open_views: list[str] = field(default_factory=list)
    ties: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """For each ORDER BY of the text that is cut: by which outputs, by their place, it goes on."""
    hint: NameHint | None = None
    """What to say about a table that is not there, if somebody knows more names than these."""
    functions: Mapping[str, bool] | None = None
    """Of functions that are not Spark's own, whether they are deterministic; None: all are."""
    in_is_never_null: bool = True
    """Spark's reading of ``x IN (SELECT …)`` as a value; other dialects say NULL as in SQL."""


@dataclass(frozen=True)
class Environment:
    """Where a query stands: its text, the names of WITH, and the scopes around it."""

    session: BindSession
    text: Text
    ctes: Mapping[str, NamedPlan] = field(default_factory=dict)
    outer: Scope | None = None
    top: bool = False
    """The outermost query, whose LIMIT needs an ORDER BY."""

    @property
    def ids(self) -> ColumnIds:
        return self.session.ids

    def inside(self, scope: Scope | None) -> Environment:
        """The environment of a subquery that may refer to ``scope``."""
        return replace(self, outer=scope, top=False)

    def notice(self, node: exp.Expr | None, message: str, hint: str | None = None) -> None:
        """Tell the user something about an accepted query."""
        self.session.notices.append(Notice(message, self.text.position(node), hint))

    def block(
        self, code: str, node: exp.Expr | None, message: str, hint: str, *, clock: bool = False
    ) -> int:
        """Note why the query cannot be maintained incrementally; the number of the note."""
        blocker = Blocker(code, message, self.text.position(node), hint, clock)
        if blocker not in self.session.blockers:
            self.session.blockers.append(blocker)
        return self.session.blockers.index(blocker)


class Unbuildable(Exception):
    """The query is legal, but has no plan; the blockers say why."""


class Nested(exp.Expression):
    """A subquery inside a scalar expression, by its number; joins replace it."""

    arg_types = {"this": True}


@dataclass(frozen=True)
class NestedQuery:
    """A bound subquery that still refers to columns around it."""

    kind: str
    """``scalar``, ``exists``, ``any`` or ``all``; IN is ``any`` with ``=``."""
    plan: Node
    origin: exp.Expr
    operands: tuple[exp.Expression, ...] = ()
    operator: type[exp.Expression] = exp.EQ


def query_of(node: exp.Expr, session: BindSession) -> NestedQuery:
    """The subquery behind a placeholder."""
    return session.nested[int(str(node.this))]
