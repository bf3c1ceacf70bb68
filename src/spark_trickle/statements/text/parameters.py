"""Parameters of a statement: ``:name`` and ``?``, each bound to one typed literal.

Law: a marker is found among tokens, never inside a text, a name or a comment, and what takes its
place is one expression whose type and value are those of what was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_trickle.errors import BindError, Position, TrickleError, UserError, suggestion
from spark_trickle.statements.text.constants import literal
from spark_trickle.statements.text.splices import Splice, Spliced, TextBuilder
from spark_trickle.statements.text.tokens import Token, TokenKind, all_tokens

_MARK = re.compile(r":\w|\?")
Arguments = Mapping[str, Any] | Sequence[Any] | None
E = TypeVar("E", bound=TrickleError)


@dataclass(frozen=True)
class Marker:
    """``name`` is None for ``?``."""

    name: str | None
    start: int
    end: int


def bound(sql: str, args: Arguments, dialect: str = "spark") -> Spliced:
    """``sql`` with a literal in the place of every marker; BindError where they do not fit."""
    # PostgreSQL has operators that are written with ?.
    asked = args is not None or dialect == "spark"
    found = markers(all_tokens(sql, dialect)) if asked and _MARK.search(sql) else []
    values = _values(sql, found, _checked(args))
    splices = tuple(
        Splice(m.start, m.end, _literal(sql, m, value, dialect))
        for m, value in zip(found, values, strict=True)
    )
    return TextBuilder(sql).user(0, len(sql), splices).build()


def markers(tokens: Sequence[Token]) -> list[Marker]:
    """The markers among tokens, in order."""
    found, types = [], 0
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        after = tokens[i + 1] if i + 1 < len(tokens) else None
        if token.is_symbol("<") and before is not None:
            types += bool(types) or before.word in ("STRUCT", "ARRAY", "MAP")
        elif token.is_symbol(">"):
            types = max(0, types - 1)
        elif token.is_symbol("?"):
            found.append(Marker(None, token.start, token.end))
        elif after is not None and not types and _names(before, token, after):
            found.append(Marker(after.text, token.start, after.end))
    return found


def _names(before: Token | None, colon: Token, after: Token) -> bool:
    """Whether ``:word`` is a marker, and not a cast (``x::int``) or a path (``value:field``)."""
    if not colon.is_symbol(":") or after.kind is not TokenKind.WORD or after.start != colon.end:
        return False
    glued = before is not None and before.end == colon.start
    return not (glued and before is not None and (before.names or before.text in ":])"))


def _checked(args: Arguments) -> Mapping[str, Any] | list[Any]:
    if args is None:
        return []
    if isinstance(args, Mapping):
        wrong = [name for name in args if not isinstance(name, str)]
        if wrong:
            raise UserError(f"names of parameters are text, not {type(wrong[0]).__name__}")
        return args
    if isinstance(args, str | bytes | bytearray) or not isinstance(args, Sequence):
        raise UserError(
            f"args must be a dict or a list, not {type(args).__name__}",
            hint='{"name": value} for :name, [value, …] for ?',
        )
    return list(args)


def _values(sql: str, found: list[Marker], args: Mapping[str, Any] | list[Any]) -> list[Any]:
    if isinstance(args, Mapping):
        values = [_named(sql, marker, args) for marker in found]
        _all_used(found, args)
        return values
    for marker in found:
        if marker.name is not None:
            raise _lacks(sql, marker, f'give args as a dict: {{"{marker.name}": value}}')
    if len(found) > len(args):
        told = f"there are {len(found)} parameters and {len(args)} values"
        raise _lacks(sql, found[len(args)], told)
    if len(args) > len(found):
        raise UserError(f"there are {len(args)} values, but {len(found)} parameters")
    return list(args)


def _all_used(found: list[Marker], args: Mapping[str, Any]) -> None:
    """Every argument has its marker: a name that is not used is misspelt."""
    known = {marker.name for marker in found if marker.name}
    for name in args:
        if name not in known:
            raise UserError(f"there is no parameter :{name}", hint=suggestion(name, known))


def _named(sql: str, marker: Marker, args: Mapping[str, Any]) -> Any:
    if marker.name is None:
        raise _lacks(sql, marker, "give args as a list, or write :name")
    if marker.name not in args:
        hint = suggestion(marker.name, args) or f'give args={{"{marker.name}": value}}'
        raise _lacks(sql, marker, hint)
    return args[marker.name]


def _lacks(sql: str, marker: Marker, hint: str) -> BindError:
    shown = "?" if marker.name is None else f":{marker.name}"
    position = Position.of_span(sql, marker.start, marker.end)
    return BindError(f"the parameter {shown} has no value", position=position, hint=hint)


def _literal(sql: str, marker: Marker, value: Any, dialect: str) -> str:
    try:
        return literal(value, dialect)
    except UserError as error:
        position = Position.of_span(sql, marker.start, marker.end)
        raise BindError(error.message, position=position, hint=error.hint) from None


def in_users_text(error: E, sql: str, sent: Spliced) -> E:
    """The error with its place in the text that the user gave."""
    position = error.position
    if position is None or position.sql != sent.text or sql == sent.text:
        return error
    lines = sent.text.split("\n")[: position.line - 1]
    start = sum(len(line) + 1 for line in lines) + position.column - 1
    places = [sent.origin(place) for place in range(start, start + position.length)]
    known = [place for place in places if place is not None]
    if known:
        error.position = Position.of_span(sql, known[0], max(known) + 1)
    else:  # a literal of ours is at fault: the marker before which the text ends
        before = [o for o in sent.origins if o[1] <= start]
        at = before[-1][2] + before[-1][1] - before[-1][0] if before else 0
        error.position = Position.of_span(sql, at, at + 1)
    return error


@contextmanager
def told_in(sql: str, sent: Spliced) -> Iterator[None]:
    """Errors in what was sent have their places in the text that the user gave."""
    try:
        yield
    except TrickleError as error:
        in_users_text(error, sql, sent)
        raise
