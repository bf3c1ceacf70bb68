"""CREATE, DROP, ALTER, COMMENT and TRUNCATE."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from spark_trickle.statements import parse as ast
from spark_trickle.statements.text.cursor import Cursor, Name, Span

_AFTER_DEFAULT = ("COMMENT", "PRIMARY", "GENERATED", "CONSTRAINT", "CHECK", "FIRST", "AFTER")
_AFTER_TYPE = ("NOT", "NULL", "DEFAULT", *_AFTER_DEFAULT)


def parse(cursor: Cursor) -> ast.Statement | None:
    """The statement, or None when its first word is another one's."""
    if cursor.accept("CREATE"):
        return _create(cursor)
    if cursor.accept("DROP"):
        return _drop(cursor)
    if cursor.accept("ALTER", "TABLE"):
        return _alter(cursor)
    if cursor.accept("ALTER", "VIEW"):
        name = cursor.name("a view's name")
        cursor.expect("AS")
        return ast.CreateView(name, cursor.rest("a query"), or_replace=True, altered=True)
    if cursor.accept("COMMENT", "ON"):
        return _comment(cursor)
    if cursor.accept("TRUNCATE"):
        cursor.expect("TABLE")
        return ast.Truncate(cursor.name())
    if cursor.accept("RESTORE"):
        return _restore(cursor)
    if cursor.accept("USE"):
        if not (cursor.at("CATALOG") or cursor.peek(1) is None):
            _schema_word(cursor)
        return ast.Use(cursor.part("a schema's name"))
    return None


def _restore(cursor: Cursor) -> ast.Restore:
    cursor.accept("TABLE")
    name = cursor.name()
    cursor.expect("TO")
    if cursor.accept("TIMESTAMP", "AS", "OF"):
        return ast.Restore(name, None, cursor.text(cursor.rest("a time")))
    cursor.expect("VERSION")
    cursor.accept("AS", "OF")
    token = cursor.peek()
    if token is None or not token.text.isdigit():
        cursor.fail("a version, which is a whole number, is expected here")
    cursor.index += 1
    return ast.Restore(name, int(token.text))


def _schema_word(cursor: Cursor) -> bool:
    return any(cursor.accept(word) for word in ("SCHEMA", "DATABASE", "NAMESPACE"))


def _create(cursor: Cursor) -> ast.Statement:
    or_replace = cursor.accept("OR", "REPLACE")
    if _schema_word(cursor):
        if or_replace:
            cursor.fail("a schema cannot be replaced", hint="CREATE SCHEMA IF NOT EXISTS …")
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        return ast.CreateSchema(cursor.part("a schema's name"), if_not_exists)
    temporary = cursor.accept("TEMPORARY") or cursor.accept("TEMP")
    if cursor.accept("VIEW"):
        return _create_view(cursor, or_replace, temporary)
    if temporary:
        cursor.fail("VIEW is expected here", hint="tables that are temporary are not known here")
    if not cursor.accept("TABLE"):
        cursor.fail("TABLE, VIEW, STREAM TABLE or SCHEMA is expected here")
    if_not_exists = cursor.if_not_exists(or_replace)
    statement = ast.CreateTable(cursor.name(), if_not_exists=if_not_exists, or_replace=or_replace)
    if cursor.accept("LIKE"):
        return replace(statement, like=cursor.name())
    if cursor.at_symbol("("):
        statement = _columns(cursor, statement)
    return _table_clauses(cursor, statement)


def _create_view(cursor: Cursor, or_replace: bool, temporary: bool) -> ast.CreateView:
    if_not_exists = cursor.if_not_exists(or_replace)
    name = cursor.name("a view's name")
    columns = cursor.names("a column's name") if cursor.at_symbol("(") else ()
    comment = cursor.string("a comment") if cursor.accept("COMMENT") else None
    cursor.expect("AS")
    query = cursor.rest("a query")
    return ast.CreateView(name, query, columns, or_replace, if_not_exists, temporary, comment)


def _columns(cursor: Cursor, statement: ast.CreateTable) -> ast.CreateTable:
    columns, key = column_list(cursor)
    return replace(statement, columns=columns, primary_key=key)


