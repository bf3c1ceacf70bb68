"""Queries over the whole SQL surface as stream tables, beside Spark running their text.

All of them share three tables of awkward values (NULL, NaN, -0.0, blanks, nested ones), which change
by every kind of statement. In the end every stream table must hold what plain Spark answers, in the
same types, and must have got there by deltas.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle import Lake, RefreshReport
from spark_trickle.spark.sessions.desks import PACES
from support.watched import contents

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_500)]

ROUNDS = 2
QUERIES = [
    line.removesuffix(";")
    for line in Path(__file__).with_name("battery.sql").read_text().splitlines()
    if not line.startswith("--")
]
TEXTS = ("'a'", "'b'", "''", "'A'", "'a '", "'é'", "'x%'", "'x_'")
DOUBLES = ("0.0D", "-0.0D", "0.5D", "1.5D", "2.25D", "-1.5D", "double('NaN')", "double('inf')")
BINARIES = ("X'01'", "X'0102'", "X''")
TABLES = {
    "a": "id BIGINT, g INT, s STRING, x INT, d DOUBLE, m DECIMAL(10,2), t TIMESTAMP, dt DATE, "
    "arr ARRAY<INT>, st STRUCT<p: INT, q: STRING>, mp MAP<STRING, INT>, b BOOLEAN",
    "b": "k INT, s STRING, v BIGINT, w DECIMAL(12,3)",
    "c": "k INT, g INT, ts TIMESTAMP, bin BINARY",
}


class Churn:
    """Statements with values by chance, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._last_id = 0

    def insert(self, table: str, rows: int) -> str:
        values = ", ".join(getattr(self, f"_row_of_{table}")() for _ in range(rows))
        return f"INSERT INTO {table} VALUES {values}"

    def statements(self) -> Iterator[str]:
        yield self.insert("a", 4)
        yield f"DELETE FROM a WHERE id % 7 = {self._number(0, 6)}"
        yield f"UPDATE a SET g = {self._one_of('NULL', '1', 'g + 1')}, x = coalesce(x, 0) + 1, " + (
            f"s = {self._one_of('s', 'NULL', *TEXTS)} WHERE id % 5 = {self._number(0, 4)}"
        )
        yield self.insert("b", 3)
        yield f"DELETE FROM b WHERE k = {self._number(0, 5)} OR s IS NULL"
        yield f"UPDATE b SET v = v + 1, k = k + 1 WHERE v % 3 = {self._number(0, 2)}"
        yield self.insert("c", 2)
        yield f"DELETE FROM c WHERE g = {self._number(0, 4)}"
        yield (
            "MERGE INTO b USING (SELECT DISTINCT k FROM c WHERE k IS NOT NULL) u "
            "ON b.k = u.k AND b.v = 1 WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (k, s, v) VALUES (u.k, 'm', 1)"
        )

    def _row_of_a(self) -> str:
        self._last_id += 1
        items = ", ".join(self._or_null(self._number(0, 3)) for _ in range(self._number(1, 3)))
        return self._row(
            self._number(0, 4),
            self._one_of(*TEXTS),
            self._number(-5, 5),
            self._one_of(*DOUBLES),
            f"{self._number(-300, 300) / 100:.2f}",
            f"TIMESTAMP'2024-0{self._number(1, 4)}-1{self._number(0, 3)} 0{self._number(0, 9)}:30:00'",
            f"DATE'2024-0{self._number(1, 3)}-2{self._number(0, 9)}'",
            f"array({items})",
            f"named_struct('p', {self._number(0, 2)}, 'q', {self._one_of(*TEXTS)})",
            f"map('k1', {self._or_null(self._number(0, 3))}, 'k2', {self._number(0, 3)})",
            self._one_of("true", "false"),
            first=str(self._last_id),
        )

    def _row_of_b(self) -> str:
        return self._row(
            self._number(0, 5), self._one_of(*TEXTS), self._number(-9, 9), self._number(-9, 9) / 8
        )

    def _row_of_c(self) -> str:
        month = f"TIMESTAMP'2024-0{self._number(1, 3)}-15 00:00:00'"
        return self._row(self._number(0, 5), self._number(0, 4), month, self._one_of(*BINARIES))

    def _row(self, *values: object, first: str | None = None) -> str:
        shown = [self._or_null(value) for value in values]
        return f"({', '.join([first, *shown] if first else shown)})"

    def _or_null(self, value: object) -> str:
        return "NULL" if self._random.random() < 0.15 else str(value)

    def _number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def _one_of(self, *choices: str) -> str:
        return self._random.choice(choices)


