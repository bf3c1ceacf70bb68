"""The 22 queries: the specification's text with its validation parameters, limits kept.

q15's view is written as a common table expression, and q01's ``day (3)`` as ``day``.
"""

from __future__ import annotations

from importlib import resources

NUMBERS = range(1, 23)


def text(number: int) -> str:
    """The text of a query."""
    return (resources.files(__name__) / f"q{number:02d}.sql").read_text(encoding="utf-8")


def name(number: int) -> str:
    """What a query is called: q01 to q22."""
    return f"q{number:02d}"
