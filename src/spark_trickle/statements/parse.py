"""Statements about tables: text in, one small record out. Expressions stay the user's own text.

Only the frame of a statement is read here; Spark reads queries and expressions.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.statements.text.cursor import Cursor, Name, Span


@dataclass(frozen=True)
class Query:
    """SELECT, WITH, VALUES, TABLE, FROM or EXPLAIN of one of them: Spark answers it."""

    body: Span
    explain: bool = False


@dataclass(frozen=True)
class ColumnDefinition:
    name: str
    type: str
    nullable: bool = True
    default: str | None = None
    span: Span = Span(0, 0)
    comment: str | None = None
    if_not_exists: bool = False
    """ADD COLUMN: nothing is done where there is one of that name."""


@dataclass(frozen=True)
class CreateSchema:
    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropSchema:
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class CreateTable:
    name: Name
    columns: tuple[ColumnDefinition, ...] = ()
    primary_key: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    if_not_exists: bool = False
    or_replace: bool = False
    query: Span | None = None
    comment: str | None = None
    like: Name | None = None
    """The table whose columns and keys it gets."""


@dataclass(frozen=True)
class DropTable:
    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class AddColumns:
    name: Name
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True)
class DropColumns:
    name: Name
    columns: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    name: Name
    column: str
    to: str


@dataclass(frozen=True)
class RenameTable:
    name: Name
    to: Name


@dataclass(frozen=True)
class Comment:
    """COMMENT ON TABLE or COLUMN, ALTER TABLE … ALTER COLUMN … COMMENT."""

    name: Name
    comment: str | None
    column: str | None = None


@dataclass(frozen=True)
class AlterColumn:
    """``action``: TYPE, SET DEFAULT (both with a value), DROP DEFAULT, SET NOT NULL or DROP NOT NULL."""

    name: Name
    column: str
    action: str
    value: str | None = None


@dataclass(frozen=True)
class Restore:
    """RESTORE TABLE … TO VERSION AS OF, or TIMESTAMP AS OF with the text of a time."""

    name: Name
    version: int | None
    timestamp: str | None = None


@dataclass(frozen=True)
class Use:
    """The schema that names without one are in."""

    schema: str


@dataclass(frozen=True)
class Insert:
    """INSERT INTO / INSERT OVERWRITE."""

    target: Name
    source: Span
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    overwrite: bool = False
    ctes: Span | None = None


@dataclass(frozen=True)
class Assignment:
    column: Name
    value: Span


@dataclass(frozen=True)
class Update:
    target: Name
    alias: str | None
    assignments: tuple[Assignment, ...]
    condition: Span | None
    ctes: Span | None = None


@dataclass(frozen=True)
class Delete:
    target: Name
    alias: str | None
    condition: Span | None
    ctes: Span | None = None


@dataclass(frozen=True)
class MergeUpdate:
    """``assignments`` None: SET *."""

    assignments: tuple[Assignment, ...] | None


@dataclass(frozen=True)
class MergeDelete:
    pass


@dataclass(frozen=True)
class MergeInsert:
    """Both None: INSERT *."""

    columns: tuple[Name, ...] | None
    values: tuple[Span, ...] | None


@dataclass(frozen=True)
class MergeClause:
    """``when`` is MATCHED, NOT MATCHED or NOT MATCHED BY SOURCE."""

    when: str
    condition: Span | None
    action: MergeUpdate | MergeDelete | MergeInsert


@dataclass(frozen=True)
class Merge:
    target: Name
    alias: str | None
    source: Span
    """A name or a bracketed query, without its alias."""
    source_alias: str | None
    condition: Span
    clauses: tuple[MergeClause, ...]
    ctes: Span | None = None


@dataclass(frozen=True)
class Truncate:
    name: Name


@dataclass(frozen=True)
class CreateView:
    """``temporary``: of this connection only, and kept nowhere."""

    name: Name
    query: Span
    columns: tuple[str, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    temporary: bool = False
    comment: str | None = None
    altered: bool = False
    """ALTER VIEW: there must be one, and what is said about it stays."""


@dataclass(frozen=True)
class DropView:
    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class ShowTables:
    """``like``: a pattern with * for anything and | between alternatives, as Spark has it."""

    schema: str | None
    like: str | None = None
    views_only: bool = False


@dataclass(frozen=True)
class ShowSchemas:
    like: str | None = None


@dataclass(frozen=True)
class ShowColumns:
    name: Name


@dataclass(frozen=True)
class ShowCreate:
    """``kind``: TABLE (which a view may be, too), VIEW or STREAM TABLE."""

    name: Name
    kind: str


@dataclass(frozen=True)
class ShowVersions:
    """SHOW VERSIONS; with a name DESCRIBE HISTORY of a table."""

    name: Name | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Describe:
    name: Name
    extended: bool = False
    stream: bool = False


Listing = ShowTables | ShowSchemas | ShowColumns | ShowCreate | ShowVersions | Describe
"""What the catalog answers by itself."""

Statement = (
    Query
    | CreateSchema
    | DropSchema
    | CreateTable
    | DropTable
    | AddColumns
    | DropColumns
    | RenameColumn
    | RenameTable
    | Comment
    | Insert
    | Update
    | Delete
    | Merge
    | Truncate
    | CreateView
    | DropView
    | AlterColumn
    | Restore
    | Use
    | Listing
)

_QUERY_WORDS = ("SELECT", "VALUES", "TABLE", "FROM")
_KNOWN = (
    "SELECT, WITH, VALUES, TABLE, CREATE, DROP, ALTER, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, "
    "SHOW, DESCRIBE, COMMENT ON, RESTORE, USE and EXPLAIN are known"
)


def parse_statement(sql: str) -> Statement:
    """The statement about tables in ``sql``; ParseError with its place when the frame is not right."""
    return parse_at(Cursor(sql))


def parse_at(cursor: Cursor) -> Statement:
    """The statement at the cursor, which stands at the beginning of it."""
    from spark_trickle.statements import ddl as statement_ddl
    from spark_trickle.statements import dml as statement_dml
    from spark_trickle.statements import show as statement_show

    if cursor.done:
        cursor.fail("there is no statement in the text", hint=_KNOWN)
    ctes = _ctes(cursor)
    if any(cursor.at(word) for word in _QUERY_WORDS) or cursor.at_symbol("("):
        start = ctes.start if ctes else None
        body = cursor.rest("a query")
        return Query(Span(body.start if start is None else start, body.end))
    statement = statement_dml.parse(cursor, ctes)
    if statement is None and ctes is None:
        statement = _explain(cursor) or statement_show.parse(cursor) or statement_ddl.parse(cursor)
    if statement is None:
        cursor.fail("this statement is not known here", hint=_KNOWN)
    cursor.end()
    return statement


def _ctes(cursor: Cursor) -> Span | None:
    """A leading WITH list; DML statements may carry one as well as queries."""
    if not cursor.at("WITH"):
        return None
    start = cursor.index
    cursor.expect("WITH")
    if cursor.accept("RECURSIVE") and cursor.accept("MAX", "RECURSION", "LEVEL"):
        cursor.index += 1
    while True:
        cursor.part("a name")
        if cursor.at_symbol("("):
            cursor.skip_group()
        if cursor.accept("AS") or not cursor.at_symbol("("):
            if not cursor.at_symbol("("):
                cursor.fail("'(' is expected here")
            cursor.skip_group()
        if not cursor.accept_symbol(","):
            break
    return Span(cursor.tokens[start].start, cursor.tokens[cursor.index - 1].end)


def _explain(cursor: Cursor) -> Query | None:
    if not cursor.accept("EXPLAIN"):
        return None
    for word in ("EXTENDED", "CODEGEN", "COST", "FORMATTED"):
        if cursor.accept(word):
            break
    if not (cursor.at_symbol("(") or any(cursor.at(w) for w in (*_QUERY_WORDS, "WITH"))):
        cursor.fail("a query is expected here", hint="only queries can be explained")
    cursor.rest("a query")
    return Query(Span(cursor.tokens[0].start, cursor.tokens[-1].end), explain=True)