def column_list(cursor: Cursor) -> tuple[tuple[ast.ColumnDefinition, ...], tuple[str, ...]]:
    """``( name type …, PRIMARY KEY (…) )``: the columns and the key."""
    cursor.expect_symbol("(")
    columns: list[ast.ColumnDefinition] = []
    key: tuple[str, ...] = ()
    while True:
        if cursor.accept("CONSTRAINT"):
            cursor.part("a constraint's name")
        following = cursor.peek(2)
        if cursor.at("PRIMARY", "KEY") and following is not None and following.is_symbol("("):
            cursor.expect("PRIMARY", "KEY")
            key = cursor.names("a column's name")
            _constraint_words(cursor)
        else:
            column, is_key = _column(cursor)
            columns.append(column)
            key = (column.name,) if is_key else key
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return tuple(columns), key


def _constraint_words(cursor: Cursor) -> None:
    while cursor.accept("NOT", "ENFORCED") or cursor.accept("RELY") or cursor.accept("NORELY"):
        pass


def _column(cursor: Cursor) -> tuple[ast.ColumnDefinition, bool]:
    start = cursor.index
    name = cursor.part("a column's name")
    column = ast.ColumnDefinition(name, cursor.text(_type(cursor)))
    is_key = False
    while not (cursor.done or cursor.at_symbol(",") or cursor.at_symbol(")")):
        if cursor.accept("NOT", "NULL"):
            column = replace(column, nullable=False)
        elif cursor.accept("DEFAULT"):
            value = cursor.until("a default value", _ends_default)
            column = replace(column, default=cursor.text(value))
        elif cursor.accept("COMMENT"):
            column = replace(column, comment=cursor.string("a comment"))
        elif cursor.accept("PRIMARY", "KEY"):
            is_key = True
            _constraint_words(cursor)
        elif cursor.at("FIRST") or cursor.at("AFTER"):
            _refuse_place(cursor)
        elif not cursor.accept("NULL"):
            token = cursor.peek()
            cursor.fail(
                f"{token.text if token else 'this'} is not known in a column's definition",
                hint="NOT NULL, DEFAULT, COMMENT and PRIMARY KEY are",
            )
    span = Span(cursor.tokens[start].start, cursor.tokens[cursor.index - 1].end)
    return replace(column, span=span), is_key


def _refuse_place(cursor: Cursor) -> NoReturn:
    cursor.fail(
        "a column's place cannot be chosen: new columns come last",
        hint="SELECT lists columns in any order, and so does a view",
    )


def _type(cursor: Cursor) -> Span:
    first = cursor.index

    def ends(at: Cursor) -> bool:
        # A comma or NOT NULL inside map<a, b> or struct<…> belongs to the type.
        inside = sum(
            token.is_symbol("<") - token.is_symbol(">") for token in at.tokens[first : at.index]
        )
        words = any(at.at(word) for word in _AFTER_TYPE)
        return inside <= 0 and (words or at.at_symbol(",") or at.at_symbol(")"))

    return cursor.until("a type", ends)


def _ends_default(cursor: Cursor) -> bool:
    return (
        any(cursor.at(word) for word in _AFTER_DEFAULT)
        or cursor.at("NOT", "NULL")
        or cursor.at_symbol(",")
        or cursor.at_symbol(")")
    )


def _table_clauses(cursor: Cursor, statement: ast.CreateTable) -> ast.CreateTable:
    while not cursor.done:
        if cursor.accept("CLUSTER", "BY"):
            statement = replace(statement, cluster_by=cursor.names("a column's name"))
        elif cursor.accept("PRIMARY", "KEY"):
            statement = replace(statement, primary_key=cursor.names("a column's name"))
        elif cursor.accept("COMMENT"):
            statement = replace(statement, comment=cursor.string("a comment"))
        elif cursor.accept("AS") or cursor.at("SELECT") or cursor.at("WITH"):
            return replace(statement, query=cursor.rest("a query"))
        else:
            token = cursor.peek()
            cursor.fail(
                f"{token.text if token else 'this'} is not known in CREATE TABLE",
                hint="PRIMARY KEY (…), CLUSTER BY (…), COMMENT and AS SELECT are; "
                "files: AS SELECT * FROM read_parquet('…'), read_csv or read_json",
            )
    if not statement.columns:
        cursor.fail("columns or AS SELECT is expected here")
    return statement


