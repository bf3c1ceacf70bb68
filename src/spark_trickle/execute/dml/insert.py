"""INSERT … SELECT, INSERT of computed VALUES, and DataFrames appended: through Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_trickle.errors import BindError, ExecutionError, Position
from spark_trickle.spark.writing.assign import assign, misfit
from spark_trickle.spark.writing.write import WaitingRows, Writer
from spark_trickle.statements.text.cursor import Span
from spark_trickle.storage.records import Column, Table

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.session import DataFrame


def stage_query(
    writer: Writer,
    frame: DataFrame,
    table: Table,
    columns: Sequence[Column],
    place: tuple[str, Span],
    reads: int = 0,
) -> WaitingRows:
    """The rows of a query that reads so many bytes, its columns taken in order for ``columns``."""
    sql, span = place
    if len(frame.columns) != len(columns):
        raise BindError(
            f"{len(columns)} columns of {table} are to be filled, "
            f"but the query has {len(frame.columns)}",
            position=Position.of_span(sql, span.start, span.end),
            hint="name the columns to fill: INSERT INTO t (a, b) …",
        )
    # The query may name two columns alike; their order is what counts.
    names = [f"__trickle_c{i}" for i in range(len(columns))]
    given = {column.name: name for column, name in zip(columns, names, strict=True)}
    return _stage(writer, frame.toDF(*names), table, given, reads)


def stage_by_name(writer: Writer, frame: DataFrame, table: Table, reads: int = 0) -> WaitingRows:
    """The rows of a DataFrame whose column names say where the values go."""
    return _stage(writer, frame, table, by_name(table, frame.columns), reads)


def by_name(table: Table, names: Sequence[str]) -> dict[str, str]:
    """By column of the table: the name it has in the data."""
    given: dict[str, str] = {}
    for name in names:
        column = table.column(name)
        if column is None:
            known = ", ".join(c.name for c in table.columns)
            raise BindError(f"{table} has no column {name}", hint=f"it has {known}")
        if column.name in given:
            raise BindError(f"the data has two columns for {column.name} of {table}")
        given[column.name] = name
    return given


def _stage(
    writer: Writer, frame: DataFrame, table: Table, given: dict[str, str], reads: int
) -> WaitingRows:
    try:
        return writer.stage(table, assign(frame, table, given), reads=reads)
    except ExecutionError as error:
        raise misfit(frame, table, given, error) from None
