"""PostgreSQL's grammar, with function calls kept as they were written: rules look them up by name."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

_GRAMMAR = frozenset({"CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "TRIM"})
"""Functions with words between their arguments."""
_HOME = "main"
"""The schema that every lake has; PostgreSQL calls it public."""


class TricklePostgresParser(PostgresParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: build for name, build in PostgresParser.FUNCTION_PARSERS.items() if name in _GRAMMAR
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: build
        for name, build in PostgresParser.NO_PAREN_FUNCTION_PARSERS.items()
        if name in ("ANY", "CASE")
    }

    def _parse_function_call(self, *args: Any, **options: Any) -> exp.Expr | None:
        token = self._curr
        result: exp.Expr | None = super()._parse_function_call(*args, **options)
        if result is not None and token is not None and "start" not in result.meta:
            result.update_positions(token)
        return result

    def _warn_unsupported(self) -> None:
        """No log: what is not read as a statement of its own is refused by us."""

    def _parse_table_parts(self, *args: Any, **options: Any) -> exp.Table | exp.Dot | None:
        table = super()._parse_table_parts(*args, **options)
        if isinstance(table, exp.Table) and table.db.lower() == "public":
            table.args["db"].set("this", _HOME)
        return table


class TricklePostgres(Postgres):
    """The dialect that users' PostgreSQL texts are read in."""

    Parser = TricklePostgresParser
