"""SQL text and the places in it that errors and notices point at."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.errors import BindError, Position


@dataclass(frozen=True)
class Text:
    """The text a tree was parsed from."""

    sql: str

    def position(self, node: exp.Expr | None) -> Position | None:
        """Where a node stands: from its first to its last token that has a position."""
        if node is None:
            return None
        spans = [
            (found.meta["start"], found.meta["end"])
            for found in node.walk()
            if "start" in found.meta
        ]
        if not spans:
            return None
        start, end = min(spans)[0], max(span[1] for span in spans) + 1
        return Position.of_span(self.sql, start, min(end, len(self.sql)))

    def error(self, node: exp.Expr | None, message: str, hint: str | None = None) -> BindError:
        """A BindError that points at a node."""
        return BindError(message, position=self.position(node), hint=hint)
