"""Statements of a command or of the shell: run, and their answers shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_trickle.cli import output, streams
from spark_trickle.cli.output import Format

if TYPE_CHECKING:
    from spark_trickle.compat.session import Session
    from spark_trickle.lake import Lake


def answer(
    lake: Lake,
    sql: str,
    session: Session,
    form: Format,
    to: Path | None,
    limit: int | None,
) -> int | None:
    """Run one statement and show what it answers; the rows shown, None where there are none."""
    listed = lake.listing(sql) if session.dialect == "spark" and not session.inside else None
    if listed is not None:
        output.write(listed, form, to)
        return int(listed.num_rows)
    with output.working("running …"):
        found = _fetched(session.statement(sql), limit)
    return _show(found, form, to, limit)


def _fetched(found: Any, limit: int | None) -> Any:
    if not hasattr(found, "toArrow"):
        return found
    if limit is None:
        return found.toArrow()
    from spark_trickle.spark.fetching import first

    return first(found, limit + 1).toArrow()


def _show(found: Any, form: Format, to: Path | None, limit: int | None) -> int | None:
    """Whatever ``lake.sql`` answers; only rows go where a program reads."""
    import pyarrow as pa

    from spark_trickle.maintain.records.history import RefreshReport

    if isinstance(found, pa.Table):
        cut = limit is not None and found.num_rows > limit
        output.write(found.slice(0, limit), form, to, more=cut)
        return int(found.num_rows) if limit is None else min(limit, int(found.num_rows))
    if isinstance(found, RefreshReport):
        streams.show_reports([found], form)
        return 1
    if isinstance(found, str):
        output.text(found.rstrip("\n"))
        return None
    told = _told(found)
    output.text(told) if form is Format.TABLE and to is None else output.note(told)
    return None


def _told(found: Any) -> str:
    if found is None:
        return "done"
    if isinstance(found, list):
        return f"dropped: {', '.join(found)}" if found else "nothing was dropped"
    return f"{found} {'row' if found == 1 else 'rows'}"
