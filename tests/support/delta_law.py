"""The delta law, checked on DuckDB: Q(after) = Q(before) + D(Q) for every stored part.

The oracle is the text of the query itself, run by DuckDB on the tables before and after. The plans
under test come from the compiler and run on the same database through the lowered trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from sqlglot import exp

from spark_trickle.compile import CompiledQuery, compile_query
from spark_trickle.ir.types import Column, Side, TableSchema
from support.predicates import Kind
from support.queries import Data, Row


@dataclass(frozen=True)
class Failure:
    """Where the law broke: the part, and the rows it misses or has too many."""

    part: str
    missing: Counter[Row]
    extra: Counter[Row]
    delta_sql: str
    delta_plan: str


def sources_of(tables: Mapping[str, Mapping[str, Kind]]) -> dict[str, TableSchema]:
    """Sources with columns of these kinds."""
    return {
        name: TableSchema(
            name,
            tuple(
                Column(i, c, exp.DataType.build(kind.type, dialect="spark"))
                for i, (c, kind) in enumerate(columns.items())
            ),
        )
        for name, columns in tables.items()
    }


def table_names(source: str, version: Side) -> exp.Table:
    """A schema per version holds the tables of that version."""
    return exp.Table(
        this=exp.Identifier(this=source, quoted=True),
        db=exp.Identifier(this=version.value, quoted=True),
    )


class Laboratory:
    """A DuckDB database with the tables before, after and their deltas."""

    def __init__(self, sources: Mapping[str, TableSchema]) -> None:
        self.sources = dict(sources)
        self._columns = {
            name: ", ".join(f'"{c.name}" {c.type.sql("duckdb")}' for c in source.columns)
            for name, source in self.sources.items()
        }
        self.left_out = 0
        self.local = 0
        """Deltas that were computed in this process, too."""
        """Rows that deltas over the rows nearby did not see."""
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        # Of a dozen rows a plan costs more than what it saves. And DuckDB 1.5 takes "the condition
        # holds for all values" for "every row has a partner", even if there is none: ANTI JOIN
        # then returns nothing.
        self.connection.execute("PRAGMA disable_optimizer")
        self.connection.execute("CREATE TEMP MACRO sequence(a, b) AS generate_series(a, b)")
        for version in Side:
            self.connection.execute(f"CREATE SCHEMA {version.value}")

    def close(self) -> None:
        self.connection.close()

    def load(self, data: Data) -> None:
        """Fill the tables of all versions."""
        after = data.after()
        statements: list[str] = []
        for name in self.sources:
            delta = data.delta.get(name, Counter())
            statements += self._fill(name, Side.BEFORE, data.before.get(name, Counter()).elements())
            statements += self._fill(name, Side.AFTER, after.get(name, Counter()).elements())
            weighted = [(*row, weight) for row, weight in delta.items()]
            statements += self._fill(name, Side.DELTA, weighted)
        self.connection.execute(";".join(statements))

    def _fill(self, name: str, version: Side, rows: Iterable[Row]) -> list[str]:
        typed = self._columns[name]
        if version is Side.DELTA:
            typed += ', "__weight" BIGINT'
        table = f'{version.value}."{name}"'
        statements = [f"CREATE OR REPLACE TABLE {table} ({typed})"]
        values = [f"({', '.join(map(_literal, row))})" for row in rows]
        if values:
            statements.append(f"INSERT INTO {table} VALUES {', '.join(values)}")
        return statements

    def show(self, table: str, rows: pa.Table) -> None:
        """Fill one more table."""
        self.connection.register("shown", rows)
        self.connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM shown")
        self.connection.unregister("shown")

    def oracle(self, sql: str, version: Side) -> Counter[Row]:
        """What DuckDB says the query means."""
        self.connection.execute(f"USE {version.value}")
        return Counter(self.connection.execute(sql).fetchall())

    def check(self, query: CompiledQuery, sql: str, data: Data) -> Failure | None:
        """Compute every part's delta, store the parts, and compare with the oracle."""
        self.result_delta: Counter[Row] = Counter()
        changed = [name for name, delta in data.delta.items() if +delta or -delta]
        inserts = [name for name in changed if not -data.delta[name]]
        deltas = {d.part.name: d for d in query.delta(changed, inserts).parts}
        for part in query.parts:
            names = [column.name for column in part.columns]
            full = query.full_query(part, table_names).sql("duckdb", copy=False)
            self._store(part.name, Side.BEFORE, full.replace('"after".', '"before".'))
            before = self._rows(part.name, Side.BEFORE)
            if part is query.result:  # which nothing reads, and the text itself says what it is
                after = self.oracle(sql, Side.AFTER)
            else:
                self._store(part.name, Side.AFTER, full)
                after = self._rows(part.name, Side.AFTER)
            text, plan = "", ""
            if part.name in deltas:
                text = deltas[part.name].query(table_names).sql("duckdb", copy=False)
                self._store(part.name, Side.DELTA, text)
                delta = _weighted(self._rows(part.name, Side.DELTA))
                before.update(delta)
                if part is query.result:
                    self.result_delta = delta
            if {row: n for row, n in before.items() if n} != dict(after):
                if part.name in deltas:
                    plan = query.explain("delta", changed=changed)
                missing = Counter(after)
                missing.subtract(before)
                return Failure(f"{part.name} {names}", +missing, -missing, text, plan)
        return None

    def _store(self, name: str, version: Side, sql: str) -> None:
        self.connection.execute(f'CREATE OR REPLACE TABLE {version.value}."{name}" AS {sql}')

    def _rows(self, name: str, version: Side) -> Counter[Row]:
        sql = f'SELECT * FROM {version.value}."{name}"'
        return Counter(self.connection.execute(sql).fetchall())


