"""``FROM t |> WHERE … |> AGGREGATE …``: every step is a query over the one before.

Law: a step may go into the SELECT before it only where nothing of that SELECT comes later than the
step: sqlglot's own reading puts a WHERE after a LIMIT before it, and forgets DISTINCT.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

_FROM = {"with_", "expressions", "from_", "joins", "laterals"}
_SETS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)


def piped(parser: SparkParser, query: exp.Query) -> exp.Query:
    """The query with all of its steps."""
    while parser._match(TokenType.PIPE_GT):
        query = _step(parser, query)
    return query


def _step(parser: SparkParser, query: exp.Query) -> exp.Query:
    word = "" if parser._curr is None else parser._curr.text.upper()
    if word in _STEPS:
        if word not in ("SELECT", "ORDER BY", "LIMIT", "OFFSET", "WHERE"):
            parser._advance()
        return _STEPS[word](parser, query)
    if parser._match_set(_SETS, advance=False):
        operation = parser.parse_set_operation(_closed(query))
        if operation is not None:
            return _hoisted(operation)
    else:
        rows = _open(query, {*_FROM})
        join = parser._parse_join()
        if join is not None:
            return rows.join(join, copy=False)
    parser.raise_error(f"no step of a query begins with {word}")
    return query


def _hoisted(operation: exp.SetOperation) -> exp.Query:
    """What WITH defines is known to all steps that follow."""
    left = operation.this
    known = left.args.get("with_")
    if known is not None:
        operation.set("with_", known.pop())
    return operation


def _closed(query: exp.Query) -> exp.Select:
    """A query that nothing is added to."""
    return _open(query, set())


def _open(query: exp.Query, parts: set[str]) -> exp.Select:
    """The SELECT itself where it reads all columns and has no more than these parts, else one over it."""
    if isinstance(query, exp.Select):
        used = {key for key, value in query.args.items() if value}
        if query.expressions == [exp.Star()] and used <= parts:
            return query
    if isinstance(query, exp.Subquery):
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=query))
    known = query.args.get("with_")
    if known is not None:
        known.pop()
    alias = _alias(query)
    inner = exp.Subquery(this=query, alias=alias and exp.TableAlias(this=alias.copy()))
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner), with_=known)


def _alias(query: exp.Query) -> exp.Expr | None:
    """The name by which all columns that ``SELECT *`` reads are known."""
    if not isinstance(query, exp.Select) or query.args.get("joins") or query.args.get("laterals"):
        return None
    first, *more = query.expressions
    if not first.is_star and not all(isinstance(part, exp.Column) for part in (first, *more)):
        return None
    if not query.args.get("from_"):
        return None
    source = query.args["from_"].this
    named = source.args.get("alias")
    if named is not None:
        return named.this if isinstance(named.this, exp.Identifier) else None
    return source.this if isinstance(source.this, exp.Identifier) else None


def _where(parser: SparkParser, query: exp.Query) -> exp.Query:
    rows = _open(query, {*_FROM, "where"})
    return rows.where(parser._parse_where(), copy=False)


def _select(parser: SparkParser, query: exp.Query) -> exp.Query:
    rows = _open(query, {*_FROM, "where"})
    listed = parser._parse_select(parse_set_operation=False, consume_pipe=False)
    if isinstance(listed, exp.Select):
        for key, value in listed.args.items():
            if value:
                rows.set(key, value)
    return rows


def _extend(parser: SparkParser, query: exp.Query) -> exp.Query:
    rows = _open(query, {*_FROM, "where"})
    rows.set("expressions", [exp.Star(), *parser._parse_expressions()])
    return rows


def _set(parser: SparkParser, query: exp.Query) -> exp.Query:
    """One assignment after the other: a later one sees what an earlier one has set."""
    for assignment in parser._parse_csv(parser._parse_assignment):
        if not isinstance(assignment, exp.EQ) or not isinstance(assignment.this, exp.Column):
            parser.raise_error("SET needs name = value")
            return query
        rows = _open(query, {*_FROM, "where"})
        value = exp.Alias(this=assignment.expression, alias=assignment.this.this)
        rows.set("expressions", [exp.Star(replace=[value])])
        query = rows
    return query


def _drop(parser: SparkParser, query: exp.Query) -> exp.Query:
    rows = _open(query, {*_FROM, "where"})
    rows.set("expressions", [exp.Star(except_=parser._parse_csv(parser._parse_id_var))])
    return rows


def _named(parser: SparkParser, query: exp.Query) -> exp.Query:
    rows = _closed(_closed(query) if isinstance(query, exp.Subquery) else query)
    rows.args["from_"].this.set("alias", exp.TableAlias(this=parser._parse_id_var()))
    return rows


def _aggregate(parser: SparkParser, query: exp.Query) -> exp.Query:
    rows = _open(query, {*_FROM, "where"})
    grouped = parser._match(TokenType.GROUP_BY)
    calls = [] if grouped else parser._parse_expressions()
    keys = parser._parse_expressions() if grouped or parser._match(TokenType.GROUP_BY) else []
    if any(isinstance(key, exp.Literal) for key in keys):
        parser.raise_error("a number in GROUP BY of a step; write the expression itself")
    rows.set("expressions", [*keys, *calls])
    if keys:
        rows.set("group", exp.Group(expressions=[key.unalias().copy() for key in keys]))
    return rows


def _ordered(parser: SparkParser, query: exp.Query) -> exp.Query:
    rows = _unlimited(query, "order", "limit", "offset", "distinct")
    rows.set("order", parser._parse_order())
    return rows


def _limited(parser: SparkParser, query: exp.Query) -> exp.Query:
    rows = _unlimited(query, "limit")
    rows.set("limit", parser._parse_limit())
    return rows


def _after(parser: SparkParser, query: exp.Query) -> exp.Query:
    rows = _unlimited(query, "limit", "offset")
    rows.set("offset", parser._parse_offset())
    return rows


def _unlimited(query: exp.Query, *without: str) -> exp.Select:
    """The SELECT itself where it has none of these parts and sets nothing, else one over it."""
    sets = any(part.args.get("replace") for part in query.expressions)
    if isinstance(query, exp.Select) and not sets and not any(map(query.args.get, without)):
        return query
    return _closed(query)


def _pivoted(parser: SparkParser, query: exp.Query) -> exp.Query:
    parser._retreat(parser._index - 1)
    rows = _closed(query)
    rows.args["from_"].this.set("pivots", parser._parse_pivots())
    return rows


def _sampled(parser: SparkParser, query: exp.Query) -> exp.Query:
    parser._retreat(parser._index - 1)
    rows = _closed(query)
    rows.args["from_"].this.set("sample", parser._parse_table_sample())
    return rows


_STEPS: dict[str, Callable[[SparkParser, exp.Query], exp.Query]] = {
    "AGGREGATE": _aggregate,
    "AS": _named,
    "DROP": _drop,
    "EXTEND": _extend,
    "LIMIT": _limited,
    "OFFSET": _after,
    "ORDER BY": _ordered,
    "PIVOT": _pivoted,
    "SELECT": _select,
    "SET": _set,
    "TABLESAMPLE": _sampled,
    "UNPIVOT": _pivoted,
    "WHERE": _where,
}
