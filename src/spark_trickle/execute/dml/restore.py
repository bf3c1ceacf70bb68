"""What needs the rows of a table as a whole: RESTORE TABLE, and whether a column has NULLs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from spark_trickle.errors import BindError, NotFoundError, SourceChangedError
from spark_trickle.execute.states import TransactionState, table_name, version_at
from spark_trickle.statements import parse as ast
from spark_trickle.statements.text.splices import quoted
from spark_trickle.statements.values import read_literal, store
from spark_trickle.storage.records import ScanPlan, Table

if TYPE_CHECKING:
    from spark_trickle.execute.engine import Engine


def restore(engine: Engine, statement: ast.Restore, state: TransactionState) -> int:
    """Give a table the rows of a version; how many they are. Readers see the net difference."""
    table = state.table(table_name(statement.name))
    version = statement.version
    if version is None:
        version = version_at(engine.catalog, _moment(engine, statement.timestamp or ""))
    then = _then(engine, table, version)
    plan = engine.catalog.scan(then, version)
    state.tx.truncate(table)
    return engine.rows_of(plan, state, table)


def _then(engine: Engine, table: Table, version: int) -> Table:
    engine.catalog.at(version).find(table.uuid)  # NotFoundError if it has expired or is to come
    then = engine.catalog.find(table.uuid, version)
    if then is None:
        raise NotFoundError(f"table {table} did not exist at version {version}")
    shapes = [[(c.id, c.name, c.type) for c in t.columns] for t in (then, table)]
    if shapes[0] != shapes[1]:
        raise SourceChangedError(
            f"the columns of {table} are not those of version {version}",
            hint=f"CREATE OR REPLACE TABLE {table} AS SELECT … FROM {table} VERSION AS OF {version}",
        )
    return then


def _moment(engine: Engine, text: str) -> datetime:
    """The moment that a literal or an expression means."""
    literal = read_literal(text)
    if literal is not None and literal.kind == "string":
        literal = read_literal(f"CAST({text} AS TIMESTAMP)")
    if literal is not None:
        known, value = store(literal, "timestamp", engine.holder.time_zone)
        if known and isinstance(value, datetime):
            return value
    raise BindError(f"{text} is not a time", hint="TIMESTAMP AS OF '2026-01-31 12:00:00'")


def has_null(engine: Engine, state: TransactionState, table: Table, name: str) -> bool:
    """Whether a row of the table is NULL in a column: from the catalog, or else by Spark.

    The answer is to hold at commit, too.
    """
    state.tx.assume(table)
    plan = state.scan(table)
    known = _nulls(plan, name)
    if known is not None:
        return known
    from spark_trickle.spark.failures import spark_errors

    with spark_errors():
        found = engine.frames.scan(plan).where(f"{quoted(name)} IS NULL").limit(1)
        return bool(found.toArrow().num_rows)


def _nulls(plan: ScanPlan, name: str) -> bool | None:
    """Whether a column has NULLs, from the catalog; None where it does not say."""
    column = plan.table.column(name)
    assert column is not None
    if plan.inlined.column(column.name).null_count:
        return True
    for file in plan.files:
        if column.id in file.missing:
            if column.initial_default is None and file.live:
                return True
        elif column.id not in file.bounds or file.bounds[column.id].nulls != 0:
            return None
    return False
