"""Which files may hold rows that meet conditions, said by the catalog itself: for who does not have the list.

Law: a file is left out only if its statistics are there and are read here as ``statistics`` reads them,
and no value between them is wanted. So it is a superset of what ``pruning`` keeps, and is pruned in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.catalog.structure import VISIBLE
from spark_trickle.storage.files.calendar import FIRST_DAY, LAST_DAY, date_text
from spark_trickle.storage.manifest.columns import read_columns
from spark_trickle.storage.manifest.pieces import FEW
from spark_trickle.storage.read.pruning import SortedValues, WantedValues
from spark_trickle.storage.records import Table

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_APART = 4
"""Of no more wanted values each is looked for, of more what lies between the first and the last."""

_TERMS = {
    # SQLite makes a number of any text; PostgreSQL refuses, and the list is read instead.
    ("sqlite", "integer"): "(CAST({end} AS INTEGER) {sign} ? "
    "AND CAST(CAST({end} AS INTEGER) AS VARCHAR) = {end})",
    ("postgres", "integer"): "CAST({end} AS BIGINT) {sign} ?",
    ("sqlite", "string"): "{end} {sign} ?",
    ("postgres", "string"): '{end} COLLATE "C" {sign} ?',
    # Years of four digits are in the order of their texts; the others are longer.
    ("sqlite", "date"): "({end} LIKE '____-__-__' AND {end} {sign} ?)",
    ("postgres", "date"): "({end} LIKE '____-__-__' AND {end} COLLATE \"C\" {sign} ?)",
}
"""When an end of a file lies beyond a wanted value, by database and kind of column."""

# Files of which nothing is known stay: only what is there takes away. SQLite merges both lists along an
# index, and needs none; PostgreSQL's own way to do EXCEPT takes twice as long as its join.
_WITHOUT = {
    "sqlite": " EXCEPT SELECT data_file_id FROM ducklake_file_column_stats "
    "WHERE table_id = ? AND column_id = ? AND ({})",
    "postgres": " AND NOT EXISTS (SELECT 1 FROM ducklake_file_column_stats s WHERE s.table_id = ? "
    "AND s.column_id = ? AND s.data_file_id = f.data_file_id AND ({}))",
}
Said = tuple[str, list[Any]]
"""A condition in SQL with its parameters."""


def possible_files(
    connection: Connection, table: Table, version: int, wanted: Sequence[WantedValues]
) -> list[int] | None:
    """The files of a version without those that hold no row that meets all; None: too many to name, or
    nothing is wanted that the catalog can compare."""
    outside = [(number, o) for own in wanted for number, o in _outside(connection, table, own)]
    if not outside:
        return None
    sql = f"SELECT data_file_id FROM ducklake_data_file f WHERE table_id = ? AND {VISIBLE}"
    parameters = [table.id, version, version]
    for number, (condition, own) in outside:
        sql += _WITHOUT[connection.kind].format(condition)
        parameters += [table.id, number, *own]
    rest = f"({sql} ORDER BY data_file_id) AS f"
    (found,), _ = read_columns(connection, ["data_file_id"], [], rest, parameters)
    return None if len(found) > FEW else [int(number) for number in found]


def _outside(connection: Connection, table: Table, wanted: WantedValues) -> list[tuple[int, Said]]:
    """By column: when a file holds no wanted value, as far as it can be said in SQL."""
    kinds = {column.id: _kind(column.type) for column in table.columns}
    found = []
    for number, condition in wanted.items():
        said = _of_column(connection.kind, kinds[number], condition)
        if said is not None:
            found.append((number, said))
    return found


def _kind(type_text: str) -> str:
    return "integer" if type_text in _INTEGERS else type_text


def _of_column(kind: str, column: str, condition: tuple[Any, Any] | SortedValues) -> Said | None:
    if (kind, column) not in _TERMS:
        return None
    if not isinstance(condition, SortedValues):
        return _beyond(kind, column, *condition)
    values = condition.ordered
    if not values or condition.nan:
        return None
    ranges = [(v, v) for v in values] if len(values) <= _APART else [(values[0], values[-1])]
    each = [_beyond(kind, column, *ends) for ends in ranges]
    terms = [said for said in each if said is not None]
    if len(terms) < len(each):
        return None
    text = " AND ".join(f"({term})" for term, _ in terms)
    if condition.null:
        text += " AND null_count = 0"
    return text, [value for _, own in terms for value in own]


def _beyond(kind: str, column: str, low: Any, high: Any) -> Said | None:
    """When all values of a file lie beyond the ends; an end that is open or cannot be said rules nothing
    out, and it is None if so is the other."""
    terms, parameters = ["value_count = 0"], []
    for end, sign, value in (("max_value", "<", low), ("min_value", ">", high)):
        said = _said(column, value)
        if said is not None:
            terms.append(_TERMS[kind, column].format(end=end, sign=sign))
            parameters.append(said)
    return (" OR ".join(terms), parameters) if parameters else None


def _said(column: str, value: Any) -> Any:
    """A value as the database compares it; None if it cannot."""
    if column == "string":
        return value if isinstance(value, str) and _plain(value) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if column == "date":
        return date_text(value) if FIRST_DAY <= value <= LAST_DAY else None
    return value if -(2**63) <= value < 2**63 else None


def _plain(text: str) -> bool:
    """Whether databases take the text: no zero byte and no half of a character."""
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
