"""Find the table names in a query's text. A name that a CTE in scope defines is not a table's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from spark_trickle.errors import ParseError, Position
from spark_trickle.statements.files import reads_files
from spark_trickle.statements.text.cursor import Name
from spark_trickle.statements.text.tokens import Token, TokenKind, tokenize


@dataclass(frozen=True)
class TableReference:
    """A table's name in FROM, JOIN or TABLE."""

    name: Name
    clause_end: int
    """End of the name and of a VERSION AS OF clause."""
    alias_at: int | None
    """Where an alias must be put so that ``name.column`` still resolves; None: not needed."""
    version: str | None = None
    """Text after VERSION AS OF."""
    timestamp: str | None = None
    """Text after TIMESTAMP AS OF."""
    alias: str | None = None
    call: str | None = None
    """Of files in the place of a table: the arguments, with their brackets."""


class _Mode(Enum):
    EXPRESSION = "expression"
    RELATION = "relation"


_ENDS_FROM = frozenset(
    [
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "CLUSTER",
        "DISTRIBUTE",
        "SORT",
        "LIMIT",
        "OFFSET",
        "WINDOW",
        "QUALIFY",
        "UNION",
        "EXCEPT",
        "MINUS",
        "INTERSECT",
        "SETMINUS",
        "SELECT",
        "SET",
        "WHEN",
    ]
)
_NOT_ALIASES = _ENDS_FROM | frozenset(
    [
        "LATERAL",
        "PIVOT",
        "UNPIVOT",
        "TABLESAMPLE",
        "JOIN",
        "INNER",
        "CROSS",
        "LEFT",
        "RIGHT",
        "FULL",
        "NATURAL",
        "SEMI",
        "ANTI",
        "OUTER",
        "ON",
        "USING",
        "FOR",
        "AS",
    ]
)
_QUERY_STARTS = frozenset(["SELECT", "WITH", "VALUES", "TABLE", "FROM"])
_SET_WORDS = frozenset(["UNION", "EXCEPT", "MINUS", "INTERSECT", "SETMINUS", "ALL", "DISTINCT"])


def find_tables(
    sql: str,
    window: tuple[int, int] | None = None,
    shadowed: frozenset[str] = frozenset(),
    *,
    relation: bool = False,
) -> tuple[TableReference, ...]:
    """The table references in a stretch of ``sql``, from left to right.

    The stretch is a query or an expression, or (``relation``) what stands after FROM.
    ``shadowed``: lower-case names of CTEs that are defined outside of it.
    """
    finder = _Finder(sql, stretch(sql, *(window or (0, len(sql)))))
    mode = _Mode.RELATION if relation else _Mode.EXPRESSION
    finder.level(0, len(finder.tokens), shadowed, mode)
    return tuple(sorted(finder.found, key=lambda r: r.name.start))


def cte_names(sql: str, start: int, end: int) -> frozenset[str]:
    """The lower-case names that the WITH list in ``sql[start:end]`` defines."""
    finder = _Finder(sql, stretch(sql, start, end))
    return finder.with_list(0, len(finder.tokens), frozenset())[1]


def stretch(sql: str, start: int, end: int) -> list[Token]:
    """The tokens inside ``sql[start:end]``."""
    return [t for t in tokenize(sql) if start <= t.start and t.end <= end]


