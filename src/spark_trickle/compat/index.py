"""The index that pg_ivm would make by itself; here it is what the files are sorted by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.storage.records import DEFAULT_SCHEMA, Table


@dataclass(frozen=True)
class Index:
    """``reason``: why there is none and somebody should know."""

    columns: tuple[str, ...] = ()
    reason: str | None = None


def index_for(tree: exp.Query, tables: Sequence[Table]) -> Index:
    """GROUP BY: its columns. DISTINCT: all columns. Else the primary keys of all tables, if selected."""
    if not isinstance(tree, exp.Select):
        return Index(reason="it is a set operation")
    group = tree.args.get("group")
    if group is not None:
        return _grouped(tree, group)
    if any(item.find(exp.AggFunc) for item in tree.selects):
        return Index()  # one row: nothing to find
    if tree.args.get("distinct"):
        names = _names(tree)
        return Index(reason="a column has no name") if names is None else Index(names)
    return _keys(tree, tables)


def _grouped(tree: exp.Select, group: exp.Group) -> Index:
    by_text = {item.unalias().sql(): item.alias_or_name for item in tree.selects}
    names = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and not key.is_string:
            names.append(tree.selects[int(key.this) - 1].alias_or_name)
        else:
            alias = {item.alias for item in tree.selects}
            names.append(key.name if key.name in alias else by_text.get(key.sql(), ""))
    if not names or not all(names):
        return Index(reason="not every GROUP BY column is selected")
    return Index(tuple(dict.fromkeys(names)))


def _names(tree: exp.Select) -> tuple[str, ...] | None:
    names = tuple(item.alias_or_name for item in tree.selects)
    return None if any(not name or name == "*" for name in names) else names


def _keys(tree: exp.Select, tables: Sequence[Table]) -> Index:
    known = {(t.schema.lower(), t.name.lower()): t for t in tables}
    relations = _relations(tree, known)
    if not relations:
        return Index(reason="a table in FROM is no plain table, or there is none")
    found: list[str] = []
    for alias, table in relations:
        if not table.primary_key:
            return Index(reason=f"{table.name} has no primary key")
        for column in table.primary_key:
            name = _selected(tree, alias, column, len(relations) == 1)
            if name is None:
                return Index(reason=f"{table.name}.{column} is not selected")
            found.append(name)
    return Index(tuple(dict.fromkeys(found)))


def _relations(
    tree: exp.Select, known: dict[tuple[str, str], Table]
) -> list[tuple[str, Table]] | None:
    clause = tree.args.get("from_")
    if clause is None or tree.args.get("with_"):
        return None
    items = [clause.this, *(join.this for join in tree.args.get("joins") or [])]
    found = []
    for item in items:
        if not isinstance(item, exp.Table):
            return None
        table = known.get(((item.db or DEFAULT_SCHEMA).lower(), item.name.lower()))
        if table is None:
            return None
        found.append((item.alias_or_name, table))
    return found


def _selected(tree: exp.Select, alias: str, column: str, only: bool) -> str | None:
    """The name under which a column of a relation is selected."""
    for item in tree.selects:
        inner = item.unalias()
        if item.is_star:
            if not isinstance(inner, exp.Column) or inner.table.lower() == alias.lower():
                return column
            continue
        if isinstance(inner, exp.Column) and inner.name.lower() == column.lower():
            own = inner.table.lower() == alias.lower() if inner.table else True
            if own or only:
                return str(item.alias_or_name)
    return None
