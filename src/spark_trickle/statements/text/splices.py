"""Put other names in the place of table names, and know where each character came from.

Law: apart from table names (and references that begin with schema.table) not one character of
the user's text changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_trickle.statements.text.names import TableReference, stretch


@dataclass(frozen=True)
class Splice:
    """Replace ``sql[start:end]``."""

    start: int
    end: int
    text: str


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def splice_names(
    sql: str,
    references: tuple[TableReference, ...],
    replacement: Callable[[TableReference], str | None],
    window: tuple[int, int],
    prefixes: dict[tuple[str, ...], str] | None = None,
) -> tuple[Splice, ...]:
    """The splices that put ``replacement(reference)`` (None: leave it) in place of the names.

    ``prefixes``: more two-part names whose ``schema.table.column`` becomes ``alias.column``.
    """
    splices: list[Splice] = []
    prefixes = dict(prefixes or {})
    lasts = [r.name.key[-1] for r in references if r.alias_at is not None]
    for reference in references:
        text = replacement(reference)
        if text is None:
            continue
        splices.append(Splice(reference.name.start, reference.clause_end, text))
        if reference.alias_at is None:
            continue
        # Two tables of one name from two schemas need two aliases.
        clash = lasts.count(reference.name.key[-1]) > 1 and len(reference.name.parts) > 1
        alias = str(reference.name) if clash else reference.name.parts[-1]
        splices.append(Splice(reference.alias_at, reference.alias_at, f" AS {quoted(alias)}"))
        if len(reference.name.parts) > 1:
            prefixes[reference.name.key] = quoted(alias)
    if prefixes:
        splices += _prefix_splices(sql, references, prefixes, window)
    return tuple(sorted(splices, key=lambda s: (s.start, s.end)))


def _prefix_splices(
    sql: str,
    references: tuple[TableReference, ...],
    prefixes: dict[tuple[str, ...], str],
    window: tuple[int, int],
) -> list[Splice]:
    """``schema.table.column`` becomes ``alias.column``."""
    tokens = stretch(sql, *window)
    tables = {r.name.start for r in references}
    splices = []
    for i in range(len(tokens) - 4):
        first, dot, second, dot2 = tokens[i : i + 4]
        after_dot = i > 0 and tokens[i - 1].is_symbol(".")
        if after_dot or not (first.names and dot.is_symbol(".") and second.names):
            continue
        alias = prefixes.get((first.name.lower(), second.name.lower()))
        if alias is not None and dot2.is_symbol(".") and first.start not in tables:
            splices.append(Splice(first.start, second.end, alias))
    return splices


@dataclass(frozen=True)
class Spliced:
    """Text to send, and the way back from a place in it to the user's text."""

    text: str
    origins: tuple[tuple[int, int, int], ...]
    """(start in text, end in text, start in the user's text) of every verbatim stretch."""

    def origin(self, place: int) -> int | None:
        """The place in the user's text that ``text[place]`` came from; None: it is ours."""
        for start, end, source in self.origins:
            if start <= place < end:
                return source + place - start
        return None


class TextBuilder:
    """Glues stretches of the user's text and our own, and remembers which is which."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._parts: list[str] = []
        self._size = 0
        self._origins: list[tuple[int, int, int]] = []

    def own(self, text: str) -> TextBuilder:
        self._parts.append(text)
        self._size += len(text)
        return self

    def user(self, start: int, end: int, splices: tuple[Splice, ...] = ()) -> TextBuilder:
        """``sql[start:end]`` with those of the splices that lie inside."""
        place = start
        for splice in splices:
            if splice.start < start or splice.end > end:
                continue
            self._verbatim(place, splice.start)
            self.own(splice.text)
            place = splice.end
        self._verbatim(place, end)
        return self

    def _verbatim(self, start: int, end: int) -> None:
        if end > start:
            self._origins.append((self._size, self._size + end - start, start))
            self.own(self._sql[start:end])

    def build(self) -> Spliced:
        return Spliced("".join(self._parts), tuple(self._origins))