class _Finder:
    """Walks the bracket levels of a query; each level knows which CTE names are in scope."""

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        self.sql = sql
        self.tokens = tokens
        self.found: list[TableReference] = []

    def level(self, i: int, end: int, ctes: frozenset[str], mode: _Mode) -> None:
        first = self._word(i)
        i, ctes = self.with_list(i, end, ctes)
        is_query = first in _QUERY_STARTS or mode is _Mode.RELATION
        in_from = wants = mode is _Mode.RELATION and first not in _QUERY_STARTS
        start = i
        while i < end:
            token = self.tokens[i]
            word = token.word
            if wants and word != "LATERAL":
                i = self._relation(i, end, ctes)
                wants = False
                continue
            if token.is_symbol("("):
                close = self._close(i, end)
                self.level(i + 1, close, ctes, _Mode.EXPRESSION)
                i = close + 1
                continue
            if word == "SELECT":
                is_query, in_from = True, False
            elif word == "FROM" and is_query and not self._distinct_from(i):
                in_from = wants = True
            elif word == "JOIN" and is_query and not self._after_dot(i):
                wants = True
            elif word == "LATERAL" and self._word(i + 1) == "VIEW":
                in_from = False
            elif word == "TABLE" and (i == start or self._word(i - 1) in _SET_WORDS):
                i = self._table_query(i, ctes)
                continue
            elif in_from and token.is_symbol(","):
                wants = True
            elif word in _ENDS_FROM and not self._after_dot(i):
                in_from = False
            i += 1

    def with_list(self, i: int, end: int, ctes: frozenset[str]) -> tuple[int, frozenset[str]]:
        if self._word(i) != "WITH":
            return i, ctes
        i += 1
        recursive = self._word(i) == "RECURSIVE" and not self._symbol(i + 1, "(")
        i += recursive
        if self._word(i) == "MAX" and self._word(i + 1) == "RECURSION":
            i += 4
        while i < end and self.tokens[i].names:
            name = self.tokens[i].name.lower()
            i += 1
            if self._symbol(i, "(") and self._query_follows(i, end):
                i = self._close(i, end) + 1
            i += self._word(i) == "AS"
            if not self._symbol(i, "("):
                break
            close = self._close(i, end)
            inner = ctes | {name} if recursive else ctes
            self.level(i + 1, close, inner, _Mode.EXPRESSION)
            ctes = ctes | {name}
            i = close + 1
            if not self._symbol(i, ","):
                break
            i += 1
        return i, ctes

    def _query_follows(self, i: int, end: int) -> bool:
        """Whether the group at ``i`` is a CTE's column list, with its query still to come."""
        after = self._close(i, end) + 1
        return self._word(after) == "AS" or self._symbol(after, "(")

    def _relation(self, i: int, end: int, ctes: frozenset[str]) -> int:
        """A relation after FROM, JOIN or a comma; where the text goes on after its name."""
        token = self.tokens[i]
        if token.is_symbol("("):
            close = self._close(i, end)
            self.level(i + 1, close, ctes, _Mode.RELATION)
            return close + 1
        if not token.names or (token.word == "VALUES" and self._symbol(i + 1, "(")):
            return i + 1
        name, after = self._name(i, end)
        if self._symbol(after, "("):
            return self._files(name, after, end) if reads_files(name.parts) else after
        if len(name.parts) == 1 and name.parts[0].lower() in ctes:
            return after
        return self._table(name, after, end)

    def _files(self, name: Name, i: int, end: int) -> int:
        close = self._close(i, end)
        start, stop = self.tokens[i].start, self.tokens[close].end
        alias = self._alias(close + 1, end)
        call = self.sql[start:stop]
        at = stop if alias is None else None
        self.found.append(TableReference(name, stop, at, alias=alias, call=call))
        return close + 1

    def _table(self, name: Name, i: int, end: int) -> int:
        clause_end, version, timestamp = name.end, None, None
        ahead = i + (self._word(i) == "FOR")
        if self._word(ahead + 1) == "AS" and self._word(ahead + 2) == "OF":
            kind, value = self._word(ahead), ahead + 3
            i = self._value_end(value, end)
            text = self.sql[self.tokens[value].start : self.tokens[i - 1].end]
            version = text if kind in ("VERSION", "SYSTEM_VERSION") else None
            timestamp = text if kind in ("TIMESTAMP", "SYSTEM_TIME") else None
            clause_end = self.tokens[i - 1].end
        if self._word(i) == "TABLESAMPLE" and self._symbol(i + 1, "("):
            i = self._close(i + 1, end) + 1
            i = self._close(i + 1, end) + 1 if self._word(i) == "REPEATABLE" else i
        alias = self._alias(i, end)
        alias_at = self.tokens[i - 1].end if alias is None else None
        self.found.append(TableReference(name, clause_end, alias_at, version, timestamp, alias))
        return i

    def _value_end(self, i: int, end: int) -> int:
        """One value after AS OF: a literal, a typed literal, a call or a bracketed expression."""
        if i >= end:
            self._fail("a version or a timestamp is expected here", self.tokens[-1])
        i += self._symbol(i, "-")
        word = self._word(i)
        if word and i + 1 < end and self.tokens[i + 1].kind is TokenKind.STRING:
            return i + 2
        i += bool(word)
        return self._close(i, end) + 1 if self._symbol(i, "(") else i + (not word)

    def _alias(self, i: int, end: int) -> str | None:
        i += self._word(i) == "AS"
        if i >= end or not self.tokens[i].names or self.tokens[i].word in _NOT_ALIASES:
            return None
        return self.tokens[i].name

    def _table_query(self, i: int, ctes: frozenset[str]) -> int:
        if i + 1 >= len(self.tokens) or not self.tokens[i + 1].names:
            return i + 1
        name, after = self._name(i + 1, len(self.tokens))
        if len(name.parts) > 1 or name.parts[0].lower() not in ctes:
            self.found.append(TableReference(name, name.end, None))
        return after

    def _name(self, i: int, end: int) -> tuple[Name, int]:
        first, parts = i, [self.tokens[i].name]
        i += 1
        while i + 1 < end and self._symbol(i, ".") and self.tokens[i + 1].names:
            parts.append(self.tokens[i + 1].name)
            i += 2
        return Name(tuple(parts), self.tokens[first].start, self.tokens[i - 1].end), i

    def _close(self, i: int, end: int) -> int:
        depth, place = 0, i
        while place < end:
            token = self.tokens[place]
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth == 0:
                return place
            place += 1
        self._fail("a bracket is opened here and never closed", self.tokens[i])
        raise AssertionError

    def _fail(self, message: str, token: Token) -> None:
        raise ParseError(message, position=Position.of_span(self.sql, token.start, token.end))

    def _word(self, i: int) -> str:
        return self.tokens[i].word if 0 <= i < len(self.tokens) else ""

    def _symbol(self, i: int, text: str) -> bool:
        return 0 <= i < len(self.tokens) and self.tokens[i].is_symbol(text)

    def _after_dot(self, i: int) -> bool:
        return self._symbol(i - 1, ".")

    def _distinct_from(self, i: int) -> bool:
        return self._after_dot(i) or (
            self._word(i - 1) == "DISTINCT" and self._word(i - 2) in ("IS", "NOT")
        )