@pytest.fixture(scope="module")
def faults(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """By query: the first thing that was not as it should be."""
    found = dict[int, str]()
    session = spark.newSession()
    for key, value in PACES["tiny"].items():  # half of the time would go into compiling each query
        session.conf.set(key, value)
    folder = tmp_path_factory.mktemp("battery") / "lake"
    with spark_trickle.connect(folder, spark=session) as lake:
        _run(lake, found)
        _compare(lake, session, found)
    return found


def _run(lake: Lake, found: dict[int, str]) -> None:
    """Make tables and stream tables, change the tables, refresh."""
    churn = Churn(11)
    for table, columns in TABLES.items():
        lake.sql(f"CREATE TABLE {table} ({columns})")
        lake.sql(churn.insert(table, 30 if table == "a" else 12))
    for number, query in enumerate(QUERIES):
        with _told(found, number, "creation"):
            lake.create_stream_table(
                f"q{number}", query, refresh_mode="DIFFERENTIAL", initialize=False
            )
    _note(found, lake.refresh_all(), "FULL")
    for _ in range(ROUNDS):
        for statement in churn.statements():
            lake.sql(statement)
    _note(found, lake.refresh_all(), "DIFFERENTIAL", "TOPK", "NO_DATA")


def _note(found: dict[int, str], reports: Sequence[RefreshReport], *modes: str) -> None:
    for report in reports:
        if report.effective_mode not in modes:
            said = f"{report.effective_mode}, {report.reason}"
            found.setdefault(int(report.name.rpartition("q")[2]), said)


@contextmanager
def _told(found: dict[int, str], number: int, when: str) -> Iterator[None]:
    """Notes whatever is raised inside as the fault of a query."""
    try:
        yield
    except Exception as error:
        found.setdefault(number, f"{when}: {type(error).__name__}: {error}")


def _compare(lake: Lake, spark: SparkSession, found: dict[int, str]) -> None:
    for table in TABLES:
        lake.table(table).createOrReplaceTempView(table)
    for number, query in enumerate(QUERIES):
        if number not in found:
            with _told(found, number, "contents"):
                _same(lake.table(f"q{number}"), contents(lake, f"q{number}"), spark.sql(query))


def _same(shown: DataFrame, held: pa.Table, wanted: DataFrame) -> None:
    types = [[field.dataType.simpleString() for field in f.schema] for f in (shown, wanted)]
    assert types[0] == types[1]
    rows = [
        Counter(_plain(tuple(row.values())) for row in found.to_pylist())
        for found in (held, wanted.toDF(*held.column_names).toArrow())
    ]
    extra, missing = rows[0] - rows[1], rows[1] - rows[0]
    assert not extra + missing, f"extra {[*extra][:3]}, missing {[*missing][:3]}"


def _plain(value: Any) -> Any:
    """Values that can be counted; doubles to nine digits, for their sums depend on the order."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else 0.0 if abs(value) < 1e-9 else float(f"{value:.9g}")
    if isinstance(value, dict):
        return frozenset((_plain(key), _plain(item)) for key, item in value.items())
    if isinstance(value, tuple | list):
        return tuple(_plain(item) for item in value)
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_it_holds_what_spark_answers(number: int, faults: dict[int, str]) -> None:
    assert number not in faults, f"{QUERIES[number]}\n{faults[number]}"
