"""Texts of one or several statements with parameters: run one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_trickle.errors import Position, TrickleError
from spark_trickle.statements.text.parameters import Arguments, bound, in_users_text
from spark_trickle.statements.text.tokens import statement_spans


def run(sql: str, args: Arguments, dialect: str, one: Callable[[str], Any]) -> Any:
    """The answer of the last statement. An error says which statement of several it was, and where."""
    sent = bound(sql, args, dialect)
    spans = statement_spans(sent.text, dialect) if ";" in sent.text else []
    answer = None
    try:
        if len(spans) < 2:
            return one(sent.text)
        for number, (start, end) in enumerate(spans, 1):
            try:
                answer = one(sent.text[start:end])
            except TrickleError as error:
                _say_which(error, sent.text, (start, end), f"statement {number} of {len(spans)}")
                raise
    except TrickleError as error:
        in_users_text(error, sql, sent)
        raise
    return answer


def _say_which(error: TrickleError, text: str, span: tuple[int, int], which: str) -> None:
    error.message = f"{which}: {error.message}"
    start, end = span
    position = error.position
    if position is None or position.sql != text[start:end]:
        # A place inside a query is told as it is; otherwise the whole statement is meant.
        error.position = position or Position.of_span(text, start, end)
        return
    lines = position.sql.split("\n")[: position.line - 1]
    at = start + sum(len(line) + 1 for line in lines) + position.column - 1
    error.position = Position.of_span(text, at, at + position.length)
