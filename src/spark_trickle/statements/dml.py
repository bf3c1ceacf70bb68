"""INSERT, UPDATE, DELETE and MERGE: where their parts stand in the text."""

from __future__ import annotations

from spark_trickle.statements import parse as ast
from spark_trickle.statements.text.cursor import Cursor, Name, Span
from spark_trickle.statements.text.tokens import TokenKind

_QUERY_STARTS = ("SELECT", "VALUES", "TABLE", "FROM", "WITH")


def parse(cursor: Cursor, ctes: Span | None) -> ast.Statement | None:
    """The statement, or None when its first word is another one's."""
    if cursor.accept("INSERT"):
        return _insert(cursor, ctes)
    if cursor.accept("UPDATE"):
        return _update(cursor, ctes)
    if cursor.accept("DELETE"):
        cursor.expect("FROM")
        target, alias = cursor.name(), _alias(cursor, ("WHERE",))
        return ast.Delete(target, alias, _where(cursor), ctes)
    if cursor.accept("MERGE"):
        return _merge(cursor, ctes)
    return None


def _insert(cursor: Cursor, ctes: Span | None) -> ast.Insert:
    overwrite = cursor.accept("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    else:
        cursor.accept("INTO")
    following = cursor.peek(1)
    # INSERT INTO TABLE t is Spark's long form, but a table may also be called "table".
    if cursor.at("TABLE") and following is not None and following.names:
        cursor.accept("TABLE")
    target = cursor.name()
    by_name = cursor.accept("BY", "NAME")
    columns = None
    if cursor.at_symbol("(") and not _opens_query(cursor):
        columns = cursor.names("a column's name")
    source = cursor.rest("VALUES or a query")
    return ast.Insert(target, source, columns, by_name, overwrite, ctes)


def _opens_query(cursor: Cursor) -> bool:
    ahead = 0
    while (token := cursor.peek(ahead)) is not None and token.is_symbol("("):
        ahead += 1
    return token is not None and token.word in _QUERY_STARTS


def _alias(cursor: Cursor, stops: tuple[str, ...]) -> str | None:
    if cursor.accept("AS"):
        return cursor.part("an alias")
    token = cursor.peek()
    if token is None or not token.names or token.word in stops:
        return None
    return cursor.part("an alias")


def _where(cursor: Cursor) -> Span | None:
    return cursor.rest("a condition") if cursor.accept("WHERE") else None


def _update(cursor: Cursor, ctes: Span | None) -> ast.Update:
    target, alias = cursor.name(), _alias(cursor, ("SET",))
    cursor.expect("SET")
    assignments = _assignments(cursor, ("WHERE",))
    return ast.Update(target, alias, assignments, _where(cursor), ctes)


def _assignments(cursor: Cursor, stops: tuple[str, ...]) -> tuple[ast.Assignment, ...]:
    found = []
    while True:
        column = cursor.name("a column's name")
        cursor.expect_symbol("=")
        value = cursor.until("a value", lambda c: c.at_symbol(",") or _outside_case(c, stops))
        found.append(ast.Assignment(column, value))
        if not cursor.accept_symbol(","):
            return tuple(found)


def _outside_case(cursor: Cursor, words: tuple[str, ...]) -> bool:
    """Whether one of the words comes next and is not a branch of an open CASE."""
    if not any(cursor.at(word) for word in words):
        return False
    depth, index = 0, cursor.index - 1
    while index >= 0 and not cursor.tokens[index].is_symbol("="):
        word = cursor.tokens[index].word
        depth += (word == "CASE") - (word == "END")
        index -= 1
    return depth <= 0


def _merge(cursor: Cursor, ctes: Span | None) -> ast.Merge:
    if cursor.at("WITH", "SCHEMA", "EVOLUTION"):
        cursor.fail(
            "MERGE WITH SCHEMA EVOLUTION is not supported",
            hint="add the columns with ALTER TABLE … ADD COLUMN first",
        )
    cursor.expect("INTO")
    target, alias = cursor.name(), _alias(cursor, ("USING",))
    cursor.expect("USING")
    source, source_alias = _merge_source(cursor)
    cursor.expect("ON")
    condition = cursor.until("a condition", lambda c: _at_clause(c))
    clauses = []
    while cursor.accept("WHEN"):
        clauses.append(_merge_clause(cursor))
    if not clauses:
        cursor.fail("WHEN MATCHED or WHEN NOT MATCHED is expected here")
    return ast.Merge(target, alias, source, source_alias, condition, tuple(clauses), ctes)


def _merge_source(cursor: Cursor) -> tuple[Span, str | None]:
    if cursor.at_symbol("("):
        first = cursor.index
        cursor.skip_group()
        span = Span(cursor.tokens[first].start, cursor.tokens[cursor.index - 1].end)
        return span, _alias(cursor, ("ON",))
    name = cursor.name("a source")
    end = name.end
    for words in (("VERSION", "AS", "OF"), ("TIMESTAMP", "AS", "OF")):
        if cursor.accept(*words):
            end = cursor.until("a version", lambda c: c.at("AS") or c.at("ON") or _names(c)).end
    alias = _alias(cursor, ("ON",))
    return Span(name.start, end), alias or name.parts[-1]


def _names(cursor: Cursor) -> bool:
    token = cursor.peek()
    return token is not None and token.kind in (TokenKind.WORD, TokenKind.QUOTED)


def _at_clause(cursor: Cursor) -> bool:
    """WHEN [NOT] MATCHED: a WHEN inside CASE is never followed by these words."""
    return cursor.at("WHEN", "MATCHED") or cursor.at("WHEN", "NOT", "MATCHED")


def _merge_clause(cursor: Cursor) -> ast.MergeClause:
    when = "MATCHED"
    if cursor.accept("NOT", "MATCHED"):
        when = "NOT MATCHED"
        if cursor.accept("BY", "SOURCE"):
            when = "NOT MATCHED BY SOURCE"
        elif cursor.accept("BY"):
            cursor.expect("TARGET")
    else:
        cursor.expect("MATCHED")
    condition = None
    if cursor.accept("AND"):
        condition = cursor.until("a condition", lambda c: _at_action(c))
    cursor.expect("THEN")
    return ast.MergeClause(when, condition, _merge_action(cursor, when))


def _at_action(cursor: Cursor) -> bool:
    """THEN that begins the clause's action, not a branch of CASE."""
    if not cursor.at("THEN"):
        return False
    return cursor.at("THEN", "DELETE") or cursor.at("THEN", "INSERT") or cursor.at("THEN", "UPDATE")


def _merge_action(cursor: Cursor, when: str) -> ast.MergeUpdate | ast.MergeDelete | ast.MergeInsert:
    if when == "NOT MATCHED":
        cursor.expect("INSERT")
        return _merge_insert(cursor)
    if cursor.accept("DELETE"):
        return ast.MergeDelete()
    cursor.expect("UPDATE", "SET")
    star = cursor.peek()
    if star is not None and star.is_symbol("*"):
        if when == "NOT MATCHED BY SOURCE":
            cursor.fail("there is no source row to take * from", hint="name the columns")
        cursor.accept_symbol("*")
        return ast.MergeUpdate(None)
    return ast.MergeUpdate(_assignments_of_merge(cursor))


def _assignments_of_merge(cursor: Cursor) -> tuple[ast.Assignment, ...]:
    found = []
    while True:
        column = cursor.name("a column's name")
        cursor.expect_symbol("=")
        value = cursor.until("a value", lambda c: c.at_symbol(",") or _at_clause(c))
        found.append(ast.Assignment(column, value))
        if not cursor.accept_symbol(","):
            return tuple(found)


def _merge_insert(cursor: Cursor) -> ast.MergeInsert:
    if cursor.accept_symbol("*"):
        return ast.MergeInsert(None, None)
    columns: list[Name] = []
    if cursor.accept_symbol("("):
        columns.append(cursor.name("a column's name"))
        while cursor.accept_symbol(","):
            columns.append(cursor.name("a column's name"))
        cursor.expect_symbol(")")
    cursor.expect("VALUES")
    cursor.expect_symbol("(")
    values = []
    while True:
        values.append(cursor.until("a value", lambda c: c.at_symbol(",") or c.at_symbol(")")))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return ast.MergeInsert(tuple(columns) if columns else None, tuple(values))