def _drop(cursor: Cursor) -> ast.Statement:
    if _schema_word(cursor):
        if_exists = cursor.accept("IF", "EXISTS")
        name = cursor.part("a schema's name")
        cascade = cursor.accept("CASCADE")
        if not cascade:
            cursor.accept("RESTRICT")
        return ast.DropSchema(name, if_exists, cascade)
    if cursor.accept("VIEW"):
        if_exists = cursor.accept("IF", "EXISTS")
        return ast.DropView(cursor.name("a view's name"), if_exists)
    if not cursor.accept("TABLE"):
        cursor.fail("TABLE, VIEW, STREAM TABLE or SCHEMA is expected here")
    if_exists = cursor.accept("IF", "EXISTS")
    statement = ast.DropTable(cursor.name(), if_exists)
    cursor.accept("PURGE")
    return statement


def _alter(cursor: Cursor) -> ast.Statement:
    name = cursor.name()
    if cursor.accept("RENAME", "COLUMN"):
        column = cursor.part("a column's name")
        cursor.expect("TO")
        return ast.RenameColumn(name, column, cursor.part("the new name"))
    if cursor.accept("RENAME", "TO"):
        return ast.RenameTable(name, cursor.name("the new name"))
    if cursor.accept("ADD"):
        return ast.AddColumns(name, _added(cursor))
    if cursor.accept("DROP"):
        return _dropped(cursor, name)
    if cursor.accept("ALTER") or cursor.accept("CHANGE"):
        cursor.accept("COLUMN")
        return _alter_column(cursor, name, cursor.part("a column's name"))
    return cursor.fail("ADD, DROP, ALTER COLUMN, RENAME COLUMN or RENAME TO is expected here")


def _alter_column(cursor: Cursor, name: Name, column: str) -> ast.Statement:
    if cursor.accept("COMMENT"):
        return ast.Comment(name, _said(cursor), column)
    if cursor.accept("TYPE") or cursor.accept("SET", "DATA", "TYPE"):
        return ast.AlterColumn(name, column, "TYPE", cursor.text(cursor.rest("a type")))
    if cursor.accept("SET", "DEFAULT"):
        value = cursor.text(cursor.rest("a default value"))
        return ast.AlterColumn(name, column, "SET DEFAULT", value)
    for action in ("DROP DEFAULT", "SET NOT NULL", "DROP NOT NULL"):
        if cursor.accept(*action.split()):
            return ast.AlterColumn(name, column, action)
    if cursor.at("FIRST") or cursor.at("AFTER"):
        _refuse_place(cursor)
    return cursor.fail(
        "TYPE, SET DEFAULT, DROP DEFAULT, SET NOT NULL, DROP NOT NULL or COMMENT is expected here"
    )


def _comment(cursor: Cursor) -> ast.Comment:
    of_table = cursor.accept("TABLE") or cursor.accept("VIEW")
    if not of_table and not cursor.accept("COLUMN"):
        cursor.fail("TABLE, VIEW or COLUMN is expected here")
    name, column = cursor.name(), None
    if not of_table:
        if len(name.parts) < 2:
            cursor.fail("a column is named with its table here", hint="COMMENT ON COLUMN t.c IS …")
        name, column = replace(name, parts=name.parts[:-1]), name.parts[-1]
    cursor.expect("IS")
    return ast.Comment(name, _said(cursor), column)


def _said(cursor: Cursor) -> str | None:
    return None if cursor.accept("NULL") else cursor.string("a comment")


def _dropped(cursor: Cursor, name: Name) -> ast.DropColumns:
    if not cursor.accept("COLUMNS"):
        cursor.expect("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    if cursor.at_symbol("("):
        return ast.DropColumns(name, cursor.names("a column's name"), if_exists)
    columns = [cursor.part("a column's name")]
    while cursor.accept_symbol(","):
        columns.append(cursor.part("a column's name"))
    return ast.DropColumns(name, tuple(columns), if_exists)


def _added(cursor: Cursor) -> tuple[ast.ColumnDefinition, ...]:
    if not cursor.accept("COLUMNS"):
        cursor.accept("COLUMN")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    bracketed = cursor.accept_symbol("(")
    columns = [_column(cursor)[0]]
    while cursor.accept_symbol(","):
        columns.append(_column(cursor)[0])
    if bracketed:
        cursor.expect_symbol(")")
    return tuple(replace(column, if_not_exists=if_not_exists) for column in columns)
