"""Stream tables that commits fold into, held against their query now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_trickle.delta.fast_path import FastPlan
from spark_trickle.errors import InvariantError
from spark_trickle.maintain.records.behind import behind
from spark_trickle.maintain.records.streams import StreamTable

if TYPE_CHECKING:
    from spark_trickle.maintain.service import StreamTables


def reconcile(service: StreamTables, stream: StreamTable) -> bool:
    """Whether the contents are what the query says; if not, the table is taken out of service.

    One that lacks what others wrote, who keep no stream tables, is made anew.
    """
    if not isinstance(service.followers.refresher.compile(stream).fast_path, FastPlan):
        return True
    if stream.follows and behind(service.followers.refresher.engine.catalog, {stream.uuid}):
        service.refresh(stream.name)
    found = service.verify(stream.name)
    if found:
        what = f"{found.rows.num_rows} rows differ from what the query gives"
        error = InvariantError(what, hint=f"run repair_stream_table({stream.name!r})")
        service.followers.refresher.note_failure(stream, stream.refresh_mode, error)
    return not found
