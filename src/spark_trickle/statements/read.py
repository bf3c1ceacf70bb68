"""The one way from a text to a statement, for every door: ``lake.sql``, scripts, transactions, the
command line. The text is tokenised once; which kind of statement it is follows from its first words.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.statements import control, stream
from spark_trickle.statements.control import Control
from spark_trickle.statements.dialect import known_dialect, one_tree
from spark_trickle.statements.foreign import foreign_query
from spark_trickle.statements.parse import Statement, parse_at
from spark_trickle.statements.stream import StreamStatement
from spark_trickle.statements.text.cursor import Cursor

_LISTINGS = ("SHOW", "DESCRIBE", "DESC")


@dataclass(frozen=True)
class ForeignQuery:
    """A query that calls functions of pg_ivm or pg_trickle, or reads their tables."""

    tree: exp.Select


@dataclass(frozen=True)
class PostgresStatement:
    """A statement of PostgreSQL's dialect, to be translated."""

    tree: exp.Expr

    @property
    def reads(self) -> bool:
        """Whether it only reads."""
        query = isinstance(self.tree, exp.Query | exp.Values)
        return query and self.tree.find(exp.Insert, exp.Update, exp.Delete) is None


AnyStatement = Control | StreamStatement | ForeignQuery | PostgresStatement | Statement
"""One value for each statement there is."""


def read_statement(sql: str, dialect: str = "spark") -> AnyStatement:
    """The statement in ``sql``; ParseError with its place where it is none.

    SHOW and DESCRIBE are the same in every dialect.
    """
    known_dialect(dialect)
    cursor = Cursor(sql, dialect)
    statement = control.parse(cursor) or stream.parse(cursor)
    if statement is not None:
        return statement
    foreign = foreign_query(sql)
    if foreign is not None:
        return ForeignQuery(foreign)
    if dialect == "spark":
        return parse_at(cursor)
    if any(cursor.at(word) for word in _LISTINGS):
        return parse_at(Cursor(sql))
    return PostgresStatement(one_tree(sql))
