"""pg_trickle's functions that make, change and refresh stream tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_trickle.compat.functions import FunctionContext, Parameter, PgFunction, scalar
from spark_trickle.compat.names import table_name
from spark_trickle.errors import TrickleError, UserError
from spark_trickle.maintain.define.definition import Definition
from spark_trickle.maintain.records.monitor import staleness
from spark_trickle.maintain.records.streams import SUSPENDED

_AGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_WORDS = {
    "sec": "s",
    "second": "s",
    "min": "m",
    "minute": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
}

_CHANGES = "changes come from the versions of the lake, not from triggers or the log"
_FILES = "contents are always tables of the lake"
_REFUSED = (
    Parameter("diamond_consistency", (str,), None, "all tables of a wave reflect one version"),
    Parameter("diamond_schedule_policy", (str,), None, "all tables of a wave reflect one version"),
    Parameter("cdc_mode", (str,), None, _CHANGES),
    Parameter(
        "append_only", (bool,), False, "whether rows were only added is known from the metadata"
    ),
    Parameter("pooler_compatibility_mode", (bool,), False, "there is no connection pooler"),
    Parameter("partition_by", (str,), None, "tables are sorted by their key and not partitioned"),
    Parameter("max_differential_joins", (int,), None, "AUTO chooses by measured cost"),
    Parameter("max_delta_fraction", (float, int), None, "AUTO chooses by measured cost"),
    Parameter("output_distribution_column", (str,), None, "there is no Citus"),
    Parameter("temporal", (bool,), False, "every version of a table can be read: VERSION AS OF"),
    Parameter("storage_backend", (str,), None, _FILES),
    Parameter("sink", (str,), None, _FILES),
    Parameter("ducklake_sink_path", (str,), None, _FILES),
    Parameter("ducklake_sink_table_id", (int,), None, _FILES),
)
_CREATE = (
    Parameter("name"),
    Parameter("query"),
    Parameter("schedule", (str,), "calculated"),
    Parameter("refresh_mode", (str,), "AUTO"),
    Parameter("initialize", (bool,), True),
    *_REFUSED,
)
_ALTER = (
    Parameter("name"),
    Parameter("query", (str,), None),
    Parameter("schedule", (str,), None),
    Parameter("refresh_mode", (str,), None),
    Parameter("status", (str,), None),
    *(replace(p, default=None) for p in _REFUSED[:5]),
    Parameter("tier", (str,), None, "the schedule says how often"),
    Parameter("fuse", (str,), None, "AUTO computes large changes in full"),
    Parameter("fuse_ceiling", (int,), None, "AUTO computes large changes in full"),
    Parameter("fuse_sensitivity", (int,), None, "AUTO computes large changes in full"),
    *(replace(p, default=None) for p in _REFUSED[5:8]),
    Parameter("post_refresh_action", (str,), None, "there are no indexes to look after"),
    Parameter("reindex_drift_threshold", (float, int), None, "there are no indexes to look after"),
    *(replace(p, default=None) for p in _REFUSED[11:]),
)


def _definition(given: Mapping[str, Any]) -> Definition:
    mode = given["refresh_mode"].upper()
    return Definition(
        table_name(given["name"]),
        given["query"].strip().rstrip(";"),
        "postgres",
        None if mode == "IMMEDIATE" else given["schedule"],
        mode,
        given["initialize"],
    )


def _void(function: str) -> pa.Table:
    return scalar(function, None, pa.string())


def _creates(
    function: str, **options: bool
) -> Callable[[FunctionContext, Mapping[str, Any]], pa.Table]:
    def run(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
        desk.streams.create(_definition(given), **options)
        return _void(function)

    return run


def bulk_create(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    """All or none: when one cannot be made, those made before it are dropped again."""
    known = {parameter.name: parameter for parameter in _CREATE}
    made: list[str] = []
    for index, wanted in enumerate(given["definitions"]):
        name = wanted.get("name", "?") if isinstance(wanted, dict) else "?"
        try:
            made.append(_created(desk, wanted, known))
        except TrickleError as error:
            for done in reversed(made):
                with suppress(TrickleError):
                    desk.streams.drop(table_name(done))
            raise UserError(
                f"bulk_create: definition {index} ({name}): {error.message}", hint=error.hint
            ) from error
    answer = [{"name": name, "status": "created"} for name in made]
    return scalar("bulk_create", json.dumps(answer), pa.string())


def _created(desk: FunctionContext, wanted: Any, known: Mapping[str, Parameter]) -> str:
    if not isinstance(wanted, dict):
        raise UserError("an object with name and query is needed")
    from spark_trickle.compat.functions import FunctionCall, bound

    function = PgFunction("pgtrickle", "bulk_create", "", tuple(known.values()))
    definition = _definition(bound(function, FunctionCall("pgtrickle", "bulk_create", (), wanted)))
    desk.streams.create(definition)
    return str(wanted["name"])


def alter_stream_table(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    _alter(desk, given["name"], given)
    return _void("alter_stream_table")


def _alter(desk: FunctionContext, name: str, given: Mapping[str, Any]) -> None:
    status = given.get("status")
    desk.streams.alter(
        table_name(name),
        query=given.get("query"),
        schedule=given.get("schedule"),
        refresh_mode=given.get("refresh_mode"),
        status=status.upper() if status else None,
        dialect="postgres" if given.get("query") else None,
    )


def bulk_alter(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    unknown = set(given["params"]) - {"schedule", "refresh_mode", "status", "query"}
    if unknown:
        raise UserError(f"bulk_alter_stream_tables: {', '.join(sorted(unknown))} cannot be changed")
    for name in given["names"]:
        desk.streams.get(table_name(name))
    for name in given["names"]:
        _alter(desk, name, given["params"])
    return scalar("bulk_alter_stream_tables", len(given["names"]), pa.int32())


def drop_stream_table(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    desk.streams.drop(table_name(given["name"]), cascade=given["cascade"])
    return _void("drop_stream_table")


def bulk_drop(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    for name in given["names"]:
        desk.streams.get(table_name(name))
    for name in given["names"]:
        desk.streams.drop(table_name(name))
    return scalar("bulk_drop_stream_tables", len(given["names"]), pa.int32())


def refresh_stream_table(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    desk.streams.refresh(table_name(given["name"]))
    return _void("refresh_stream_table")


def refresh_if_stale(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    """Whether it had to be refreshed."""
    stream = desk.streams.get(table_name(given["name"]))
    limit = seconds(given["max_age"])
    stale = not stream.populated or staleness(desk.engine.catalog, stream) > limit
    if stale:
        desk.streams.refresh(table_name(given["name"]))
    return scalar("refresh_if_stale", stale, pa.bool_())


def seconds(interval: str) -> float:
    """``5 min``, ``1 hour 30 min``, ``00:05:00``: an interval's length."""
    text = interval.strip().lower()
    if re.fullmatch(r"\d+:\d+(:\d+(\.\d+)?)?", text):
        parts = [float(part) for part in text.split(":")]
        return sum(n * unit for n, unit in zip(parts, (3600.0, 60.0, 1.0), strict=False))
    total, place = 0.0, 0
    while place < len(text):
        found = _AGE.match(text, place)
        unit = None if found is None else found[2].rstrip("s") if found[2] != "s" else "s"
        unit = _WORDS.get(unit, unit) if unit is not None else None
        if found is None or unit not in _UNITS:
            raise UserError(f"{interval!r} is not an interval", hint="such as '5 min' or '30 s'")
        total += float(found[1]) * _UNITS[unit]
        place = found.end()
    return total


