"""Lexical rules, with the place of every token, so that text can be spliced verbatim."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from spark_trickle.errors import ParseError, Position


class TokenKind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


@dataclass(frozen=True)
class Token:
    """``sql[start:end]``."""

    kind: TokenKind
    text: str
    start: int
    end: int
    escapes: bool = True
    """Whether a backslash in a text stands for something else."""

    @property
    def word(self) -> str:
        """The keyword this may be: upper case, empty for everything but bare words."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    @property
    def names(self) -> bool:
        """Whether this can be a part of a name."""
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED)

    @property
    def name(self) -> str:
        """The part of a name that this is."""
        if self.kind is not TokenKind.QUOTED:
            return self.text
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote)

    @property
    def value(self) -> str:
        """The text between the quotes of a string."""
        if self.text.startswith("$"):
            tag = self.text.index("$", 1) + 1
            return self.text[tag:-tag]
        quote = self.text[0]
        inner = self.text[1:-1]
        if not self.escapes or "\\" not in inner:
            return inner.replace(quote * 2, quote)
        return _ESCAPE.sub(lambda found: _unescaped(found.group(), quote), inner)

    def is_symbol(self, text: str) -> bool:
        return self.kind is TokenKind.SYMBOL and self.text == text


_ESCAPE = re.compile(
    r"""\\u[0-9a-fA-F]{4} | \\U[0-9a-fA-F]{8} | \\[0-3][0-7]{2} | \\. | '' | \"\" """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def _unescaped(text: str, quote: str) -> str:
    """What Spark takes an escape, or two quotes, for."""
    if text[0] != "\\":
        return quote if text[0] == quote else text
    if len(text) == 2:
        kept = text if text[1] in "%_" else text[1]
        return _ESCAPED.get(text[1], kept)
    return chr(int(text[2:], 16)) if text[1] in "uU" else chr(int(text[1:], 8))


_SPARK = re.compile(
    r"""
      (?P<space>   \s+ | --(?:\\\n|[^\r\n])* )
    | (?P<comment> /\* )
    | (?P<string>  [rR]'[^']*' | [rR]"[^"]*" | [xX]'[^']*' | [xX]"[^"]*"
                 | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<quoted>  `(?:[^`]|``)*` )
    | (?P<number>  (?: \d+\.\d* | \.\d+ | \d+ ) (?:[eE][+-]?\d+)? (?:BD|bd|[LSYFDlsyfd])? (?!\w) )
    | (?P<word>    \w+ )
    | (?P<open>    ['"`] )
    | (?P<symbol>  . )
    """,
    re.VERBOSE | re.DOTALL,
)
_POSTGRES = re.compile(
    r"""
      (?P<space>   \s+ | --[^\r\n]* )
    | (?P<comment> /\* )
    | (?P<string>  [eE]'(?:[^'\\]|\\.|'')*' | [bBnNxX]?'(?:[^']|'')*'
                 | (?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?P=tag) )
    | (?P<quoted>  "(?:[^"]|"")*" )
    | (?P<number>  (?: \d+\.\d* | \.\d+ | \d+ ) (?:[eE][+-]?\d+)? (?!\w) )
    | (?P<word>    \w[\w$]* )
    | (?P<open>    ['"] )
    | (?P<symbol>  . )
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {
    "string": TokenKind.STRING,
    "quoted": TokenKind.QUOTED,
    "number": TokenKind.NUMBER,
    "word": TokenKind.WORD,
    "symbol": TokenKind.SYMBOL,
}


def tokenize(sql: str, dialect: str = "spark") -> tuple[Token, ...]:
    """The tokens of one statement, comments and a closing semicolon left out."""
    return _one_statement(sql, all_tokens(sql, dialect))


def split_statements(sql: str, dialect: str = "spark") -> list[str]:
    """The statements of a script, which semicolons part."""
    return [sql[start:end] for start, end in statement_spans(sql, dialect)]


def statement_spans(sql: str, dialect: str = "spark") -> list[tuple[int, int]]:
    """Where the statements of a script begin and end."""
    found, inside = [], list[Token]()
    for token in all_tokens(sql, dialect):
        if not token.is_symbol(";"):
            inside.append(token)
        elif inside:
            found.append((inside[0].start, inside[-1].end))
            inside = []
    return [*found, (inside[0].start, inside[-1].end)] if inside else found


def all_tokens(sql: str, dialect: str) -> list[Token]:
    """The tokens of a text, comments left out."""
    lexemes = _POSTGRES if dialect == "postgres" else _SPARK
    tokens: list[Token] = []
    place = 0
    while place < len(sql):
        match = lexemes.match(sql, place)
        assert match is not None
        group = match.lastgroup or ""
        if group == "comment":
            place = _comment_end(sql, place)
            continue
        if group == "open":
            raise ParseError(
                "a quote is opened here and never closed",
                position=Position.of_span(sql, place, place + 1),
                hint="close it; inside a quoted text write the quote twice",
            )
        if group != "space":
            escapes = dialect != "postgres"
            tokens.append(Token(_KINDS[group], match.group(), place, match.end(), escapes))
        place = match.end()
    return tokens


def _comment_end(sql: str, start: int) -> int:
    """Where a bracketed comment ends; they nest."""
    depth, place = 0, start
    while place < len(sql):
        if sql.startswith("/*", place):
            depth, place = depth + 1, place + 2
        elif sql.startswith("*/", place):
            depth, place = depth - 1, place + 2
            if depth == 0:
                return place
        else:
            place += 1
    raise ParseError(
        "a comment is opened here and never closed",
        position=Position.of_span(sql, start, start + 2),
    )


def _one_statement(sql: str, tokens: list[Token]) -> tuple[Token, ...]:
    while tokens and tokens[-1].is_symbol(";"):
        tokens.pop()
    for token in tokens:
        if token.is_symbol(";"):
            raise ParseError(
                "there is more than one statement in the text",
                position=Position.of_span(sql, token.start, token.end),
                hint="send one statement at a time",
            )
    return tuple(tokens)
