"""What users see of stream tables: one record each, and the same as relations for SQL."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.fast_path import NoFastPath
from spark_trickle.display import html_facts, html_rows, plural
from spark_trickle.errors import NotFoundError, SourceChangedError
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import ACTIVE, Dependency, StreamTable
from spark_trickle.sql.bind.clauses.limits import limit_of
from spark_trickle.sql.dialects import TrickleSpark
from spark_trickle.storage.catalog.catalog import Catalog


@dataclass(frozen=True)
class Difference:
    """What ``verify`` found: rows by which the contents differ from the query at the frontier."""

    name: str
    rows: pa.Table
    """``__weight`` > 0: missing in the contents; < 0: should not be there. At most 1,000 rows."""
    total: int = 0
    """Rows of the contents."""

    def __bool__(self) -> bool:
        return bool(self.rows.num_rows)

    def __str__(self) -> str:
        """``equal (n rows)``, or the rows that differ."""
        if not self:
            return f"{self.name}: equal ({plural(self.total, 'row')})"
        shown = [_told(row) for row in self.rows.slice(0, 20).to_pylist()]
        more = self.rows.num_rows - len(shown)
        shown += [f"  … and {more:,} more"] if more else []
        told = f"differs from its query in {plural(self.rows.num_rows, 'row')}"
        return "\n".join([f"{self.name}: {told}", *shown])

    def __repr__(self) -> str:
        return f"Difference({self})"

    def _repr_html_(self) -> str:
        title = str(self).split("\n")[0]
        if not self:
            return html_facts(title, [])
        rows = [list(row.values()) for row in self.rows.slice(0, 100).to_pylist()]
        return html_rows(title, self.rows.column_names, rows)


def _told(row: dict[str, Any]) -> str:
    """A row that differs, in words."""
    weight = int(row.pop("__weight"))
    what = "is missing" if weight > 0 else "should not be there"
    values = ", ".join(f"{k}={'NULL' if v is None else repr(v)}" for k, v in row.items())
    return f"  {what}: {values}" + (f" ({abs(weight)} times)" if abs(weight) > 1 else "")


@dataclass(frozen=True)
class StreamTableInfo:
    """A stream table as ``lake.stream_tables()`` and ``trickle.stream_tables`` show it."""

    name: str
    query: str
    schedule: str | None
    refresh_mode: str
    effective_mode: str | None
    """Of the newest refresh; None before the first."""
    status: str
    populated: bool
    frontier: Mapping[str, int]
    staleness: float
    """Seconds for which a change of a source has been waiting; 0 when there is none."""
    is_topk: bool
    topk_limit: int | None
    topk_order_by: str | None
    sources: Sequence[str]
    dependents: Sequence[str]
    last_refresh_at: float | None
    last_error: str | None
    target: float | None = None
    """The seconds by which the contents may be late; None when no schedule says."""
    pending_rows: int | None = 0
    """Changed rows of its sources that wait; None where the catalog cannot tell any more."""
    pending_versions: int = 0
    next_due: float | None = None
    """When the scheduler may refresh it next, provided that something changes."""
    lease_holder: str | None = None
    """Who is refreshing it."""
    fast_path: bool = False
    """Whether commits fold their changes into it."""
    fast_path_reason: str = ""
    fast_path_plan: str | None = None
    """What is computed of a changed row and of a group, if the query allows it."""
    data_time: float | None = None
    """When the version was committed that the contents are known to be right at: the lake's newest, or
    the frontier's if a change waits; no later than the clock of temporal filters. None: not filled."""

    def __repr__(self) -> str:
        late = f"{self.staleness:.0f} s behind" if self.staleness else "up to date"
        ran = "" if self.effective_mode is None else f", ran {self.effective_mode}"
        reads = ", ".join(self.sources)
        return (
            f"StreamTableInfo({self.name}: {self.refresh_mode}{ran}, {self.status}, {late}; "
            f"reads {reads})"
        )

    def _repr_html_(self) -> str:
        return html_facts(f"{self.name}: {self.status}", vars(self).items())


