"""Why something is left to Spark."""

from __future__ import annotations

import re

from sqlglot import exp


class Unproven(Exception):
    """No rule gives Spark's answer for certain; ``code`` is stable, the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def unproven(node: exp.Expr, reason: str) -> Unproven:
    return Unproven("EXPRESSION", f"{readable(node)}: {reason}")


def readable(node: exp.Expr) -> str:
    """An expression as text for messages, without the numbers of its columns."""
    text = re.sub(r"`([^`]*)#\d+`", r"\1", node.sql("spark"))
    return text if len(text) <= 80 else text[:77] + "..."
