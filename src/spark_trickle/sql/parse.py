"""SQL text to a sqlglot tree with positions, or a ParseError that points at the fault."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import errors as glot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from spark_trickle.errors import ParseError, Position
from spark_trickle.ir.trees import parts
from spark_trickle.sql.dialects import TrickleSpark
from spark_trickle.sql.pg.dialect import TricklePostgres
from spark_trickle.sql.pg.queries import Lookup
from spark_trickle.sql.postgres import translate
from spark_trickle.sql.text import Text

DIALECTS: dict[str, type[Dialect]] = {"spark": TrickleSpark, "postgres": TricklePostgres}


def unknown(_: str, __: str) -> None:
    """Where no table is known."""


@dataclass(frozen=True)
class Parsed:
    """One query: its tree in our dialect and the text its positions refer to."""

    tree: exp.Query
    text: Text


def parse_query(sql: str, dialect: str = "spark", lookup: Lookup = unknown) -> Parsed:
    """Parse exactly one query; any other statement is refused.

    ``lookup``: the columns of tables, which PostgreSQL's dialect needs to be translated.
    """
    tree = _parse(sql, dialect, lookup)
    text = Text(sql)
    while isinstance(tree, exp.Subquery) and not tree.args.get("alias") and _bare(tree):
        tree = tree.this
    if isinstance(tree, exp.Values):
        tree = _selected(tree)
    if not isinstance(tree, exp.Query) or isinstance(tree, exp.Table):
        raise ParseError(
            f"a query is needed here, not {_what(tree, sql)}",
            position=_first_word(sql),
            hint="write a SELECT (WITH … SELECT, VALUES); other statements have no result to keep",
        )
    for node in parts(tree):
        # Comments would be printed again, in places where they mean nothing.
        node.comments = None
    return Parsed(tree, text)


def _parse(sql: str, dialect: str, lookup: Lookup) -> exp.Expr:
    if dialect not in DIALECTS:
        names = ", ".join(sorted(DIALECTS))
        raise ParseError(f"unknown dialect: {dialect}", hint=f"one of: {names}")
    try:
        known = DIALECTS[dialect]()
        tokens = known.tokenize(sql)
        _refuse_open_lists(sql, tokens)
        trees = [tree for tree in known.parser().parse(tokens, sql) if tree is not None]
        if len(trees) == 1 and dialect != "spark" and isinstance(trees[0], exp.Query | exp.Values):
            trees = [translate(trees[0], lookup)]
    except glot.ParseError as error:
        raise _parse_error(error, sql) from None
    except glot.TokenError as error:
        raise _token_error(error, sql) from None
    except RecursionError:
        raise ParseError(
            "the query is nested too deeply", hint="split it into common table expressions"
        ) from None
    if not trees:
        raise ParseError("the query is empty", hint="write a SELECT")
    if len(trees) > 1:
        raise ParseError(
            f"one query is needed, but the text holds {len(trees)} statements",
            position=_after_semicolon(sql),
            hint="run them one at a time",
        )
    return trees[0]


_LIST_ENDS = {
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.ORDER_BY,
    TokenType.HAVING,
    TokenType.LIMIT,
    TokenType.R_PAREN,
    TokenType.UNION,
}


def _refuse_open_lists(sql: str, tokens: list[Token]) -> None:
    """``SELECT a, FROM t``: sqlglot forgives the comma, Spark does not."""
    for token, after in zip(tokens, tokens[1:], strict=False):
        if token.token_type == TokenType.COMMA and after.token_type in _LIST_ENDS:
            raise ParseError(
                f"syntax error near {after.text!r}: a list ends with a comma",
                position=Position.of_span(sql, token.start, token.end + 1),
                hint="remove the comma, or add what is missing after it",
            )


def _parse_error(error: glot.ParseError, sql: str) -> ParseError:
    first = error.errors[0] if error.errors else {}
    word = str(first.get("highlight") or "")
    description = str(first.get("description") or error)
    message = f"syntax error near {word!r}" if word else "syntax error at the end of the query"
    detail = description.split(". Line")[0].rstrip(".")
    if detail.startswith("Required keyword"):
        message += ": something is missing"
    elif detail and "<" not in detail and not detail.startswith("Invalid expression"):
        message += f": {detail[0].lower()}{detail[1:]}"
    return ParseError(
        message,
        position=_position(sql, first.get("line"), first.get("col"), word),
        hint="check the SQL at the caret; a name that is a reserved word needs `backticks`",
    )


def _position(sql: str, line: object, column: object, word: str) -> Position | None:
    if not isinstance(line, int) or not isinstance(column, int):
        return None
    lines = sql.split("\n")
    line = min(max(line, 1), len(lines))
    # sqlglot counts the column of a token's last character.
    start = max(1, column - len(word) + 1)
    return Position(sql, line, min(start, len(lines[line - 1]) + 1), max(1, len(word)))


def _token_error(error: glot.TokenError, sql: str) -> ParseError:
    found = re.search(r"Missing (\S+) from (\d+):(\d+)", str(error.__cause__ or error))
    if found is None:
        return ParseError("the text cannot be split into words", hint="look for an open quote")
    position = _position(sql, int(found[2]), int(found[3]), "")
    return ParseError(
        f"a quote or comment is not closed: {found[1]} is missing",
        position=position,
        hint=f"close it with {found[1]}",
    )


def _bare(tree: exp.Subquery) -> bool:
    return not any(value for key, value in tree.args.items() if key not in ("this", "alias"))


def _selected(values: exp.Values) -> exp.Select:
    """``VALUES …`` as a query: its ORDER BY and LIMIT are those of the query."""
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=values))
    for key in ("with_", "order", "limit", "offset"):
        select.set(key, values.args.pop(key, None))
    return select


def _what(tree: exp.Expr, sql: str) -> str:
    words = sql.split()
    if isinstance(tree, exp.DDL | exp.DML | exp.Command) and words:
        return f"{words[0].upper()}"
    return "a statement of another kind"


def _first_word(sql: str) -> Position | None:
    found = re.search(r"\S+", sql)
    return Position.of_span(sql, found.start(), found.end()) if found else None


def _after_semicolon(sql: str) -> Position | None:
    index = sql.find(";")
    return Position.of_span(sql, index, index + 1) if index >= 0 else None
