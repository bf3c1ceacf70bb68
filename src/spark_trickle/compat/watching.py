"""pg_trickle's functions and views that show stream tables; none of them starts Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from spark_trickle.compat.functions import FunctionContext, Parameter, PgFunction, rows, scalar
from spark_trickle.compat.names import table_name
from spark_trickle.errors import UserError
from spark_trickle.maintain.records.graph import read_by
from spark_trickle.maintain.records.monitor import StreamTableInfo, staleness
from spark_trickle.maintain.watch.alerts import CRITICAL, OK, WARNING, health
from spark_trickle.maintain.watch.overview import edges

_TIME = pa.timestamp("us", tz="UTC")
_TEXT, _FLAG, _LONG, _REAL = pa.string(), pa.bool_(), pa.int64(), pa.float64()


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _given(_: FunctionContext, given: Mapping[str, Any]) -> str:
    return str(table_name(given["name"]))


def pgt_status(desk: FunctionContext, _: Mapping[str, Any]) -> pa.Table:
    columns = [
        ("name", _TEXT),
        ("status", _TEXT),
        ("refresh_mode", _TEXT),
        ("is_populated", _FLAG),
        ("schedule", _TEXT),
        ("last_refresh_at", _TIME),
        ("staleness_seconds", _REAL),
        ("last_error", _TEXT),
    ]
    return rows(columns, [_status(table) for table in desk.streams.described()])


def _status(table: StreamTableInfo) -> Sequence[Any]:
    return (
        table.name,
        table.status,
        table.refresh_mode,
        table.populated,
        table.schedule,
        _moment(table.last_refresh_at),
        table.staleness,
        table.last_error,
    )


def stream_tables_info(desk: FunctionContext, _: Mapping[str, Any]) -> pa.Table:
    columns = [
        ("pgt_name", _TEXT),
        ("defining_query", _TEXT),
        ("schedule", _TEXT),
        ("refresh_mode", _TEXT),
        ("effective_refresh_mode", _TEXT),
        ("status", _TEXT),
        ("is_populated", _FLAG),
        ("frontier", _TEXT),
        ("last_refresh_at", _TIME),
        ("staleness_seconds", _REAL),
        ("stale", _FLAG),
        ("last_error", _TEXT),
    ]
    records = [
        (
            table.name,
            table.query,
            table.schedule,
            table.refresh_mode,
            table.effective_mode,
            table.status,
            table.populated,
            json.dumps(dict(table.frontier)),
            _moment(table.last_refresh_at),
            table.staleness,
            None if table.target is None else table.staleness > table.target,
            table.last_error,
        )
        for table in desk.streams.described()
    ]
    return rows(columns, records)


def get_refresh_history(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    columns = [
        ("start_time", _TIME),
        ("action", _TEXT),
        ("status", _TEXT),
        ("reason", _TEXT),
        ("rows_inserted", _LONG),
        ("rows_deleted", _LONG),
        ("duration_ms", _REAL),
        ("error_message", _TEXT),
    ]
    reports = desk.streams.history(_given(desk, given))[: given["max_rows"]]
    records = [
        (
            _moment(report.started_at),
            report.effective_mode,
            "FAILED" if report.failed else "COMPLETED",
            report.reason,
            report.rows_inserted,
            report.rows_deleted,
            report.seconds * 1000,
            report.error,
        )
        for report in reports
    ]
    return rows(columns, records)


def get_staleness(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    stream = desk.streams.get(table_name(given["name"]))
    return scalar("get_staleness", staleness(desk.engine.catalog, stream), _REAL)


def explain_st(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    name = _given(desk, given)
    stages = ("normalized", "verdict", "strategy", "fast_path", "delta", "choice")
    stream = desk.streams.get(name)
    names = read_by(desk.engine.catalog, stream)
    frontier = {names[source.uuid]: source.version for source in stream.sources}
    shown = [("defining_query", stream.query), ("frontier", json.dumps(frontier))]
    for stage in stages:
        shown.append((stage, desk.streams.explain_table(stream, stage).strip()))
    return rows([("property", _TEXT), ("value", _TEXT)], shown)


def explain_delta(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    if given["format"] != "text":
        raise UserError(
            f"explain_delta: the format {given['format']!r} is not there",
            hint="EXPLAIN STREAM TABLE has more; the delta itself is text",
        )
    stream = desk.streams.get(table_name(given["name"]))
    text = desk.streams.explain_table(stream, "sql")
    return rows([("explain_delta", _TEXT)], [(line,) for line in text.rstrip("\n").split("\n")])


def dependency_tree(desk: FunctionContext, _: Mapping[str, Any]) -> pa.Table:
    """Every table that is read, and below it those that read it."""
    known = edges(desk.streams.look()[0])
    readers: dict[str, list[str]] = {}
    modes = {edge.reader: edge.refresh_mode for edge in known}
    for edge in known:
        readers.setdefault(edge.source, []).append(edge.reader)
    roots = sorted({edge.source for edge in known} - set(modes))
    records: list[tuple[str, str, str, int, str | None]] = []

    def walk(name: str, depth: int, prefix: str, branch: str) -> None:
        kind = "stream_table" if name in modes else "source_table"
        records.append((f"{prefix}{branch}{name}", name, kind, depth, modes.get(name)))
        below = sorted(readers.get(name, []))
        further = prefix + ("" if not branch else "    " if branch == "└── " else "│   ")
        for i, reader in enumerate(below):
            walk(reader, depth + 1, further, "└── " if i == len(below) - 1 else "├── ")

    for root in roots:
        walk(root, 0, "", "")
    columns = [("tree_line", _TEXT), ("node", _TEXT), ("node_type", _TEXT), ("depth", pa.int32())]
    return rows([*columns, ("refresh_mode", _TEXT)], records)


def list_sources(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    stream = desk.streams.get(table_name(given["name"]))
    streams = {other.uuid for other in desk.streams.all()}
    names = read_by(desk.engine.catalog, stream)
    columns = [("source_table", _TEXT), ("source_type", _TEXT), ("frontier_version", _LONG)]
    records = [
        (names[s.uuid], "STREAM_TABLE" if s.uuid in streams else "TABLE", s.version)
        for s in stream.sources
    ]
    return rows(
        [*columns, ("columns", pa.list_(_TEXT))],
        [
            (*record, [c.name for c in s.bound.columns])
            for record, s in zip(records, stream.sources, strict=True)
        ],
    )


def health_check(desk: FunctionContext, _: Mapping[str, Any]) -> pa.Table:
    words = {OK: "OK", WARNING: "WARN", CRITICAL: "ERROR"}
    found = health(desk.streams.look()[1])
    records = [(h.name, words[h.status], h.reason, h.action) for h in found]
    columns = [("check_name", _TEXT), ("severity", _TEXT), ("detail", _TEXT), ("action", _TEXT)]
    return rows(columns, records)


def quick_health(desk: FunctionContext, _: Mapping[str, Any]) -> pa.Table:
    tables = desk.streams.described()
    found = health(desk.streams.look()[1])
    worst = next((s for s in (CRITICAL, WARNING) if any(h.status == s for h in found)), OK)
    late = [t for t in tables if t.target is not None and t.staleness > t.target]
    columns = [
        ("total_stream_tables", _LONG),
        ("error_tables", _LONG),
        ("suspended_tables", _LONG),
        ("stale_tables", _LONG),
        ("status", _TEXT),
    ]
    counted = [sum(t.status == status for t in tables) for status in ("ERROR", "SUSPENDED")]
    return rows(columns, [(len(tables), *counted, len(late), worst if tables else "EMPTY")])


_NAME = Parameter("name")


def _shown(
    name: str, does: str, run: Any, *parameters: Parameter, relation: bool = False
) -> PgFunction:
    return PgFunction("pgtrickle", name, does, parameters, run, scalar=False, relation=relation)


FUNCTIONS = (
    _shown("pgt_status", "one row for each stream table", pgt_status),
    _shown(
        "stream_tables_info", "a view: all that is known of each", stream_tables_info, relation=True
    ),
    _shown(
        "pgt_stream_tables", "the same as stream_tables_info", stream_tables_info, relation=True
    ),
    _shown(
        "get_refresh_history",
        "its refreshes, newest first",
        get_refresh_history,
        _NAME,
        Parameter("max_rows", (int,), 20),
    ),
    PgFunction(
        "pgtrickle",
        "get_staleness",
        "seconds since its sources changed without it; 0 if they did not",
        (_NAME,),
        get_staleness,
    ),
    _shown(
        "explain_st",
        "plan, verdict, strategy, delta and what the next refresh would do",
        explain_st,
        _NAME,
        Parameter("with_analyze", (bool,), False, "the report of each refresh has its figures"),
    ),
    _shown(
        "explain_delta",
        "the delta as Spark SQL",
        explain_delta,
        _NAME,
        Parameter("format", (str,), "text"),
    ),
    _shown("dependency_tree", "what reads what, as a tree", dependency_tree),
    _shown("list_sources", "what it reads, and up to which version", list_sources, _NAME),
    _shown("health_check", "what is wrong and what to do", health_check),
    _shown("quick_health", "a view: one row for the whole lake", quick_health, relation=True),
)

_VERSIONS = "changes come from the versions of the lake: there are no triggers, buffers or slots"
_ABSENT = {
    "reset_fuse": "there is no fuse: AUTO computes large changes in full",
    "canary_begin": "make a second stream table and compare",
    "canary_diff": "make a second stream table and compare",
    "canary_promote": "use alter_stream_table(query => …)",
    "export_definition": "stream_tables_info has the query and its options",
    "exec_stream_ddl": "CREATE STREAM TABLE and DROP STREAM TABLE are statements here",
    "pause_scheduler": "end the process: `trickle run` may be stopped at any moment",
    "resume_scheduler": "start `trickle run` or lake.scheduler()",
    "drain": "`trickle run` finishes what it computes when it is told to end",
    "set_stream_table_sla": "the schedule says how late it may be",
    "create_refresh_group": "all stream tables of a wave reflect one version",
    "gate_source": "suspend the stream table instead",
    "ungate_source": "resume the stream table instead",
    "advance_watermark": "there are no watermarks",
    "create_watermark_group": "there are no watermarks",
    "snapshot_stream_table": "every version can be read: VERSION AS OF",
    "restore_from_snapshot": "every version can be read: VERSION AS OF",
    "subscribe": "lake.scheduler(on_alert=…) calls a function, a webhook or a command",
    "stream_table_to_publication": "lake.changes(name, before, after) is the change feed",
    "attach_outbox": "lake.changes(name, before, after) is the change feed",
    "rebuild_cdc_triggers": _VERSIONS,
    "convert_buffers_to_unlogged": _VERSIONS,
    "check_cdc_health": _VERSIONS,
    "slot_health": _VERSIONS,
    "change_buffer_sizes": _VERSIONS,
    "trigger_inventory": _VERSIONS,
    "embedding_stream_table": "there are no vectors",
    "setup_self_monitoring": "trickle.refresh_history is a table: query it",
    "explain_dag": "dependency_tree, or `trickle graph`",
    "validate_query": "lake.explain(query, stage='verdict')",
    "recommend_refresh_mode": "lake.recommend(name)",
    "pause_all": "suspend the stream tables one by one",
    "resume_all": "resume the stream tables one by one",
}
ABSENT = tuple(PgFunction("pgtrickle", name, why) for name, why in _ABSENT.items())
