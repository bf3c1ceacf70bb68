"""Commands about stream tables. Only refresh, verify and repair may start Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from spark_trickle.cli import output
from spark_trickle.cli.opening import DataPathOption, LakeOption, open_lake
from spark_trickle.cli.output import Format
from spark_trickle.errors import TrickleError, UserError

if TYPE_CHECKING:
    from spark_trickle.lake import Lake
    from spark_trickle.maintain.records.history import RefreshReport

FormatOption = Annotated[Format, typer.Option("--format", help="How rows are written.")]
NameArgument = Annotated[str, typer.Argument(help="The stream table.")]
_REPORT = ("name", "mode", "rows", "seconds", "reason")


def refresh(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Stream tables; name+ with all that read it, +name with all it reads; odd `names`."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Recompute in full.")] = False,
    lake: LakeOption = None,
    data_path: DataPathOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Refresh stream tables; exit code 1 if one of them fails."""
    if bool(names) == everything:
        raise UserError("name stream tables, or say --all", hint="trickle refresh --all")
    with open_lake(lake, data_path) as opened:
        if everything and full:
            names = [info.name for info in opened.stream_tables()]
        chosen = any("+" in name or "*" in name for name in names or [])
        if (everything or chosen) and not full:
            with output.working("refreshing …"):
                reports = opened.refresh_all(None if everything else names)
        else:
            reports = [_refreshed(opened, name, full) for name in names or []]
        show_reports(reports, form)
    if any(report.failed for report in reports):
        raise typer.Exit(1)


def _refreshed(lake: Lake, name: str, full: bool) -> RefreshReport:
    from spark_trickle.maintain.records.history import RefreshReport

    try:
        with output.working(f"refreshing {name} …"):
            return lake.refresh_stream_table(name, full=full)
    except TrickleError as error:
        output.error(error)
        reason = f"{type(error).__name__}: {error.message}"
        return RefreshReport(name, "ERROR", reason, error=str(error))


def show_reports(reports: Sequence[RefreshReport], form: Format) -> None:
    """What refreshes did; programs get every field."""
    from spark_trickle.maintain.records.monitor import history_relation

    if form is not Format.TABLE:
        output.write(history_relation(reports), form, None)
        return
    rows = [
        {
            "name": report.name,
            "mode": report.effective_mode,
            "rows": f"+{report.rows_inserted} -{report.rows_deleted}",
            "seconds": round(report.seconds, 2),
            "reason": report.reason,
        }
        for report in reports
    ]
    kinds = [pa.float64() if name == "seconds" else pa.string() for name in _REPORT]
    schema = pa.schema(list(zip(_REPORT, kinds, strict=True)))
    output.write(output.records(rows, schema), form, None)


def status(
    lake: LakeOption = None, data_path: DataPathOption = None, form: FormatOption = Format.TABLE
) -> None:
    """Show all stream tables: modes, how stale they are, errors."""
    from spark_trickle.maintain.records.monitor import tables_relation

    with open_lake(lake, data_path) as opened:
        found = opened.stream_tables()
        newest = opened.version
    if form is not Format.TABLE:
        output.write(tables_relation(found), form, None)
        return
    if not found:
        output.text(f"no stream tables; the lake is at version {newest}")
        return
    rows = [
        {
            "name": info.name,
            "mode": info.refresh_mode,
            "ran": info.effective_mode,
            "status": info.status,
            "stale": _seconds(info.staleness),
            "refreshed": _moment(info.last_refresh_at),
            "error": (info.last_error or "").split("\n")[0] or None,
        }
        for info in found
    ]
    if all(row["error"] is None for row in rows):
        for row in rows:
            del row["error"]
    output.write(output.records(rows, _text_schema(rows)), form, None)


def history(
    name: Annotated[str | None, typer.Argument(help="One stream table.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="The newest so many.")] = 20,
    lake: LakeOption = None,
    data_path: DataPathOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show the refreshes of one stream table, or of all, newest first."""
    with open_lake(lake, data_path) as opened:
        show_reports(opened.refresh_history(name)[:limit], form)


def explain(
    name_or_query: Annotated[str, typer.Argument(help="A stream table, or a SELECT.")],
    stage: Annotated[str | None, typer.Option(help="One stage, such as verdict.")] = None,
    dialect: Annotated[str, typer.Option(help="spark or postgres.")] = "spark",
    form: Annotated[
        str, typer.Option("--format", help="text, tree, sql, json or mermaid.")
    ] = "text",
    lake: LakeOption = None,
    data_path: DataPathOption = None,
) -> None:
    """Show verdict, plan and delta SQL of a stream table or of a query."""
    with open_lake(lake, data_path) as opened:
        output.text(opened.explain(name_or_query, stage, dialect=dialect, format=form).rstrip("\n"))


def verify(
    names: Annotated[list[str], typer.Argument(help="Stream tables.")],
    lake: LakeOption = None,
    data_path: DataPathOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Compare stream tables with their queries; exit code 1 if one differs."""
    wrong = False
    with open_lake(lake, data_path) as opened:
        for name in names:
            with output.working(f"verifying {name} …"):
                found = opened.verify(name)
            if found:
                wrong = True
                output.write(found.rows, form, None)
            output.note(str(found).split("\n")[0])
    if wrong:
        raise typer.Exit(1)


def repair(
    name: NameArgument,
    lake: LakeOption = None,
    data_path: DataPathOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Build a stream table anew after an error."""
    with open_lake(lake, data_path) as opened:
        with output.working(f"repairing {name} …"):
            report = opened.repair_stream_table(name)
        show_reports([report], form)


def graph(
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid diagram.")] = False,
    lake: LakeOption = None,
    data_path: DataPathOption = None,
) -> None:
    """Show which tables stream tables read."""
    with open_lake(lake, data_path) as opened:
        edges = [(source, info.name) for info in opened.stream_tables() for source in info.sources]
    if mermaid:
        names = sorted({name for edge in edges for name in edge})
        lines = [f'  n{i}["{name}"]' for i, name in enumerate(names)]
        lines += [f"  n{names.index(a)} --> n{names.index(b)}" for a, b in edges]
        output.text("\n".join(["graph LR", *lines]))
        return
    readers = {target for _, target in edges}
    for root in sorted({source for source, _ in edges} - readers):
        output.text("\n".join(_tree(root, edges, "")))


def _tree(name: str, edges: Sequence[tuple[str, str]], indent: str) -> list[str]:
    lines = [f"{indent}{name}"]
    for target in sorted({b for a, b in edges if a == name}):
        lines += _tree(target, edges, indent + "  ")
    return lines


def _seconds(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds else "no"


def _moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _text_schema(rows: Sequence[dict[str, Any]]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in rows[0]])


COMMANDS = (refresh, status, history, explain, verify, graph, repair)
