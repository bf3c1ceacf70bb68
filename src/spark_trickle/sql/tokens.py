"""A cursor over the tokens of a statement, for the grammar that sqlglot does not know.

Comments and string literals are already apart, so a keyword inside them is never seen.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from spark_trickle.errors import ParseError, Position

_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)


class _Tokenizer(Spark.Tokenizer):
    # sqlglot keeps the rest of EXPLAIN, SHOW and the like as one string.
    COMMANDS: ClassVar[set[TokenType]] = set()


class Tokens:
    """Reads one statement from left to right."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        try:
            tokens = _Tokenizer(dialect=Spark()).tokenize(sql)
        except TokenError as error:
            raise ParseError(
                "the text cannot be split into SQL tokens",
                position=Position.of_span(sql, 0, 1),
                hint="look for a quote or a comment that is never closed",
            ) from error
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        self._tokens = tokens
        self._index = 0

    @property
    def done(self) -> bool:
        return self._index >= len(self._tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        index = self._index + ahead
        return self._tokens[index] if index < len(self._tokens) else None

    def next(self, what: str) -> Token:
        """The next token; an error that names ``what`` at the end of the statement."""
        token = self.peek()
        if token is None:
            self.fail(f"the statement ends where {what} is expected")
        self._index += 1
        return token

    def looking_at(self, *words: str) -> bool:
        """Whether the next tokens are these keywords."""
        return all(self._is_word(self.peek(i), word) for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Move past these keywords if they come next."""
        if not self.looking_at(*words):
            return False
        self._index += len(words)
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            self.fail(f"{' '.join(words)} is expected here")

    def symbol(self, text: str) -> bool:
        """Move past a punctuation mark if it comes next."""
        token = self.peek()
        if token is None or token.token_type in _QUOTED or token.text != text:
            return False
        self._index += 1
        return True

    def string(self, what: str) -> str:
        token = self.next(what)
        if token.token_type is not TokenType.STRING:
            self.fail(f"{what} is expected here, in single quotes", token)
        return token.text

    def word(self, what: str) -> str:
        """A bare word, in upper case."""
        token = self.next(what)
        if token.token_type in _QUOTED or not token.text.isidentifier():
            self.fail(f"{what} is expected here", token)
        return token.text.upper()

    def name(self, what: str = "a name") -> tuple[str, ...]:
        """A name of one or more parts, each bare or in backticks."""
        parts = [self._name_part(what)]
        while self.symbol("."):
            parts.append(self._name_part(what))
        return tuple(parts)

    def rest(self) -> str:
        """The text from the next token on, unchanged, up to a closing semicolon."""
        token = self.next("a query")
        last = self._tokens[-1]
        self._index = len(self._tokens)
        return self.sql[token.start : last.end + 1]

    def end(self) -> None:
        """Nothing may follow."""
        token = self.peek()
        if token is not None:
            self.fail(f"{token.text!r} is not expected here", token)

    def fail(self, message: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        token = token or self.peek()
        length = len(self.sql)
        span = (token.start, token.end + 1) if token else (max(0, length - 1), length)
        raise ParseError(message, position=Position.of_span(self.sql, *span), hint=hint)

    def _name_part(self, what: str) -> str:
        token = self.next(what)
        if token.token_type is TokenType.STRING or not (
            token.token_type is TokenType.IDENTIFIER or token.text.replace("_", "a").isalnum()
        ):
            self.fail(f"{what} is expected here", token)
        return token.text

    @staticmethod
    def _is_word(token: Token | None, word: str) -> bool:
        return token is not None and token.token_type not in _QUOTED and token.text.upper() == word