def write_and_refresh(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    name = table_name(given["name"])
    desk.streams.get(name)
    desk.run(given["sql"])
    desk.streams.refresh(name)
    return _void("write_and_refresh")


def resume_stream_table(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    name = table_name(given["name"])
    if desk.streams.get(name).status == SUSPENDED:
        desk.streams.alter(name, status="ACTIVE")
    return _void("resume_stream_table")


def repair_stream_table(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    report = desk.streams.repair(str(table_name(given["name"])))
    count = desk.engine.catalog.scan(table_name(given["name"])).rows
    told = f"{report.name} was built anew: {count} rows"
    return scalar("repair_stream_table", told, pa.string())


_NAME = Parameter("name")


def _function(
    name: str, does: str, parameters: Sequence[Parameter], run: Callable[..., pa.Table]
) -> PgFunction:
    return PgFunction("pgtrickle", name, does, tuple(parameters), run)


FUNCTIONS = (
    _function(
        "create_stream_table",
        "makes and fills a stream table of a query in PostgreSQL's SQL",
        _CREATE,
        _creates("create_stream_table"),
    ),
    _function(
        "create_stream_table_if_not_exists",
        "the same; one that is there stays as it is",
        _CREATE,
        _creates("create_stream_table_if_not_exists", if_not_exists=True),
    ),
    _function(
        "create_or_replace_stream_table",
        "makes it, or changes the one that is there as needed",
        _CREATE,
        _creates("create_or_replace_stream_table", or_replace=True),
    ),
    _function(
        "bulk_create",
        "makes several, given as a JSON array of objects; if one fails none is left",
        [Parameter("definitions", (list,))],
        bulk_create,
    ),
    _function("alter_stream_table", "changes what is given", _ALTER, alter_stream_table),
    _function(
        "bulk_alter_stream_tables",
        "changes several one after the other; answers how many",
        [Parameter("names", (list,)), Parameter("params", (dict,))],
        bulk_alter,
    ),
    _function(
        "drop_stream_table",
        "drops it; with `cascade` also those that read it",
        [_NAME, Parameter("cascade", (bool,), False)],
        drop_stream_table,
    ),
    _function(
        "bulk_drop_stream_tables",
        "drops several one after the other; answers how many",
        [Parameter("names", (list,))],
        bulk_drop,
    ),
    _function("refresh_stream_table", "refreshes it now", [_NAME], refresh_stream_table),
    _function(
        "refresh_if_stale",
        "refreshes it if it is older than `max_age`; answers whether it did",
        [_NAME, Parameter("max_age", (str,), "5 min")],
        refresh_if_stale,
    ),
    _function(
        "write_and_refresh",
        "runs a statement, commits it, and refreshes the stream table",
        [Parameter("sql"), _NAME],
        write_and_refresh,
    ),
    _function("resume_stream_table", "ends a suspension", [_NAME], resume_stream_table),
    _function(
        "repair_stream_table", "builds contents and state anew", [_NAME], repair_stream_table
    ),
)
