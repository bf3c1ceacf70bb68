"""Names of views in a session: its own, asked for hints only, and ours, which go with the session."""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import SparkSession

OWN = "__trickle_"
"""Names of our own views begin so."""


def has_view(session: SparkSession, name: str) -> bool:
    """Whether the session has a view or table of its own by this name."""
    try:
        return bool(session.catalog.tableExists(name))
    except Exception:  # a question for a hint must not hide the error that it is for
        return False


def view_names(session: SparkSession) -> list[str]:
    """The session's own views."""
    try:
        shown = session.sql("SHOW VIEWS").toArrow().column("viewName").to_pylist()
    except Exception:  # as above
        return []
    return [name for name in shown if not name.startswith(OWN)]


def drop_view(session: SparkSession, name: str) -> None:
    """Drop a view of ours; a session that was stopped has none."""
    with suppress(Exception):
        session.catalog.dropTempView(name)
