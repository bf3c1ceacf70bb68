"""A query's text at a given moment: every call that reads the clock becomes a constant."""

from __future__ import annotations

from collections.abc import Sequence

from spark_trickle.ir.temporal import DAYS, MOMENTS, WALL
from spark_trickle.statements.text.tokens import Token, tokenize

_BARE = ("current_date", "current_timestamp")
"""What reads the clock without parentheses, too."""


def at_moment(sql: str, micros: int) -> str:
    """The text with a moment (microseconds since 1970) in place of the clock; the day and the wall
    time of it are those of the session's zone."""
    moment = f"timestamp_micros({micros}L)"
    constants = dict.fromkeys(MOMENTS, moment)
    constants |= dict.fromkeys(DAYS, f"CAST({moment} AS DATE)")
    constants |= dict.fromkeys(WALL, f"CAST({moment} AS TIMESTAMP_NTZ)")
    tokens = tokenize(sql)
    parts, done = [], 0
    for place, token in enumerate(tokens):
        end = _call_end(tokens, place)
        if end is not None:
            parts += [sql[done : token.start], constants[token.word.lower()]]
            done = end
    return "".join([*parts, sql[done:]])


def _call_end(tokens: Sequence[Token], place: int) -> int | None:
    """Where the call that begins with a token ends; None if it does not read the clock."""
    name = tokens[place].word.lower()
    if name not in (*MOMENTS, *DAYS, *WALL):
        return None
    before = tokens[place - 1] if place else None
    if before is not None and (before.is_symbol(".") or before.word == "AS"):
        return None
    following = tokens[place + 1 : place + 3]
    if len(following) == 2 and following[0].is_symbol("(") and following[1].is_symbol(")"):
        return following[1].end
    return tokens[place].end if name in _BARE else None
