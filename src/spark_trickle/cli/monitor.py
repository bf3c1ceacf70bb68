"""``trickle health``, ``alerts``, ``recommend``: no Spark is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pyarrow as pa
import typer

from spark_trickle.cli import output
from spark_trickle.cli.opening import DataPathOption, LakeOption, open_lake
from spark_trickle.cli.output import Format

FormatOption = Annotated[Format, typer.Option("--format", help="How rows are written.")]


def health(
    lake: LakeOption = None, data_path: DataPathOption = None, form: FormatOption = Format.TABLE
) -> None:
    """OK, or what is wrong and what to do. Exit code: 0 OK, 3 a warning, 4 critical."""
    with open_lake(lake, data_path) as opened:
        found = opened.health()
    _show(found, ("name", "status", "reason", "action"), form)
    raise typer.Exit({"OK": 0, "WARNING": 3, "CRITICAL": 4}[found[0].status])


def alerts(
    lake: LakeOption = None, data_path: DataPathOption = None, form: FormatOption = Format.TABLE
) -> None:
    """What somebody should know of now, the worst first."""
    with open_lake(lake, data_path) as opened:
        found = opened.alerts()
    _show(found, ("kind", "name", "severity", "message", "action"), form, "no alerts")


def recommend(
    name: Annotated[str, typer.Argument(help="The stream table.")],
    lake: LakeOption = None,
    data_path: DataPathOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """What would make a stream table cheaper to keep, with the figures."""
    with open_lake(lake, data_path) as opened:
        found = opened.recommend(name)
    _show(found, ("about", "advice", "because"), form, "nothing to recommend")


def _show(records: Sequence[Any], names: Sequence[str], form: Format, none: str = "") -> None:
    if not records and form is Format.TABLE:
        output.text(none)
        return
    schema = pa.schema([(name, pa.string()) for name in names])
    output.write(output.records([vars(record) for record in records], schema), form, None)


COMMANDS = (health, alerts, recommend)