def _weighted(rows: Counter[Row]) -> Counter[Row]:
    """Rows whose last value is their weight; the lowered delta must be net already."""
    assert all(count == 1 and row[-1] != 0 for row, count in rows.items()), "not net"
    return Counter({row[:-1]: row[-1] for row in rows})


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int | float) else "'" + str(value) + "'"


def run_example(sql: str, data: Data, sources: Mapping[str, TableSchema]) -> Failure | None:
    """One example in a database of its own."""
    laboratory = Laboratory(sources)
    try:
        laboratory.load(data)
        return laboratory.check(compile_query(sql, sources), sql, data)
    finally:
        laboratory.close()


def shrink(sql: str, data: Data, sources: Mapping[str, TableSchema]) -> Data:
    """Fewer rows and changes that still break the law."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(data):
            if run_example(sql, candidate, sources) is not None:
                data, smaller = candidate, True
                break
    return data


def _smaller(data: Data) -> Iterable[Data]:
    for kind in ("delta", "before"):
        for name, rows in getattr(data, kind).items():
            for row in list(rows):
                parts = {
                    "delta": {n: Counter(r) for n, r in data.delta.items()},
                    "before": {n: Counter(r) for n, r in data.before.items()},
                }
                del parts[kind][name][row]
                candidate = Data(parts["before"], parts["delta"])
                if _possible(candidate):
                    yield candidate


def _possible(data: Data) -> bool:
    """No row is deleted that is not there."""
    return all(
        data.before.get(name, Counter())[row] + weight >= 0
        for name, delta in data.delta.items()
        for row, weight in delta.items()
    )


def report(sql: str, data: Data, failure: Failure, query: CompiledQuery | None) -> str:
    """Everything needed to understand a failure."""
    plan = query.explain("segments") if query is not None else ""
    return "\n".join(
        [
            f"query: {sql}",
            *(f"before {name}: {dict(rows)}" for name, rows in data.before.items()),
            *(f"change {name}: {dict(rows)}" for name, rows in data.delta.items()),
            f"part: {failure.part}",
            f"missing: {dict(failure.missing)}",
            f"extra: {dict(failure.extra)}",
            plan,
            failure.delta_plan,
            failure.delta_sql,
        ]
    )
