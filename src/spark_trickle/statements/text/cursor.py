"""Reads the tokens of one statement from left to right; stretches of text stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from spark_trickle.errors import ParseError, Position
from spark_trickle.statements.text.tokens import Token, TokenKind, tokenize


@dataclass(frozen=True)
class Name:
    """A name of one or more parts and where it stands."""

    parts: tuple[str, ...]
    start: int
    end: int

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(part.lower() for part in self.parts)

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Span:
    """A stretch of the user's text."""

    start: int
    end: int


class Cursor:
    """A place in the token list of one statement."""

    def __init__(self, sql: str, dialect: str = "spark") -> None:
        self.sql = sql
        self.tokens = tokenize(sql, dialect)
        self.index = 0

    @property
    def done(self) -> bool:
        return self.index >= len(self.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        index = self.index + ahead
        return self.tokens[index] if 0 <= index < len(self.tokens) else None

    def at(self, *words: str) -> bool:
        """Whether these keywords come next."""
        found = (self.peek(i) for i in range(len(words)))
        return all(t is not None and t.word == w for t, w in zip(found, words, strict=True))

    def at_symbol(self, text: str) -> bool:
        token = self.peek()
        return token is not None and token.is_symbol(text)

    def accept(self, *words: str) -> bool:
        if not self.at(*words):
            return False
        self.index += len(words)
        return True

    def accept_symbol(self, text: str) -> bool:
        if not self.at_symbol(text):
            return False
        self.index += 1
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            self.fail(f"{' '.join(words)} is expected here")

    def expect_symbol(self, text: str) -> None:
        if not self.accept_symbol(text):
            self.fail(f"'{text}' is expected here")

    def part(self, what: str) -> str:
        """One part of a name, bare or quoted."""
        token = self.peek()
        if token is None or not token.names:
            self.fail(f"{what} is expected here")
        self.index += 1
        return token.name

    def name(self, what: str = "a table's name") -> Name:
        first = self.index
        parts = [self.part(what)]
        while self.accept_symbol("."):
            parts.append(self.part(what))
        return Name(tuple(parts), self.tokens[first].start, self.tokens[self.index - 1].end)

    def names(self, what: str) -> tuple[str, ...]:
        """``( name, … )``."""
        self.expect_symbol("(")
        found = [self.part(what)]
        while self.accept_symbol(","):
            found.append(self.part(what))
        self.expect_symbol(")")
        return tuple(found)

    def string(self, what: str) -> str:
        token = self.peek()
        if token is None or token.kind is not TokenKind.STRING or token.text[0].isalpha():
            self.fail(f"{what} is expected here, in single quotes")
        self.index += 1
        return token.value

    def if_not_exists(self, or_replace: bool) -> bool:
        """Whether IF NOT EXISTS stands here."""
        if or_replace and self.at("IF", "NOT", "EXISTS"):
            self.fail(
                "OR REPLACE and IF NOT EXISTS do not go together",
                hint="OR REPLACE makes it anew, IF NOT EXISTS leaves what is there: say one of them",
            )
        return self.accept("IF", "NOT", "EXISTS")

    def skip_group(self) -> None:
        """Move past a bracketed group, brackets included."""
        opened = self.peek()
        depth = 0
        while (token := self.peek()) is not None:
            self.index += 1
            if token.is_symbol("("):
                depth += 1
            elif token.is_symbol(")"):
                depth -= 1
                if depth == 0:
                    return
        self.fail("a bracket is opened here and never closed", opened)

    def until(self, what: str, stop: Callable[[Cursor], bool]) -> Span:
        """The text up to where ``stop`` holds outside all brackets, or the end."""
        first = self.peek()
        while not self.done and not stop(self):
            if self.at_symbol("("):
                self.skip_group()
            else:
                self.index += 1
        last = self.peek(-1)
        if first is None or last is None or last.end <= first.start:
            self.fail(f"{what} is expected here", first)
        return Span(first.start, last.end)

    def rest(self, what: str) -> Span:
        return self.until(what, lambda _: False)

    def text(self, span: Span) -> str:
        return self.sql[span.start : span.end]

    def end(self) -> None:
        token = self.peek()
        if token is not None:
            self.fail(f"{token.text} is not expected here")

    def fail(self, message: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        token = token or self.peek()
        size = len(self.sql)
        span = (token.start, token.end) if token else (max(0, size - 1), size)
        if token is None and not message.startswith("a "):
            message = f"the statement ends too early: {message}"
        raise ParseError(message, position=Position.of_span(self.sql, *span), hint=hint)
