"""What pg_ivm itself refuses, for those who set ``Settings.pg_ivm_strict``.

A view that passes here can be made by pg_ivm too; without the setting all of this is accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NoReturn

from sqlglot import exp

from spark_trickle.errors import UnsupportedQueryError, UserError
from spark_trickle.storage.records import DEFAULT_SCHEMA

CODE = "PG_IVM"
_AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
_SYSTEM = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
_VOLATILE = frozenset(
    {"random", "now", "clock_timestamp", "statement_timestamp", "timeofday", "gen_random_uuid"}
    | {"transaction_timestamp", "localtimestamp", "current_timestamp", "current_date"}
    | {
        "current_time",
        "localtime",
        "current_user",
        "session_user",
        "nextval",
        "setseed",
        "txid_current",
    }
)


def refuse_beyond_pg_ivm(
    tree: exp.Query,
    columns: Sequence[str],
    immvs: Collection[tuple[str, str]],
) -> None:
    """UnsupportedQueryError if pg_ivm would not make this view."""
    if not isinstance(tree, exp.Select):
        if isinstance(tree, exp.Values):
            _refuse("VALUES is not supported on an IMMV")
        _refuse("UNION/INTERSECT/EXCEPT statements are not supported on an IMMV")
    if not tree.selects:
        _refuse("empty target list is not supported on an IMMV")
    _names(tree, columns)
    _ctes(tree)
    _clauses(tree, top=True)
    for nested in _nested(tree):
        _clauses(nested, top=False)
    _everywhere(tree)
    _sublinks(tree)
    _aggregates(tree)
    _outer_joins(tree)
    _bases(tree, immvs)


def _refuse(message: str, hint: str | None = None) -> NoReturn:
    raise UnsupportedQueryError(
        message, code=CODE, hint=hint or "Settings(pg_ivm_strict=False) accepts it"
    )


def _names(tree: exp.Select, columns: Sequence[str]) -> None:
    named = [*columns, *(item.alias_or_name for item in tree.selects)]
    if any(name.lower().startswith("__ivm_") for name in named):
        _refuse("column names that begin with __ivm_ are not supported on an IMMV")
    stars = any(item.is_star for item in tree.selects)
    if not stars and len(columns) > len(tree.selects):
        raise UserError("too many column names were specified")


def _nested(tree: exp.Select) -> Iterator[exp.Select]:
    """Subqueries in FROM and common table expressions, not sublinks."""
    for select in tree.find_all(exp.Select):
        if select is tree:
            continue
        parent = select.parent
        in_from = isinstance(parent, exp.Subquery) and isinstance(
            parent.parent, exp.From | exp.Join
        )
        if in_from or isinstance(parent, exp.CTE):
            yield select


def _ctes(tree: exp.Select) -> None:
    for clause in tree.find_all(exp.With):
        if clause.recursive:
            _refuse("recursive CTE is not supported on an IMMV")
        for cte in clause.expressions:
            if not isinstance(cte.this, exp.Query):
                raise UserError("an IMMV must not contain data-modifying statements in WITH")
            if cte.alias.lower().startswith("__ivm_"):
                _refuse(f"WITH query name {cte.alias} is not supported on an IMMV")
            users = [t for t in tree.find_all(exp.Table) if t.name.lower() == cte.alias.lower()]
            if not users:
                _refuse("Ureferenced WITH query is not supported on an IMMV")


_REFUSED_CLAUSES = {
    "order": "ORDER BY clause is not supported on an IMMV",
    "having": "HAVING clause is not supported on an IMMV",
    "limit": "LIMIT/OFFSET clause is not supported on an IMMV",
    "offset": "LIMIT/OFFSET clause is not supported on an IMMV",
    "locks": "FOR UPDATE/SHARE clause is not supported on an IMMV",
    "windows": "window functions are not supported on an IMMV",
}


def _clauses(tree: exp.Select, *, top: bool) -> None:
    for clause, message in _REFUSED_CLAUSES.items():
        if tree.args.get(clause):
            _refuse(message)
    distinct = tree.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        _refuse("DISTINCT ON is not supported on an IMMV")
    if not top and distinct is not None:
        _refuse("DISTINCT clause in nested query are not supported on an IMMV")
    aggregates = any(item.find(exp.AggFunc) for item in tree.selects)
    group = tree.args.get("group")
    if not top and (aggregates or group is not None):
        _refuse("aggregate functions in nested query are not supported on an IMMV")
    if group is None:
        return
    if group.find(exp.GroupingSets, exp.Rollup, exp.Cube) is not None:
        _refuse("GROUPING SETS, ROLLUP, or CUBE clauses is not supported on an IMMV")
    if not aggregates:
        _refuse("GROUP BY clause without an aggregate is not supported on an IMMV")


def _everywhere(tree: exp.Select) -> None:
    for node in tree.walk():
        if isinstance(node, exp.SetOperation):
            _refuse("UNION/INTERSECT/EXCEPT statements are not supported on an IMMV")
        if isinstance(node, exp.Values):
            _refuse("VALUES is not supported on an IMMV")
        if isinstance(node, exp.TableSample):
            _refuse("TABLESAMPLE clause is not supported on an IMMV")
        if isinstance(node, exp.Window):
            _refuse("window functions are not supported on an IMMV")
        if isinstance(node, exp.Filter):
            _refuse("aggregate functions with FILTER clause is not supported on an IMMV")
        if isinstance(node, exp.Column) and node.name.lower() in _SYSTEM:
            _refuse("system column is not supported on an IMMV")
        if isinstance(node, exp.Func) and _function(node) in _VOLATILE:
            _refuse("mutable function is not supported on an IMMV")
        if isinstance(node, exp.Cast) and node.to.this in (exp.DType.JSON, exp.DType.XML):
            _refuse("the type of a column has no default operator class for btree")


def _function(node: exp.Func) -> str:
    return (str(node.this) if isinstance(node, exp.Anonymous) else node.sql_name()).lower()


def _sublinks(tree: exp.Select) -> None:
    """EXISTS may stand directly under the ANDs of WHERE, and nothing else is allowed."""
    allowed = {id(node) for node in _direct(tree.args.get("where"))}
    for node in tree.find_all(exp.Exists):
        if id(node) not in allowed:
            if node.find_ancestor(exp.Or, exp.Not) is not None:
                _refuse("OR or NOT conditions and EXISTS condition can not be used together")
            if node.find_ancestor(exp.Exists) is not None:
                _refuse("nested sublink is not supported on an IMMV")
            _refuse("this query is not allowed: only EXISTS in WHERE is supported on an IMMV")
        _exists(tree, node)
    for test in tree.find_all(exp.In, exp.Any, exp.All):
        if test.args.get("query") is not None or isinstance(test.this, exp.Query | exp.Subquery):
            _refuse("subquery is not supported on an IMMV: only EXISTS in WHERE is")
    for inner in tree.find_all(exp.Subquery):
        if not isinstance(inner.parent, exp.From | exp.Join | exp.Lateral):
            _refuse("subquery is not supported on an IMMV: only EXISTS in WHERE is")


def _direct(where: exp.Expr | None) -> Iterator[exp.Expr]:
    pending = [where.this] if where is not None else []
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Paren):
            pending.append(node.this)
        elif isinstance(node, exp.And):
            pending += [node.this, node.expression]
        elif isinstance(node, exp.Exists):
            yield node


def _exists(tree: exp.Select, node: exp.Exists) -> None:
    inner = node.this
    if inner.args.get("with_"):
        _refuse("CTE in EXIST clause is not supported on an IMMV")
    if any(item.find(exp.AggFunc) for item in tree.selects):
        _refuse("aggregate and EXISTS condition can not be used together")
    own = {t.alias_or_name.lower() for t in inner.find_all(exp.Table)}
    selected = {item.unalias().sql().lower() for item in tree.selects}
    bare = {item.unalias().name.lower() for item in tree.selects}
    for column in inner.find_all(exp.Column):
        outer = column.table and column.table.lower() not in own
        if outer and column.sql().lower() not in selected and column.name.lower() not in bare:
            _refuse("targetlist must contain vars that are referred to in EXISTS subquery")


def _aggregates(tree: exp.Select) -> None:
    found = list(tree.find_all(exp.AggFunc))
    for call in found:
        if not isinstance(call, _AGGREGATES):
            _refuse(f"aggregate function {_function(call)} is not supported on an IMMV")
        if isinstance(call.this, exp.Distinct):
            _refuse("aggregate function with DISTINCT arguments is not supported on an IMMV")
        if call.find(exp.Order):
            _refuse("aggregate function with ORDER clause is not supported on an IMMV")
    for item in tree.selects:
        inner = item.unalias()
        if inner.find(exp.AggFunc) is not None and not isinstance(inner, exp.AggFunc):
            _refuse("expression containing an aggregate in it is not supported on an IMMV")
    group = tree.args.get("group")
    if group is not None:
        selected = {item.unalias().sql().lower() for item in tree.selects}
        aliases = {item.alias.lower() for item in tree.selects if item.alias}
        for key in group.expressions:
            numbered = isinstance(key, exp.Literal)
            if (
                not numbered
                and key.sql().lower() not in selected
                and key.name.lower() not in aliases
            ):
                _refuse(
                    "GROUP BY expression not appearing in select list is not supported on an IMMV"
                )


def _outer_joins(tree: exp.Select) -> None:
    joins = [join for join in tree.find_all(exp.Join) if join.side]
    if not joins:
        return
    if any(item.find(exp.AggFunc) for item in tree.selects):
        _refuse("aggregate is not supported with outer join")
    if any(True for _ in _nested(tree)):
        _refuse("subquery is not supported with outer join")
    if tree.find(exp.Exists):
        _refuse("subquery is not supported by IVM together with outer join")
    selected = {item.unalias().sql().lower() for item in tree.selects}
    for join in joins:
        condition = join.args.get("on")
        if join.args.get("using"):
            _refuse("targetlist must contain vars in the join condition for IVM with outer join")
        if not isinstance(condition, exp.EQ):
            _refuse("Only simple equijoin is supported for IVM with outer join")
        for column in condition.find_all(exp.Column):
            if column.sql().lower() not in selected:
                _refuse(
                    "targetlist must contain vars in the join condition for IVM with outer join"
                )
    _strict_expressions(tree)


def _strict_expressions(tree: exp.Select) -> None:
    for item in tree.selects:
        if item.find(exp.Or, exp.Case, exp.Coalesce):
            _refuse("targetlist cannot contain non-strict expression with outer join")
    where = tree.args.get("where")
    if where is not None and where.find(exp.Or, exp.Is, exp.Coalesce, exp.Case):
        _refuse("WHERE cannot contain non null-rejecting predicates for IVM with outer join")


def _bases(tree: exp.Select, immvs: Collection[tuple[str, str]]) -> None:
    for table in tree.find_all(exp.Table):
        if ((table.db or DEFAULT_SCHEMA).lower(), table.name.lower()) in immvs:
            _refuse("including IMMV in definition is not supported on an IMMV")