def describe(
    catalog: Catalog,
    stream: StreamTable,
    known: Sequence[StreamTable],
    compiled: CompiledQuery | None,
    newest: RefreshReport | None,
    *,
    target: float | None,
    pending_rows: int | None,
    pending_versions: int,
    next_due: float | None,
    lease_holder: str | None,
    refused: NoFastPath | None = None,
) -> StreamTableInfo:
    """The record for people; ``compiled`` is None when the query no longer fits its sources."""
    names = graph.read_by(catalog, stream)
    unseen = _unseen(catalog, stream)
    return StreamTableInfo(
        stream.name,
        stream.query,
        stream.schedule,
        stream.refresh_mode,
        newest.effective_mode if newest is not None else None,
        stream.status,
        stream.populated,
        {names[source.uuid]: source.version for source in stream.sources},
        _waiting(catalog, unseen),
        *_top(compiled),
        [names[source.uuid] for source in stream.sources],
        [table.name for table in graph.dependents(known, stream.uuid)],
        newest.started_at if newest is not None else None,
        stream.last_error,
        target,
        pending_rows,
        pending_versions,
        next_due,
        lease_holder,
        *_fast_path(stream, compiled, refused),
        _data_time(catalog, stream, unseen),
    )


def _fast_path(
    stream: StreamTable, compiled: CompiledQuery | None, refused: NoFastPath | None
) -> tuple[bool, str, str | None]:
    """Whether commits fold into a stream table, why, and by which plan."""
    if compiled is None:
        return False, "QUERY: it no longer fits its sources", None
    plan = compiled.fast_path
    if isinstance(plan, NoFastPath):
        return False, f"{plan.code}: {plan.reason}", None
    if stream.status != ACTIVE:
        return False, f"{stream.status}: it follows no commit", str(plan)
    if refused is not None:
        return False, f"{refused.code}: {refused.reason}", str(plan)
    if stream.refresh_mode == "IMMEDIATE":
        return True, "IMMEDIATE: every commit folds its changes into the groups", str(plan)
    if stream.fast_path:
        return True, "ASKED: every commit folds its changes into the groups", str(plan)
    hint = f"ALTER STREAM TABLE {stream.name} SET (fast_path = true)"
    return False, f"NOT_ASKED: it is refreshed as its mode says; {hint}", str(plan)


def _top(compiled: CompiledQuery | None) -> tuple[bool, int | None, str | None]:
    """Whether it is a TopK, LIMIT and ORDER BY. LIMIT 0 is one too, though no plan is left of it."""
    if compiled is None:
        return False, None, None
    tree = compiled.parsed.tree
    order = tree.args.get("order")
    top = compiled.topk
    limit = top.limit if top is not None else None
    if top is None and order is not None and limit_of(tree) == 0:
        limit = 0
    if limit is None or order is None:
        return limit is not None, limit, None
    return True, limit, ", ".join(key.sql(TrickleSpark) for key in order.expressions)


def staleness(catalog: Catalog, stream: StreamTable) -> float:
    """How long the oldest change that the contents do not reflect has been there."""
    return _waiting(catalog, _unseen(catalog, stream))


def _unseen(catalog: Catalog, stream: StreamTable) -> int | None:
    """The version of the frontier after which a source changed; None if none has."""
    behind = (source.version for source in stream.sources if _changed_since(catalog, source))
    return min(behind, default=None)


def _waiting(catalog: Catalog, unseen: int | None) -> float:
    if unseen is None:
        return 0.0
    found = _snapshot_time(catalog, "WHERE snapshot_id > ? ORDER BY snapshot_id", unseen)
    return 0.0 if found is None else max(0.0, time.time() - found)


def _data_time(catalog: Catalog, stream: StreamTable, unseen: int | None) -> float | None:
    if not stream.populated:
        return None
    if unseen is None:
        found = _snapshot_time(catalog, "ORDER BY snapshot_id DESC")
    else:
        found = _snapshot_time(catalog, "WHERE snapshot_id = ?", unseen)
    if found is None or stream.clock is None:
        return found
    return min(found, stream.clock / 1e6)


