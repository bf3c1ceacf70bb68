"""Queries that call functions of pg_ivm or pg_trickle, or read their tables."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

SCHEMAS = ("pgivm", "pgtrickle")
_MENTIONED = re.compile(rf"\b({'|'.join(SCHEMAS)})\s*\.", re.IGNORECASE)


def foreign_query(text: str) -> exp.Select | None:
    """The query in ``text``, if it is one of these."""
    if _MENTIONED.search(text) is None:
        return None
    try:
        trees = [tree for tree in sqlglot.parse(text, read="postgres") if tree is not None]
    except SqlglotError:
        return None
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        return None
    found = (is_call(node) or is_table(node) for node in trees[0].walk())
    return trees[0] if any(found) else None


def is_call(node: exp.Expr) -> bool:
    """``pgivm.f(…)`` as a value."""
    called = isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func)
    return called and node.this.name.lower() in SCHEMAS


def is_table(node: exp.Expr) -> bool:
    """``pgivm.t`` or ``pgivm.f(…)`` in FROM."""
    return isinstance(node, exp.Table) and node.db.lower() in SCHEMAS