def _snapshot_time(catalog: Catalog, which: str, *values: int) -> float | None:
    with catalog.reading() as connection:
        rows = connection.execute(
            f"SELECT snapshot_time FROM ducklake_snapshot {which} LIMIT 1", values
        )
    return moment_of(rows[0][0]) if rows else None


def _changed_since(catalog: Catalog, source: Dependency) -> bool:
    table = catalog.find(source.uuid)
    try:
        return table is None or not catalog.changes(table, source.version).empty
    except (SourceChangedError, NotFoundError):
        # What cannot be told apart from a change counts as one.
        return True


def moment_of(moment: str | datetime) -> float:
    """A time of the catalog in seconds."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_TABLE = pa.schema(
    [
        ("name", pa.string()),
        ("query", pa.string()),
        ("schedule", pa.string()),
        ("refresh_mode", pa.string()),
        ("effective_mode", pa.string()),
        ("status", pa.string()),
        ("populated", pa.bool_()),
        ("frontier", pa.map_(pa.string(), pa.int64())),
        ("staleness", pa.float64()),
        ("is_topk", pa.bool_()),
        ("topk_limit", pa.int64()),
        ("topk_order_by", pa.string()),
        ("sources", pa.list_(pa.string())),
        ("dependents", pa.list_(pa.string())),
        ("last_refresh_at", pa.timestamp("us", "UTC")),
        ("last_error", pa.string()),
        ("target", pa.float64()),
        ("pending_rows", pa.int64()),
        ("pending_versions", pa.int64()),
        ("next_due", pa.timestamp("us", "UTC")),
        ("lease_holder", pa.string()),
        ("fast_path", pa.bool_()),
        ("fast_path_reason", pa.string()),
        ("fast_path_plan", pa.string()),
        ("data_time", pa.timestamp("us", "UTC")),
    ]
)
_VERSIONS = pa.struct([("before", pa.int64()), ("after", pa.int64())])
_HISTORY = pa.schema(
    [
        ("name", pa.string()),
        ("started_at", pa.timestamp("us", "UTC")),
        ("asked_mode", pa.string()),
        ("effective_mode", pa.string()),
        ("reason", pa.string()),
        ("sources", pa.map_(pa.string(), _VERSIONS)),
        ("version", pa.int64()),
        ("rows_inserted", pa.int64()),
        ("rows_deleted", pa.int64()),
        ("rows_read", pa.int64()),
        ("bytes_read", pa.int64()),
        ("delta_rows", pa.map_(pa.string(), pa.int64())),
        ("source_rows", pa.int64()),
        ("spark_queries", pa.int64()),
        ("engine", pa.string()),
        ("seconds", pa.float64()),
        ("phases", pa.map_(pa.string(), pa.float64())),
        ("error", pa.string()),
        ("refresh_id", pa.string()),
        ("clock", pa.struct([(end, pa.timestamp("us", "UTC")) for end in ("before", "after")])),
    ]
)


def tables_relation(tables: Sequence[StreamTableInfo]) -> pa.Table:
    """``trickle.stream_tables``"""
    rows = [
        {
            **vars(table),
            "frontier": list(table.frontier.items()),
            "last_refresh_at": _moment(table.last_refresh_at),
            "next_due": _moment(table.next_due),
            "data_time": _moment(table.data_time),
        }
        for table in tables
    ]
    return pa.Table.from_pylist(rows, _TABLE)


def history_relation(reports: Sequence[RefreshReport]) -> pa.Table:
    """``trickle.refresh_history``"""
    rows = [
        {
            **vars(report),
            "started_at": _moment(report.started_at),
            "sources": [
                (name, {"before": before, "after": after})
                for name, (before, after) in report.sources.items()
            ],
            "delta_rows": list(report.delta_rows.items()),
            "phases": list(report.phases.items()),
            "clock": None if report.clock is None else _clocks(*report.clock),
        }
        for report in reports
    ]
    return pa.Table.from_pylist(rows, _HISTORY)


def _clocks(before: str | None, after: str) -> dict[str, datetime | None]:
    known = None if before is None else datetime.fromisoformat(before)
    return {"before": known, "after": datetime.fromisoformat(after)}


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
